package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// repository is a Git repository on disk.
type repository struct {
	dir string
	git *git.Repository
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop.git")
	repo, err := git.PlainInit(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return &repository{dir, repo}
}

// commit writes files, and removes those without content; it returns the commit.
func (r *repository) commit(t *testing.T, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(r.dir, name)
		if content == "" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := r.git.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.AddWithOptions(&git.AddOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	hash, err := tree.Commit("change", &git.CommitOptions{Author: &object.Signature{Name: "Ada", Email: "ada@example.com", When: time.Now()}})
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  key: %s\n", name, value)
}

// startAgent runs an agent for one repository, in the namespace of e.
func (e *env) startAgent(t *testing.T, repo *repository, args ...string) *command {
	t.Helper()
	return e.start(t, append([]string{"agent", "--repo", "file://" + repo.dir, "--path", "deploy", "--namespace", e.namespace,
		"--application-namespace", e.namespace, "--leader-elect-namespace", e.namespace, "--metrics-address", "", "--cache-dir", t.TempDir(), "--poll-interval", "1s"}, args...)...)
}

func TestAgentKeepsOneRepositoryTrue(t *testing.T) {
	e := newEnv(t)
	repo := newRepository(t)
	first := repo.commit(t, map[string]string{"deploy/a.yaml": configMap("a", "one"), "deploy/b.yaml": configMap("b", "one")})
	agent := e.startAgent(t, repo, "--prune")
	eventuallyWrites(t, &agent.err, "keeping one Application true to Git")

	_, errOut := e.run(t, 0, "wait", "shop", "-n", e.namespace, "--timeout", "60s")
	contains(t, errOut, "Synced, Healthy\n")
	out, _ := e.run(t, 0, "status", "shop", "-n", e.namespace)
	contains(t, out, "Sync         Synced, 2 of 2 objects with "+first[:7]+"\n", "Policy       automated, prune, self-heal\n",
		"ConfigMap "+e.namespace+"/a  Synced  Healthy ", "ConfigMap "+e.namespace+"/b  Synced  Healthy ")
	out, _ = e.run(t, 0, "render", "shop", "-n", e.namespace)
	want := "apiVersion: v1\ndata:\n  key: one\nkind: ConfigMap\nmetadata:\n  name: a\n---\napiVersion: v1\ndata:\n  key: one\nkind: ConfigMap\nmetadata:\n  name: b\n"
	if d := cmp.Diff(want, out); d != "" {
		t.Errorf("render: -want +got:\n%s", d)
	}

	// A commit that nobody announces; then one that is asked for.
	second := repo.commit(t, map[string]string{"deploy/a.yaml": configMap("a", "two"), "deploy/b.yaml": ""})
	e.run(t, 0, "refresh", "shop", "-n", e.namespace)
	e.run(t, 0, "wait", "shop", "-n", e.namespace, "--timeout", "60s")
	if got := e.kube.Kubectl(t, "", "get", "configmap", "a", "-n", e.namespace, "-o", "jsonpath={.data.key}"); got != "two" {
		t.Errorf("after the second commit the value is %q", got)
	}
	if _, err := e.kube.TryKubectl(t.Context(), "", "get", "configmap", "b", "-n", e.namespace); err == nil {
		t.Error("what is no longer in Git is still there")
	}
	out, errOut = e.run(t, 0, "sync", "shop", "-n", e.namespace, "--wait", "--timeout", "60s")
	contains(t, out, "is synced to "+second[:7])
	contains(t, errOut, "Succeeded "+second[:7])
	out, _ = e.run(t, 0, "render", "shop", "-n", e.namespace, "--revision", first)
	contains(t, out, "key: one")

	agent.cancel()
	if code := agent.wait(t); code != 0 {
		t.Errorf("after an interrupt the exit code is %d: %s", code, agent.err.String())
	}
}

func TestAgentLogsAsItIsTold(t *testing.T) {
	e := newEnv(t)
	repo := newRepository(t)
	repo.commit(t, map[string]string{"deploy/a.yaml": configMap("a", "one")})
	agent := e.startAgent(t, repo, "--log-format", "json", "--leader-elect=false")
	eventuallyWrites(t, &agent.err, `"msg":"keeping one Application true to Git","namespace":"`+e.namespace+`","name":"shop"}`)
	agent.cancel()
	agent.wait(t)
	for _, line := range strings.Split(strings.TrimSpace(agent.err.String()), "\n") {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("a line is no JSON: %s", line)
		}
	}
}

func TestTheOneApplicationIsMadeWithoutForce(t *testing.T) {
	e := newEnv(t)
	cfg := agentConfig{Single: singleConfig{Repo: "https://git.example.com/shop.git", Path: "deploy", Revision: "main", Namespace: "shop", Secret: "git", SelfHeal: true}}
	cfg.complete(e.namespace)
	for range 2 { // the second time is a restart
		if _, err := e.setUpSingle(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	app, err := e.Applications(e.namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.ApplicationSpec{
		Source:      v1alpha1.Source{RepoURL: "https://git.example.com/shop.git", Path: "deploy", TargetRevision: "main", SecretRef: &v1alpha1.SecretReference{Name: "git"}},
		Destination: v1alpha1.Destination{Namespace: "shop"},
		SyncPolicy: &v1alpha1.SyncPolicy{
			Automated: &v1alpha1.Automated{SelfHeal: true}, SyncOptions: []string{"CreateNamespace=true"},
		},
	}
	if d := cmp.Diff(want, app.Spec); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}

	cfg.Single.Name, cfg.Single.Repo, cfg.Single.Path, cfg.Single.Chart, cfg.Single.Revision = "chart", "registry.example.com/charts", "", "shop", "1.x"
	if _, err := e.setUpSingle(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if app, err = e.Applications(e.namespace).Get(t.Context(), "chart", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	want.Source = v1alpha1.Source{RepoURL: "registry.example.com/charts", Chart: "shop", TargetRevision: "1.x", SecretRef: &v1alpha1.SecretReference{Name: "git"}}
	if d := cmp.Diff(want, app.Spec); d != "" {
		t.Errorf("a chart (-want +got):\n%s", d)
	}

	e.createApp(t, "theirs")
	cfg.Single.Name = "theirs"
	_, err = e.setUpSingle(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "is somebody else's: choose another name with --name") {
		t.Errorf("taking over somebody else's Application: %v", err)
	}
}

func TestTheOneApplicationNeedsNoRightToInstallTheAPI(t *testing.T) {
	e := newEnv(t)
	kubeconfig := e.serviceAccountKubeconfig(t, "dev")
	e.kube.Kubectl(t, "", "create", "role", "dev", "-n", e.namespace, "--verb=get,create,patch", "--resource=applications.trueup.dev")
	e.kube.Kubectl(t, "", "create", "rolebinding", "dev", "-n", e.namespace, "--role=dev", "--serviceaccount="+e.namespace+":dev")
	cfg := agentConfig{Single: singleConfig{Repo: "https://git.example.com/shop.git"}}
	cfg.complete(e.namespace)
	kubetest.Eventually(t, 20*time.Second, func() error { // RBAC is not known to the API server at once
		_, err := connectTo(t, kubeconfig).setUpSingle(t.Context(), cfg)
		return err
	})
}
