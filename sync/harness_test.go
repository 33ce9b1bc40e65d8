package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
	"github.com/trueup/trueup/testdata/kubetest"
)

// patience bounds every wait of these tests; on an idle machine each takes a second or two.
const patience = 90 * time.Second

// world is one test's part of the cluster: a namespace with an agent that looks after its Applications, and a
// repository.
type world struct {
	*kubetest.Cluster
	t          testing.TB
	ns         string
	git        *gitserver.Repository
	clients    *Clients
	agentUser  *rest.Config
	cacheDir   string
	config     Config
	log        *slog.Logger // of the agent; that of the test by default
	stop       func()
	controller *Controller
}

// newWorld installs what deploy/ installs, and a ServiceAccount with just those rights, and starts an agent as it.
func newWorld(t testing.TB, adjust ...func(*Config)) *world {
	t.Helper()
	w := newIdleWorld(t, kubetest.Shared(t), adjust...)
	w.start()
	return w
}

func newIdleWorld(t testing.TB, cluster *kubetest.Cluster, adjust ...func(*Config)) *world {
	t.Helper()
	w := &world{Cluster: cluster, t: t}
	install(t, cluster)
	w.ns = cluster.Namespace(t)
	clients, err := NewClients(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	w.clients = clients
	w.git = gitserver.New(t, t.TempDir(), gitserver.Options{})
	w.cacheDir = t.TempDir()
	w.agentUser = w.serviceAccount()
	w.config = DefaultConfig()
	w.config.ApplicationNamespace, w.config.CredentialsNamespace = w.ns, w.ns
	w.config.PollInterval = time.Second
	w.config.MetricsAddress = ""
	w.config.LeaderElect = false
	w.config.CacheDir = w.cacheDir
	for _, f := range adjust {
		f(&w.config)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the loops are at, of %d goroutines:\n%s", runtime.NumGoroutine(), loops())
		}
		if w.stop != nil {
			w.stop()
		}
	})
	return w
}

// loops returns the stacks of the goroutines that are in the middle of a look at Git or of a pass.
func loops() string {
	stacks := make([]byte, 64<<20) // with many tests in one process there are thousands
	stacks = stacks[:runtime.Stack(stacks, true)]
	var busy []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "(*Controller).refresh(") || strings.Contains(stack, "(*Controller).pass(") {
			busy = append(busy, stack)
		}
	}
	return strings.Join(busy, "\n\n")
}

// install applies what does not belong to one namespace: the API and the ClusterRoles.
func install(t testing.TB, cluster *kubetest.Cluster) {
	t.Helper()
	for _, file := range []string{"crd.yaml", "clusterrole-reader.yaml", "clusterrole-managed.yaml"} {
		raw, err := os.ReadFile(filepath.Join("..", "deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		cluster.Kubectl(t, string(raw), "apply", "--server-side", "--force-conflicts", "-f", "-")
	}
	cluster.Kubectl(t, "", "wait", "--for=condition=Established", "crd/applications.trueup.dev", "--timeout=30s")
}

// serviceAccount makes a ServiceAccount with what deploy/ gives to the agent, and returns a client's configuration
// with a real token of it.
func (w *world) serviceAccount() *rest.Config {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "deploy", "role.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	role := strings.ReplaceAll(string(raw), "namespace: trueup", "namespace: "+w.ns)
	w.Kubectl(w.t, role, "apply", "-f", "-")
	w.Kubectl(w.t, "", "create", "serviceaccount", "trueup", "-n", w.ns)
	for _, clusterRole := range []string{"trueup-reader", "trueup-managed"} {
		name := clusterRole + "-" + w.ns
		w.Kubectl(w.t, "", "create", "clusterrolebinding", name, "--clusterrole="+clusterRole, "--serviceaccount="+w.ns+":trueup")
		w.t.Cleanup(func() { _, _ = w.TryKubectl(context.Background(), "", "delete", "clusterrolebinding", name) })
	}
	return w.ServiceAccountConfig(w.t, w.ns, "trueup")
}

// agentClients are clients with the agent's credentials.
func (w *world) agentClients() *Clients {
	w.t.Helper()
	clients, err := NewClients(w.agentUser)
	if err != nil {
		w.t.Fatal(err)
	}
	return clients
}

// start starts an agent; it runs until stop is called or the test ends.
func (w *world) start() {
	w.t.Helper()
	level := slog.LevelWarn
	if os.Getenv("TRUEUP_TEST_DEBUG") != "" {
		level = slog.LevelDebug
	}
	log := w.log
	if log == nil {
		log = slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: level}))
	}
	agent, err := NewAgent(w.config, w.agentUser, log)
	if err != nil {
		w.t.Fatal(err)
	}
	w.controller = agent.controller
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("running the agent: %v", err)
		}
		w.stop = nil
	}
}

// automated is the policy of most tests: everything is done without asking.
func automated() *v1alpha1.SyncPolicy {
	return &v1alpha1.SyncPolicy{Automated: &v1alpha1.Automated{Prune: true, SelfHeal: true}}
}

// app makes an Application of the repository's folder app, with the given changes.
func (w *world) app(name string, adjust ...func(*v1alpha1.Application)) *v1alpha1.Application {
	w.t.Helper()
	app := &v1alpha1.Application{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
		Spec: v1alpha1.ApplicationSpec{
			Source:      v1alpha1.Source{RepoURL: w.git.URL(), Path: name},
			Destination: v1alpha1.Destination{Namespace: w.ns},
			SyncPolicy:  automated(),
		},
	}
	app.SetGroupVersionKind(v1alpha1.ApplicationKind)
	for _, f := range adjust {
		f(app)
	}
	created, err := w.clients.Applications(w.ns).Create(context.Background(), app, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

func (w *world) get(name string) *v1alpha1.Application {
	w.t.Helper()
	app, err := w.clients.Applications(w.ns).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return app
}

// until waits until the Application is as check wants it.
func (w *world) until(name string, check func(*v1alpha1.Application) error) *v1alpha1.Application {
	w.t.Helper()
	var app *v1alpha1.Application
	kubetest.Eventually(w.t, patience, func() error {
		app = w.get(name)
		if err := check(app); err != nil {
			status, _ := json.MarshalIndent(app.Status, "", " ")
			return fmt.Errorf("%w; the status is %s", err, status)
		}
		return nil
	})
	return app
}

// synced wants the Application Synced and Healthy at a commit.
func synced(commit string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		s := app.Status
		if s.Sync.Status != v1alpha1.Synced || s.Health.Status != "Healthy" || s.Sync.Revision != commit || s.Sync.SyncedRevision != commit {
			return fmt.Errorf("want Synced, Healthy and %.7s, got %s, %s and %.7s", commit, s.Sync.Status, s.Health.Status, s.Sync.Revision)
		}
		return nil
	}
}

func (w *world) kubectl(args ...string) string {
	w.t.Helper()
	return strings.TrimSpace(w.Kubectl(w.t, "", append([]string{"-n", w.ns}, args...)...))
}

func (w *world) refresh(name string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRefresh, time.Now().Format(time.RFC3339Nano))
	if _, err := w.clients.Applications(w.ns).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// writes counts the agent's own requests since a mark that write or try to write anything but Applications and Events.
func (w *world) writes(since kubetest.AuditMark) []kubetest.AuditEvent {
	w.t.Helper()
	return w.AuditEvents(w.t, since, func(e kubetest.AuditEvent) bool {
		switch e.Verb {
		case "create", "update", "patch", "delete", "deletecollection", "apply":
		default:
			return false
		}
		return e.User == "system:serviceaccount:"+w.ns+":trueup" && !strings.Contains(e.URI, "/applications/") && !strings.Contains(e.URI, "/events")
	})
}

// condition returns a condition of the Application, the zero one where it has none.
func condition(app *v1alpha1.Application, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(app.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}
