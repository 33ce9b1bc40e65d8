package main

import (
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/sync/v1alpha1"
)

const secretManifest = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\nstringData:\n  password: hunter2\n  user: lovelace\n"

func TestDiffAndDryRunTellWhatASyncWouldDo(t *testing.T) {
	e := newEnv(t)
	repo := newRepository(t)
	repo.commit(t, map[string]string{
		"deploy/a.yaml": configMap("a", "one"), "deploy/b.yaml": configMap("b", "one"), "deploy/s.yaml": secretManifest,
	})
	e.startAgent(t, repo, "--self-heal=false", "--poll-interval", "1h") // what follows is not for the agent
	e.eventuallySynced(t)

	out, errOut := e.run(t, 0, "diff", "shop", "-n", e.namespace)
	if out != "" || errOut != "" {
		t.Errorf("in sync, diff writes %s%s", out, errOut)
	}
	out, _ = e.run(t, 0, "sync", "shop", "-n", e.namespace, "--dry-run")
	contains(t, out, "would change nothing. Nothing was changed.")

	e.kube.Kubectl(t, "", "patch", "configmap", "a", "-n", e.namespace, "--type=merge", "-p", `{"data":{"key":"edited"}}`)
	e.kube.Kubectl(t, "", "patch", "secret", "s", "-n", e.namespace, "--type=merge", "-p", `{"stringData":{"password":"stolen"}}`)
	out, _ = e.run(t, 1, "diff", "shop", "-n", e.namespace)
	contains(t, out,
		"--- ConfigMap "+e.namespace+"/a (live)\n+++ ConfigMap "+e.namespace+"/a (deploy/a.yaml:1)\n",
		"# .data.key ← kubectl-patch (Update) ",
		"\n+  key: one\n", "\n+  password: '*** (after)'\n", "   user: '***'\n",
	)
	hasLine(t, out, `^-  key: edited  ← kubectl-patch \(Update\) \d+s ago$`)
	hasLine(t, out, `^-  password: '\*\*\* \(before\)'  ← kubectl-patch \(Update\) \d+s ago$`)
	secrets := []string{"hunter2", "stolen", "lovelace"}
	for _, s := range secrets {
		absent(t, out, s, base64.StdEncoding.EncodeToString([]byte(s)))
	}
	absent(t, out, "\x1b", "ConfigMap "+e.namespace+"/b", "managedFields", "resourceVersion", v1alpha1.AnnotationApplied)
	out, _ = e.run(t, 1, "diff", "shop", "-n", e.namespace, "--color", "always")
	hasLine(t, out, `\x1b\[31m-  key: edited\x1b\[0m\x1b\[2m  ← kubectl-patch \(Update\) \d+s ago\x1b\[0m\n\x1b\[32m\+  key: one\x1b\[0m$`)

	// A newer commit: what it brings, takes away, and what of it the API server refuses.
	repo.commit(t, map[string]string{"deploy/b.yaml": "", "deploy/c.yaml": configMap("c", "new"),
		"deploy/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {argocd.argoproj.io/hook: PreSync}}\n"})
	out, _ = e.run(t, 1, "diff", "shop", "-n", e.namespace, "--revision", "HEAD")
	contains(t, out, "+++ ConfigMap "+e.namespace+"/c (deploy/c.yaml:1)\n", "+  key: new\n", "no longer in Git",
		"# a sync would run the PreSync hook ConfigMap "+e.namespace+"/hook\n")
	out, _ = e.run(t, 0, "sync", "shop", "-n", e.namespace, "--dry-run", "--prune")
	for _, line := range []string{`(?m)^Run +PreSync hook ConfigMap \S+/hook`, `(?m)^Create +ConfigMap \S+/c`, `(?m)^Heal +ConfigMap \S+/a`, `(?m)^Prune +ConfigMap \S+/b +no longer in Git$`,
		`(?m)^A sync of \S+/shop to \w{7} would create 1, heal 2, prune 1 and run 1 hook. Nothing was changed.$`} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line like %s in:\n%s", line, out)
		}
	}
	if got := e.kube.Kubectl(t, "", "get", "configmaps", "-n", e.namespace, "-o", "name"); strings.Contains(got, "/c") || !strings.Contains(got, "/b") {
		t.Errorf("asking what would be done has done it: %s", got)
	}

	repo.commit(t, map[string]string{"deploy/d.yaml": configMap("Not_A_Name", "x")})
	out, errOut = e.run(t, 2, "diff", "shop", "-n", e.namespace, "--revision", "HEAD")
	contains(t, out, "! deploy/d.yaml:1: ", "Not_A_Name")
	contains(t, errOut, "1 of 5 objects cannot be compared")
	_, errOut = e.run(t, 1, "sync", "shop", "-n", e.namespace, "--dry-run")
	contains(t, errOut, "would fail: 1 of ")
}

// eventuallySynced waits, with the program itself, until Application shop is as Git says.
func (e *env) eventuallySynced(t *testing.T) {
	t.Helper()
	eventuallyExists(t, e, "shop")
	e.run(t, 0, "wait", "shop", "-n", e.namespace, "--timeout", "60s")
}

func TestDiffHasAnExitCodeForFailures(t *testing.T) {
	e := newEnv(t)
	for _, args := range [][]string{{"diff"}, {"diff", "a", "b"}, {"diff", "--nonsense"}, {"diff", "nothing", "-n", e.namespace}} {
		e.run(t, diffFailed, args...)
	}
}

func secret(data map[string]any, plain map[string]any) *unstructured.Unstructured {
	obj := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
		"name": "s", "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "c2VjcmV0"},
	}}
	if data != nil {
		obj["data"] = data
	}
	if plain != nil {
		obj["stringData"] = plain
	}
	return &unstructured.Unstructured{Object: obj}
}

func TestChangeDiffHidesTheValuesOfSecrets(t *testing.T) {
	for sentence, c := range map[string]struct {
		live, next *unstructured.Unstructured
		want       []string
	}{
		"a changed value":    {secret(map[string]any{"a": "c2VjcmV0"}, nil), secret(map[string]any{"a": "b3RoZXI="}, nil), []string{"-  a: '*** (before)'\n+  a: '*** (after)'\n"}},
		"a new key":          {secret(map[string]any{"a": "c2VjcmV0"}, nil), secret(map[string]any{"a": "c2VjcmV0", "b": "b3RoZXI="}, nil), []string{"   a: '***'\n+  b: '***'\n"}},
		"a key that goes":    {secret(map[string]any{"a": "c2VjcmV0", "b": "b3RoZXI="}, nil), secret(map[string]any{"a": "c2VjcmV0"}, nil), []string{"   a: '***'\n-  b: '***'\n"}},
		"a new Secret":       {nil, secret(map[string]any{"a": "c2VjcmV0"}, nil), []string{"+  a: '***'\n"}},
		"a Secret that goes": {secret(map[string]any{"a": "c2VjcmV0"}, nil), nil, []string{"-  a: '***'\n"}},
		"plain text":         {secret(map[string]any{"a": "c2VjcmV0"}, nil), secret(nil, map[string]any{"a": "secret", "b": "other"}), []string{"   a: '***'\n+  b: '***'\n"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			change := sync.Change{Step: sync.Step{ID: diff.ID{Kind: "Secret", Name: "s"}}, Live: c.live, Next: c.next}
			text, err := changeDiff(change)
			if err != nil {
				t.Fatal(err)
			}
			contains(t, text, c.want...)
			absent(t, text, "c2VjcmV0", "b3RoZXI=", "secret\n", "other", "last-applied")
		})
	}
}

func TestChangeDiffHidesPasswordsInURLs(t *testing.T) {
	object := func(password string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"url": "postgres://ada:" + password + "@db:5432/shop"},
		}}
	}
	text, err := changeDiff(sync.Change{Step: sync.Step{ID: diff.ID{Kind: "ConfigMap", Name: "c"}}, Live: object("old"), Next: object("new")})
	if err != nil {
		t.Fatal(err)
	}
	want := "-  url: postgres://ada:***@db:5432/shop\n+  url: postgres://ada:***@db:5432/shop\n"
	contains(t, text, want)
	absent(t, text, "old", "new")
	if d := cmp.Diff(1, strings.Count(text, "@@ -")); d != "" {
		t.Errorf("hunks: -want +got:\n%s", d)
	}
}

func TestLineWritersNameWhoWroteEachLine(t *testing.T) {
	live := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"},
		"data": map[string]any{"a": "mine", "b": "first\nsecond\n", "c": "git"},
	}}
	fields := func(raw string) *metav1.FieldsV1 {
		f := &metav1.FieldsV1{}
		f.SetRawBytes([]byte(raw))
		return f
	}
	change := sync.Change{Step: sync.Step{ID: diff.ID{Kind: "ConfigMap", Name: "c"}}, Live: live, Managed: []metav1.ManagedFieldsEntry{
		{Manager: "kubectl-edit", Operation: "Update", FieldsV1: fields(`{"f:data":{"f:b":{}}}`)},
		{Manager: "scaler", Operation: "Update", Subresource: "scale", FieldsV1: fields(`{"f:data":{"f:a":{}}}`)},
		{Manager: v1alpha1.FieldManager, Operation: "Apply", FieldsV1: fields(`{"f:data":{"f:c":{}}}`)},
	}}
	next := live.DeepCopy()
	next.Object["data"] = map[string]any{"a": "git", "c": "newer"}
	change.Next = next
	text, err := changeDiff(change)
	if err != nil {
		t.Fatal(err)
	}
	writers, err := lineWriters(change)
	if err != nil {
		t.Fatal(err)
	}
	want := `--- ConfigMap c (live)
+++ ConfigMap c (Git)
@@ -1,10 +1,7 @@
 apiVersion: v1
 data:
-  a: mine  ← scaler (Update, scale)
-  b: |  ← kubectl-edit (Update)
-    first  ← kubectl-edit (Update)
-    second  ← kubectl-edit (Update)
-  c: git
+  a: git
+  c: newer
 kind: ConfigMap
 metadata:
   name: c
`
	if d := cmp.Diff(want, palette(false).paintDiff(text, writers)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestDiffSaysThatAFieldIsHeld(t *testing.T) {
	later := metav1.NewTime(time.Now().Add(time.Hour))
	settings := v1alpha1.ObjectReference{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	app.Status.Drift = []v1alpha1.FieldDrift{
		{ObjectReference: settings, Path: ".data.held", Manager: "operator", Decision: "Hold", Reason: "contested: operator took it back 3 times", HeldUntil: &later},
		{ObjectReference: settings, Path: ".data.over", Manager: "operator", Decision: "Hold", Reason: "contested: operator took it back 3 times", HeldUntil: &metav1.Time{Time: time.Now().Add(-time.Hour)}},
		{ObjectReference: settings, Path: ".data.others", Manager: "somebody", Decision: "Hold", Reason: "contested: somebody took it back 3 times", HeldUntil: &later},
	}
	var change sync.Change
	change.ID = diff.ID{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	for _, field := range []string{"held", "over", "others"} {
		change.Comparison.Losses = append(change.Comparison.Losses, diff.DecidedLoss{
			Loss:     diff.Loss{Path: fieldpath.MakePathOrDie("data", field), Owner: diff.Owner{Manager: "operator", Operation: "Update"}},
			Decision: diff.Decision{Verdict: diff.Enforce, Reason: "changed by operator"},
		})
	}
	var out strings.Builder
	writeNotes(&out, palette(false), app, change)
	want := `# .data.held ← operator (Update): Hold, contested: operator took it back 3 times; "trueup sync shop" tries it at once
# .data.over ← operator (Update): Enforce, changed by operator
# .data.others ← operator (Update): Enforce, changed by operator
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("what is done about the fields (-want +got):\n%s", d)
	}
}

func TestDiffSaysThatGitCannotBeUsed(t *testing.T) {
	app := &v1alpha1.Application{}
	settled(app)
	if got := notUsed(app, app.Status.Sync.Revision); got != "" {
		t.Errorf("all is well, and it says %q", got)
	}
	unsettled(app)
	got := notUsed(app, app.Status.Sync.Revision)
	if want := "compared with 3f2a1b7, since what Git has now cannot be used: deploy/prod/web.yaml:12: did not find expected key"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}
