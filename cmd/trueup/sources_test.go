package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/chartserver"
	"github.com/trueup/trueup/testdata/gitserver"
)

func TestSourcesAndSignaturesAreShown(t *testing.T) {
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "trueup", Name: "shop"}}
	app.Spec.Sources = []v1alpha1.Source{
		{RepoURL: "https://ada:hunter2@git.example.com/shop.git", Path: "prod", TargetRevision: "main"},
		{RepoURL: "https://git.example.com/values.git", Ref: "values"},
		{RepoURL: "https://ada:hunter2@charts.example.com", Chart: "redis", TargetRevision: "~1.4"},
	}
	app.Status.Sync = v1alpha1.SyncStatus{
		Revision: strings.Repeat("a", 40), Revisions: []string{strings.Repeat("a", 40), strings.Repeat("b", 40), "1.4.2@sha256:" + strings.Repeat("c", 64)},
		Signatures: []v1alpha1.SignatureStatus{{Source: "sources[0]", Mode: "Tag", Signer: "Ada, PGP key 1234"}},
	}
	var out strings.Builder
	describe(&out, palette(false), app)
	contains(t, out.String(),
		"Source 0     https://git.example.com/shop.git, path prod at main, which is aaaaaaa\n",
		"Source 1     https://git.example.com/values.git, as $values at HEAD, which is bbbbbbb\n",
		"Source 2     https://charts.example.com, chart redis, version ~1.4, which is 1.4.2\n",
		"Signed       sources[0] Tag by Ada, PGP key 1234\n")
	absent(t, out.String(), "hunter2")

	app.Spec = v1alpha1.ApplicationSpec{Source: v1alpha1.Source{RepoURL: "registry.example.com/charts", Chart: "redis"}}
	app.Status.Sync = v1alpha1.SyncStatus{Revision: "1.4.2@sha256:" + strings.Repeat("c", 64)}
	out.Reset()
	describe(&out, palette(false), app)
	contains(t, out.String(), "Repository   registry.example.com/charts\n", "Chart        redis, version *\n", "with 1.4.2")
	for revision, want := range map[string]string{"": "", "abc": "abc", "sha256:" + strings.Repeat("c", 64): "sha256:ccccccc"} {
		if got := shortRevision(revision); got != want {
			t.Errorf("%q in short is %q, want %q", revision, got, want)
		}
	}
}

// TestWhatTheAgentWouldReadIsReadTheSame renders and compares with variables, several sources and credential templates,
// with no agent around.
func TestWhatTheAgentWouldReadIsReadTheSame(t *testing.T) {
	e := newEnv(t)
	open := gitserver.New(t, t.TempDir(), gitserver.Options{})
	open.Commit(map[string]string{"shop/a.yaml": configMap("a", "${token}-${mode}")}, "first")
	private := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "analytical-engine"})
	private.Commit(map[string]string{"team/b.yaml": configMap("b", "plain")}, "first")
	e.kube.Kubectl(t, "", "-n", e.namespace, "create", "secret", "generic", "tokens", "--from-literal=token=hunter2-secret")
	e.kube.Kubectl(t, "", "-n", e.namespace, "create", "secret", "generic", "git",
		"--from-literal=url="+strings.TrimSuffix(private.URL(), "/repo.git"), "--from-literal=username=ada", "--from-literal=password=analytical-engine")
	e.kube.Kubectl(t, "", "-n", e.namespace, "label", "secret", "git", v1alpha1.LabelSecretType+"="+v1alpha1.SecretTypeRepoCreds)
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "shop"}}
	app.SetGroupVersionKind(v1alpha1.ApplicationKind)
	app.Spec.Destination.Namespace = e.namespace
	app.Spec.Sources = []v1alpha1.Source{
		{RepoURL: open.URL(), Path: "shop", PostBuild: &v1alpha1.PostBuild{
			Substitute: map[string]string{"mode": "on"}, SubstituteFrom: []v1alpha1.SubstituteReference{{Kind: "Secret", Name: "tokens"}},
		}},
		{RepoURL: private.URL(), Path: "team"},
	}
	if _, err := e.Applications(e.namespace).Create(t.Context(), app, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out, _ := e.run(t, 0, "render", "shop", "-n", e.namespace)
	contains(t, out, "key: hunter2-secret-on", "key: plain")
	out, _ = e.run(t, 0, "render", "shop", "-n", e.namespace, "--inputs")
	hasLine(t, out, `^file +sources\[0\] shop/a.yaml$`)
	hasLine(t, out, `^file +sources\[1\] team/b.yaml$`)
	out, _ = e.run(t, 1, "diff", "shop", "-n", e.namespace)
	contains(t, out, "(sources[0] shop/a.yaml:1)\n", "+  key: '***-on'\n", "+  key: plain\n")
	absent(t, out, "hunter2")
	_, errOut := e.run(t, 1, "render", "shop", "-n", e.namespace, "--revision", "main")
	contains(t, errOut, "has 2 sources, and a revision is of one")
}

func TestAChartIsRenderedAndExplainedWithNoAgentAround(t *testing.T) {
	e := newEnv(t)
	s := chartserver.New(t, chartserver.Options{Username: "ada", Password: "analytical-engine"})
	for _, version := range []string{"1.0.0", "1.1.0"} {
		s.Publish("shop", version, chartserver.Archive(map[string]string{
			"shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: " + version + "\n", "shop/templates/a.yaml": configMap("a", "v{{ .Chart.Version }}"),
		}))
	}
	e.kube.Kubectl(t, "", "-n", e.namespace, "create", "secret", "generic", "login", "--from-literal=username=ada", "--from-literal=password=analytical-engine")
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: "shop"}}
	app.SetGroupVersionKind(v1alpha1.ApplicationKind)
	app.Spec.Destination.Namespace = e.namespace
	app.Spec.Source = v1alpha1.Source{RepoURL: s.URL(), Chart: "shop", SecretRef: &v1alpha1.SecretReference{Name: "login"}}
	if _, err := e.Applications(e.namespace).Create(t.Context(), app, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	out, _ := e.run(t, 0, "render", "shop", "-n", e.namespace)
	contains(t, out, "key: v1.1.0")
	out, _ = e.run(t, 0, "render", "shop", "-n", e.namespace, "--revision", "~1.0")
	contains(t, out, "key: v1.0.0")
	out, _ = e.run(t, 0, "render", "shop", "-n", e.namespace, "--inputs")
	hasLine(t, out, `^file +shop/Chart.yaml$`)
	out, _ = e.run(t, 1, "diff", "shop", "-n", e.namespace)
	contains(t, out, "(shop/templates/a.yaml:1)\n", "+  key: v1.1.0\n")
	_, errOut := e.run(t, 1, "render", "shop", "-n", e.namespace, "--revision", "3.0.0")
	contains(t, errOut, "there is no version 3.0.0: it has 1.1.0, 1.0.0")
}
