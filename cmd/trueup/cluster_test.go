package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	gosync "sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// env is a namespace of the shared cluster that has the Application API.
type env struct {
	*cluster
	kube      *kubetest.Cluster
	namespace string
}

// newEnv makes the test one that runs beside others: what it does stays in its namespace.
func newEnv(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	return otherEnv(t)
}

// otherEnv is one more, for a test that has one already.
func otherEnv(t *testing.T) *env {
	t.Helper()
	kube := kubetest.Shared(t)
	cl := connectTo(t, kube.Kubeconfig())
	if err := cl.ensureAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &env{cluster: cl, kube: kube, namespace: kube.Namespace(t)}
}

func connectTo(t *testing.T, kubeconfig string) *cluster {
	t.Helper()
	cl, err := (&cli{kubeconfig: kubeconfig}).connect(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// output is what a running command has written so far.
type output struct {
	mu  gosync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// command is one run of the program.
type command struct {
	out, err output
	code     chan int
	cancel   context.CancelFunc
}

// start runs the program in the background, as the cluster's administrator.
func (e *env) start(t *testing.T, args ...string) *command {
	t.Helper()
	return start(t, append([]string{"--kubeconfig", e.kube.Kubeconfig()}, args...)...)
}

// start runs the program, as TestMain has put it into the path.
func start(t *testing.T, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &command{code: make(chan int, 1), cancel: cancel}
	cmd := exec.CommandContext(ctx, "trueup", args...)
	cmd.Stdout, cmd.Stderr = &c.out, &c.err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := cmd.Wait() // the exit code says it, unless the program was killed
		if cmd.ProcessState.ExitCode() < 0 {
			fmt.Fprintln(&c.err, err)
		}
		c.code <- cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return c
}

// wait returns the exit code of a command that is about to end.
func (c *command) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-c.code:
		return code
	case <-time.After(2 * time.Minute):
		t.Fatalf("the command has not ended; it wrote:\n%s\n%s", c.out.String(), c.err.String())
		return -1
	}
}

// run runs the program to its end, and checks its exit code.
func (e *env) run(t *testing.T, code int, args ...string) (out, errOut string) {
	t.Helper()
	c := e.start(t, args...)
	if got := c.wait(t); got != code {
		t.Fatalf("trueup %s: exit code %d, want %d; it wrote:\n%s\n%s", strings.Join(args, " "), got, code, c.out.String(), c.err.String())
	}
	return c.out.String(), c.err.String()
}

// contains checks what a command has written.
func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

func absent(t *testing.T, text string, unwanted ...string) {
	t.Helper()
	for _, u := range unwanted {
		if strings.Contains(text, u) {
			t.Errorf("%q should not be in:\n%s", u, text)
		}
	}
}

// eventuallyWrites waits until a running command has written something.
func eventuallyWrites(t *testing.T, o *output, want string) {
	t.Helper()
	kubetest.Eventually(t, 20*time.Second, func() error {
		if !strings.Contains(o.String(), want) {
			return fmt.Errorf("%q is missing in:\n%s", want, o.String())
		}
		return nil
	})
}

// createApp creates an Application in the namespace of e.
func (e *env) createApp(t *testing.T, name string) *v1alpha1.Application {
	t.Helper()
	app, err := e.Applications(e.namespace).Create(t.Context(), &v1alpha1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.namespace},
		Spec: v1alpha1.ApplicationSpec{
			Source:      v1alpha1.Source{RepoURL: "https://bob:s3cret@git.example.com/shop.git", Path: "deploy/prod", TargetRevision: "main"},
			Destination: v1alpha1.Destination{Namespace: e.namespace},
			SyncPolicy:  &v1alpha1.SyncPolicy{Automated: &v1alpha1.Automated{Prune: true, SelfHeal: true}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// setStatus writes the status of an Application, as the agent would: what change makes of the one there is.
func (e *env) setStatus(t *testing.T, name string, change func(*v1alpha1.Application)) {
	t.Helper()
	kubetest.Eventually(t, 10*time.Second, func() error { // a conflict is tried again
		app, err := e.Applications(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(app)
		_, err = e.Applications(e.namespace).UpdateStatus(t.Context(), app, metav1.UpdateOptions{})
		return err
	})
}

// settled is the status of an Application with which all is well.
func settled(app *v1alpha1.Application) {
	app.Status.ObservedGeneration = app.Generation
	app.Status.Sync = v1alpha1.SyncStatus{Status: v1alpha1.Synced, Revision: "3f2a1b7c9d00000000000000000000000000000a"}
	app.Status.Health = v1alpha1.HealthStatus{Status: "Healthy"}
	app.Status.Objects = v1alpha1.ObjectCounts{Total: 3, Synced: 3, Healthy: 3}
	app.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now(),
	}}
	app.Status.Resources = nil
	app.Status.Drift = nil
}

// unsettled is the status of an Application that waits for two of its objects.
func unsettled(app *v1alpha1.Application) {
	settled(app)
	now := metav1.Now()
	web := v1alpha1.ObjectReference{Group: "apps", Kind: "Deployment", Namespace: app.Namespace, Name: "web"}
	app.Status.Sync.Status = v1alpha1.OutOfSync
	app.Status.Sync.FailedRevision = "99887766550000000000000000000000000000bb"
	app.Status.Health = v1alpha1.HealthStatus{Status: "Progressing", Message: "Deployment web: 1 of 3 replicas ready", LastTransitionTime: &now}
	app.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "OutOfSync", Message: "2 objects are not in sync", LastTransitionTime: now},
		{Type: v1alpha1.ConditionFetched, Status: metav1.ConditionTrue, Reason: "Fetched", LastTransitionTime: now},
		{Type: v1alpha1.ConditionRendered, Status: metav1.ConditionFalse, Reason: "InvalidYAML", Message: "deploy/prod/web.yaml:12: did not find expected key", LastTransitionTime: now},
	}
	app.Status.Objects = v1alpha1.ObjectCounts{Total: 3, Synced: 1, OutOfSync: 2}
	app.Status.Resources = []v1alpha1.ResourceStatus{
		{ObjectReference: web, Sync: v1alpha1.OutOfSync, Health: "Progressing", Reason: "Drifted", Message: "1 of 3 replicas ready"},
		{ObjectReference: v1alpha1.ObjectReference{Kind: "Service", Namespace: app.Namespace, Name: "web"}, Sync: v1alpha1.OutOfSync, Health: "Missing", Reason: "Missing"},
	}
	app.Status.Drift = []v1alpha1.FieldDrift{{
		ObjectReference: web, Path: ".spec.replicas", Manager: "kubectl", Operation: "Update", Subresource: "scale", Time: &now,
		Decision: string(v1alpha1.PolicyEnforce), Reason: "a person's tool took it",
	}}
	app.Status.Kinds = []v1alpha1.KindReference{
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Service"},
		{Group: "gone.example.com", Version: "v1", Kind: "Widget"},
	}
	app.Status.OperationState = &v1alpha1.OperationState{Phase: v1alpha1.PhaseSucceeded, Message: "applied 2 objects", StartedAt: now, FinishedAt: &now}
	job := v1alpha1.ObjectReference{Group: "batch", Kind: "Job", Namespace: app.Namespace, Name: "migrate"}
	app.Status.Hooks = &v1alpha1.HooksStatus{Run: "run", State: "state", Phase: v1alpha1.PhaseRunning, StartedAt: now, Hooks: []v1alpha1.HookStatus{
		{ObjectReference: job, Phase: "PreSync", State: v1alpha1.PhaseSucceeded, Message: "completed, 1 of 1 pods succeeded", StartedAt: now, FinishedAt: &now, Deadline: now},
		{ObjectReference: job, Phase: "PostSync", State: v1alpha1.PhaseRunning, Message: "0 of 1 pods succeeded", StartedAt: now, Deadline: now},
	}}
	app.Status.History = []v1alpha1.SyncRecord{{
		Revision: app.Status.Sync.Revision, StartedAt: now, FinishedAt: now, InitiatedBy: "automated",
		Result: v1alpha1.PhaseSucceeded, Created: 3, Healed: 1,
	}}
}

// eventuallyExists waits until there is an Application called name.
func eventuallyExists(t *testing.T, e *env, name string) {
	t.Helper()
	kubetest.Eventually(t, 20*time.Second, func() error {
		_, err := e.Applications(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err
	})
}
