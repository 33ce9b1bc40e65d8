package sync

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// process is the real agent as a process of its own, so that it can be killed.
type process struct {
	w   *world
	bin string
	cmd *exec.Cmd
}

func (w *world) process() *process {
	w.t.Helper()
	dir := w.t.TempDir()
	p := &process{w: w, bin: filepath.Join(dir, "trueup")}
	// Built as in the image, since that is what its memory and processor time are measured with.
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", p.bin, "../cmd/trueup")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		w.t.Fatalf("building the agent: %v\n%s", err, out)
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["test"] = &clientcmdapi.Cluster{Server: w.agentUser.Host, CertificateAuthority: w.agentUser.CAFile, CertificateAuthorityData: w.agentUser.CAData}
	kubeconfig.AuthInfos["agent"] = &clientcmdapi.AuthInfo{Token: w.agentUser.BearerToken}
	kubeconfig.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "agent", Namespace: w.ns}
	kubeconfig.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*kubeconfig, filepath.Join(dir, "kubeconfig")); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(p.kill)
	return p
}

// start starts the agent, with settings after those of all tests.
func (p *process) start(settings ...string) {
	p.w.t.Helper()
	p.cmd = exec.Command(p.bin, append([]string{"agent", "--application-namespace", p.w.ns, "--leader-elect=false", "--metrics-address=",
		"--poll-interval=1s", "--cache-dir", p.w.cacheDir, "--concurrency=4", "--log-level=warn"}, settings...)...)
	p.cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(filepath.Dir(p.bin), "kubeconfig"))
	p.cmd.Stderr = p.w.t.Output()
	if err := p.cmd.Start(); err != nil {
		p.w.t.Fatal(err)
	}
}

func (p *process) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// count counts the namespace's ConfigMaps of the Application.
func (w *world) count() int {
	w.t.Helper()
	return len(strings.Fields(w.kubectl("get", "configmaps", "-l", v1alpha1.LabelApp, "-o", "name")))
}

// applies counts for each object how often the agent's apply of it was accepted.
func (w *world) applies(since kubetest.AuditMark) map[string]int {
	w.t.Helper()
	counts := map[string]int{}
	for _, e := range w.writes(since) {
		if e.Verb == "patch" && !strings.Contains(e.URI, "dryRun") && e.Code < 300 {
			path, _, _ := strings.Cut(e.URI, "?")
			counts[path]++
		}
	}
	return counts
}

func TestKilledAgentConverges(t *testing.T) {
	w := newIdleWorld(t, kubetest.Shared(t))
	p := w.process()
	const n = 300
	files := manyObjects(n)
	commit := w.git.Commit(files, "many")
	w.app("many")

	mark := w.AuditMark(t)
	p.start()
	kubetest.Eventually(t, patience, func() error {
		if got := w.count(); got < 20 {
			return fmt.Errorf("%d objects so far", got)
		}
		return nil
	})
	p.kill()
	if got := w.count(); got >= n {
		t.Fatalf("the agent was to be killed in the middle of the sync, but had made all %d objects", got)
	}
	p.start()
	w.until("many", synced(commit))
	for path, times := range w.applies(mark) {
		if times > 1 {
			t.Errorf("%s was applied %d times: once was enough", path, times)
		}
	}

	// During self-heal: every object loses a field.
	w.kubectl("patch", "configmap", "settings-7", "--type=merge", "-p", `{"data":{"mode":"broken"}}`)
	p.kill()
	w.kubectl("label", "configmaps", "-l", v1alpha1.LabelApp+"=many", "tier=broken", "--overwrite")
	healed := func() int {
		return len(strings.Fields(w.kubectl("get", "configmaps", "-l", v1alpha1.LabelApp+",tier!=broken", "-o", "name")))
	}
	before := healed()
	p.start()
	kubetest.Eventually(t, patience, func() error {
		if got := healed(); got <= before {
			return fmt.Errorf("%d healed", got)
		}
		return nil
	})
	p.kill()
	p.start()
	// The status may still be what the killed agent wrote last: only the objects tell.
	kubetest.Eventually(t, patience, func() error {
		if got := healed(); got != n {
			return fmt.Errorf("%d of %d objects are healed", got, n)
		}
		return nil
	})
	w.until("many", synced(commit))

	// During a prune: four tenths of the objects leave Git.
	less := w.git.Remove("less", "many/settings-0.yaml")
	kubetest.Eventually(t, patience, func() error {
		if got := w.count(); got >= n {
			return fmt.Errorf("nothing is pruned yet")
		}
		return nil
	})
	p.kill()
	p.start()
	w.until("many", synced(less))
	if got := w.count(); got != n-100 {
		t.Errorf("objects left: got %d, want %d", got, n-100)
	}
}

func TestGitAwayHealingGoesOnAndNothingIsPruned(t *testing.T) {
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment, "shop/settings.yaml": configMap}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	w.git.Stop()
	w.until("shop", func(app *v1alpha1.Application) error {
		c := condition(app, v1alpha1.ConditionFetched)
		if c.Status != "False" || c.LastTransitionTime.IsZero() {
			return fmt.Errorf("want a condition that says since when Git is away, got %+v", c)
		}
		return nil
	})
	heals := func() {
		t.Helper()
		w.kubectl("patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"mode":"broken"}}`)
		kubetest.Eventually(t, patience, func() error {
			if got := w.kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.mode}"); got != "production" {
				return fmt.Errorf("mode is %s", got)
			}
			return nil
		})
	}
	heals()
	// Also an agent that is started while Git is away goes on from its clone.
	w.stop()
	w.start()
	heals()
	if got := w.get("shop").Status.Sync; got.Status != v1alpha1.Synced || got.Revision != commit {
		t.Errorf("the last good revision runs on: want Synced at %.7s, got %s at %.7s", commit, got.Status, got.Revision)
	}
	w.git.Start()
	next := w.git.Commit(map[string]string{"shop/settings.yaml": strings.ReplaceAll(configMap, "production", "test")}, "second")
	w.until("shop", synced(next))
}

func TestAPIServerAwayForHalfAMinute(t *testing.T) {
	cluster, err := kubetest.Start(context.Background(), kubetest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	w := newIdleWorld(t, cluster)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment, "shop/settings.yaml": configMap}, "first")
	w.app("shop")
	w.start()
	w.until("shop", synced(commit))

	if err := cluster.StopComponent("kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	away := time.After(30 * time.Second)
	next := w.git.Commit(map[string]string{"shop/settings.yaml": strings.ReplaceAll(configMap, "production", "test")}, "while it is away")
	<-away
	if err := cluster.StartComponent("kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	w.until("shop", synced(next))
	w.kubectl("patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"mode":"broken"}}`)
	kubetest.Eventually(t, patience, func() error {
		if got := w.kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.mode}"); got != "test" {
			return fmt.Errorf("mode is %s", got)
		}
		return nil
	})
	if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.generation}"); got != "1" {
		t.Errorf("the Deployment should not be written again, its generation is %s", got)
	}
}
