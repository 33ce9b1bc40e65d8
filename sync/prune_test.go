package sync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
	"github.com/trueup/trueup/testdata/kubetest"
)

// cascade makes the deletion of an Application take its objects along.
func cascade(app *v1alpha1.Application) { app.Finalizers = []string{v1alpha1.FinalizerCascade} }

// extra wants an object that is no longer in Git to be listed with all the words.
func extra(name string, words ...string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		i := slices.IndexFunc(app.Status.Resources, func(r v1alpha1.ResourceStatus) bool { return r.Name == name })
		if i < 0 {
			return fmt.Errorf("want %s among the resources", name)
		}
		for _, word := range words {
			if r := app.Status.Resources[i]; r.Sync != v1alpha1.OutOfSync || !strings.Contains(r.Message, word) {
				return fmt.Errorf("want %s OutOfSync with the words %q, got %+v", name, word, r)
			}
		}
		if app.Status.Sync.Status != v1alpha1.OutOfSync {
			return fmt.Errorf("want OutOfSync, got %s", app.Status.Sync.Status)
		}
		return nil
	}
}

// there reports which of the namespace's objects are there, such as "configmap/settings".
func (w *world) there(objects ...string) string {
	w.t.Helper()
	return strings.Join(strings.Fields(w.kubectl(append([]string{"get", "--ignore-not-found", "-o", "name"}, objects...)...)), " ")
}

func (w *world) gone(object string) {
	w.t.Helper()
	w.eventually("", func() string { return w.there(object) })
}

func TestObjectLostWhileTheRenderFailedIsPrunedByTheNextGoodCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "one"), "shop/lost.yaml": settings("lost", "one")}, "first")
	w.app("shop")
	w.until("shop", synced(first))

	// In one commit: the agent may look at any time.
	w.git.CommitTo(gitserver.DefaultBranch, "lose an object and break it",
		gitserver.Change{Path: "shop/lost.yaml", Delete: true}, gitserver.Change{Path: "shop/bad.yaml", Content: "kind: [\n"})
	w.until("shop", says(v1alpha1.ConditionRendered, "shop/bad.yaml"))
	if got := w.there("configmap/lost"); got == "" {
		t.Error("the object was pruned by a revision that did not render")
	}
	w.stop() // what was there is known from the cluster, not from memory
	w.start()
	w.until("shop", says(v1alpha1.ConditionRendered, "shop/bad.yaml"))
	third := w.git.Remove("repair it", "shop/bad.yaml")
	w.until("shop", synced(third))
	if got := w.there("configmap/lost", "configmap/settings"); got != "configmap/settings" {
		t.Errorf("want the lost object pruned and the other kept, got %s", got)
	}
}

// TestKindThatLeavesGitWhileTheAgentIsAwayIsPruned is about the last object of its kind.
func TestKindThatLeavesGitWhileTheAgentIsAwayIsPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "one"), "shop/role.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: shop}\n"}, "first")
	w.app("shop")
	w.until("shop", synced(first))
	w.stop()
	second := w.git.Remove("no account", "shop/role.yaml")
	w.start()
	w.until("shop", synced(second))
	w.gone("serviceaccount/shop")
}

func TestExtraWithAFinalizerThatNobodyServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	held := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [example.com/nobody]}\n"
	first := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "one"), "shop/held.yaml": held}, "first")
	w.app("shop")
	w.until("shop", synced(first))
	w.git.Remove("no longer held", "shop/held.yaml")
	w.until("shop", extra("held", "is being deleted", "example.com/nobody"))
	mark, passes := w.AuditMark(t), w.passes()
	w.heals("settings")
	third := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "two")}, "others go on")
	w.eventually("two", func() string { return w.setting("settings") })
	for _, e := range w.writes(mark) {
		if e.Name == "held" {
			t.Errorf("there is nothing to write about what is being deleted already: %v", e)
		}
	}
	if got := w.passes() - passes; got > 30 {
		t.Errorf("%d passes: that is a hot loop", got)
	}
	w.until("shop", extra("held"))
	w.kubectl("patch", "configmap", "held", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	w.until("shop", synced(third))
}

func TestCopiesOfOurLabelAndAnnotationsAreNeverPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "one"), "shop/more.yaml": settings("more", "one")}, "first")
	w.app("shop")
	w.until("shop", synced(first))
	other := w.Namespace(t)
	raw := w.kubectl("get", "configmap", "settings", "-o", "yaml", "--show-managed-fields=false")
	copied := strings.ReplaceAll(raw, "name: settings", "name: copied")
	copied = copied[:strings.Index(copied, "  resourceVersion:")] + copied[strings.Index(copied, "  uid:"):]
	w.Kubectl(t, strings.ReplaceAll(copied, "  uid:", "  selfLink:"), "create", "-f", "-")
	w.Kubectl(t, strings.ReplaceAll(strings.ReplaceAll(copied, "  uid:", "  selfLink:"), "namespace: "+w.ns, "namespace: "+other), "create", "-f", "-")
	if got := w.kubectl("get", "configmap", "copied", "-o", "jsonpath={.metadata.annotations}"); !strings.Contains(got, v1alpha1.AnnotationTracking) {
		t.Fatalf("the copy lacks our annotations: %s", got)
	}
	second := w.git.Remove("less", "shop/more.yaml")
	app := w.until("shop", synced(second))
	if app.Status.Objects.Total != 1 {
		t.Errorf("a copy is no object of the Application, got %+v", app.Status.Objects)
	}
	w.kubectl("patch", "application", "shop", "--type=merge", "-p", `{"metadata":{"finalizers":["`+v1alpha1.FinalizerCascade+`"]}}`)
	w.kubectl("delete", "application", "shop")
	w.gone("configmap/settings")
	if got := w.there("configmap/copied") + w.Kubectl(t, "", "get", "configmap", "copied", "-n", other, "-o", "name"); strings.Count(got, "copied") != 2 {
		t.Errorf("both copies should still be there, got %s", got)
	}
}

func TestVolumeClaimWithACopiedLabelIsNeverPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  selector: {matchLabels: {app: db}}
  serviceName: db
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: postgres:18}]
  volumeClaimTemplates:
    - metadata:
        name: data
        labels: {trueup.dev/app: shop}
        annotations: {trueup.dev/prune: confirm, trueup.dev/tracking: "NS/shop:/PersistentVolumeClaim:NS/data-db-0", trueup.dev/applied: "0.0"}
      spec:
        accessModes: [ReadWriteOnce]
        resources: {requests: {storage: 1Gi}}
`
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: own}\nspec:\n  accessModes: [ReadWriteOnce]\n  resources: {requests: {storage: 1Gi}}\n"
	w.git.Commit(map[string]string{"shop/db.yaml": strings.ReplaceAll(set, "NS", w.ns), "shop/settings.yaml": settings("settings", "one"), "shop/claim.yaml": claim}, "first")
	w.app("shop")
	w.eventually("persistentvolumeclaim/data-db-0", func() string { return w.there("pvc/data-db-0") })
	w.git.Remove("no database", "shop/db.yaml")
	w.gone("statefulset/db")
	w.looksAt("shop", w.git.Rev("main"))
	if got := w.there("pvc/data-db-0"); got == "" {
		t.Error("the claim of the StatefulSet was pruned: the label on it was copied")
	}

	// A claim of our own needs a person's word.
	w.git.Remove("no claim", "shop/claim.yaml")
	w.until("shop", extra("own", "a PersistentVolumeClaim is pruned only once a person has annotated it with trueup.dev/prune=confirm"))
	w.kubectl("annotate", "pvc", "own", "trueup.dev/prune=confirm")
	w.until("shop", func(app *v1alpha1.Application) error { // the API server keeps a claim until its protection ends
		if got := w.kubectl("get", "pvc", "own", "--ignore-not-found", "-o", "jsonpath={.metadata.deletionTimestamp}{.metadata.name}"); got == "own" {
			return fmt.Errorf("the claim is not pruned yet")
		}
		return nil
	})
}

// looksAt waits until an Application was compared with a commit.
func (w *world) looksAt(name, commit string) {
	w.t.Helper()
	w.until(name, func(app *v1alpha1.Application) error {
		if got := app.Status.Sync.Revision; got != commit {
			return fmt.Errorf("want the revision %.7s, got %.7s", commit, got)
		}
		return nil
	})
}

func TestNamespacesAndDefinitionsAreOnlyPrunedWhenConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	extraNamespace := w.ns + "-extra"
	crd := "crd/parcels." + w.ns + ".example.com"
	t.Cleanup(func() {
		_, _ = w.TryKubectl(context.Background(), "", "delete", crd, "namespace/"+extraNamespace, "--wait=false")
	})
	w.git.Commit(map[string]string{
		"shop/settings.yaml":  settings("settings", "one"),
		"shop/namespace.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + extraNamespace + "}\n",
		"shop/crd.yaml":       definitionManifest(w.ns, "parcels", "Parcel", ""),
		"shop/kept.yaml":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, annotations: {trueup.dev/prune: disabled}}\n",
	}, "first")
	w.app("shop")
	w.until("shop", synced(w.git.Rev("main")))
	second := w.git.Remove("less", "shop/namespace.yaml", "shop/crd.yaml", "shop/kept.yaml")
	w.until("shop", extra(extraNamespace, "a Namespace is pruned only once a person has annotated it with trueup.dev/prune=confirm"))
	w.until("shop", extra("parcels."+w.ns+".example.com", "a CustomResourceDefinition is pruned only once"))
	w.until("shop", extra("kept", "kept by its annotation trueup.dev/prune=disabled"))
	// Not even when a person asks for a sync that prunes.
	w.kubectl("annotate", "application", "shop", v1alpha1.AnnotationSync+`={"id":"one","by":"ada","prune":true}`)
	w.until("shop", func(app *v1alpha1.Application) error {
		if op := app.Status.OperationState; op == nil || op.ID != "one" || op.Phase == v1alpha1.PhaseRunning {
			return fmt.Errorf("the request is not answered")
		}
		return nil
	})
	if got := w.there("namespace/"+extraNamespace, crd, "configmap/kept"); len(strings.Fields(got)) != 3 {
		t.Errorf("nothing was confirmed, yet there is only %s", got)
	}
	w.kubectl("annotate", "namespace/"+extraNamespace, "trueup.dev/prune=confirm")
	w.kubectl("annotate", crd, "trueup.dev/prune=confirm")
	w.gone(crd)
	w.eventually("", func() string {
		return w.kubectl("get", "namespace", extraNamespace, "--ignore-not-found", "-o", "jsonpath={.spec.finalizers}")
	})
	w.kubectl("annotate", "configmap", "kept", "trueup.dev/prune-")
	w.gone("configmap/kept")
	w.until("shop", synced(second))
}

func TestMoreThanHalfOfTheObjectsArePrunedOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("shop/settings-%d.yaml", i)] = settings(fmt.Sprintf("settings-%d", i), "one")
	}
	first := w.git.Commit(files, "first")
	w.app("shop")
	w.until("shop", synced(first))
	mark := w.AuditMark(t)
	var most []string
	for i := range 7 {
		most = append(most, fmt.Sprintf("shop/settings-%d.yaml", i))
	}
	second := w.git.Remove("most", most...)
	w.until("shop", extra("settings-3", "not pruned, since that would take 7 of 12 objects: if it is meant, run trueup sync --prune"))
	if got := w.writes(mark); len(got) != 0 {
		t.Errorf("nothing may be pruned yet, but the agent wrote %v", got)
	}
	w.kubectl("annotate", "application", "shop", v1alpha1.AnnotationSync+`={"id":"one","by":"ada","prune":true}`)
	app := w.until("shop", synced(second))
	if h := app.Status.History[0]; h.Pruned != 7 || h.InitiatedBy != "ada" {
		t.Errorf("want 7 objects pruned by ada in the history, got %+v", h)
	}
	if got := w.count(); got != 5 {
		t.Errorf("objects left: got %d, want 5", got)
	}
}

func TestPruningIsOffUnlessThePolicySaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "one"), "shop/more.yaml": settings("more", "one")}, "first")
	w.app("shop", func(app *v1alpha1.Application) { app.Spec.SyncPolicy.Automated.Prune = false })
	w.until("shop", synced(first))
	second := w.git.Remove("less", "shop/more.yaml")
	w.until("shop", extra("more", "pruning is off"))
	w.kubectl("annotate", "application", "shop", v1alpha1.AnnotationSync+`={"id":"one","by":"ada","prune":true}`)
	w.until("shop", synced(second))
	w.gone("configmap/more")
}

func TestDeletedApplicationLeavesItsObjectsUnlessItCascades(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{
		"plain/settings.yaml":   settings("plain", "one"),
		"cascade/settings.yaml": settings("cascade", "one"),
		"cascade/web.yaml":      deployment,
	}, "first")
	w.app("plain")
	w.app("cascade", cascade)
	w.until("plain", synced(commit))
	w.until("cascade", synced(commit))
	mark := w.AuditMark(t)
	w.kubectl("delete", "application", "plain")
	w.kubectl("delete", "application", "cascade", "--timeout=60s")
	if got := w.there("configmap/plain", "configmap/cascade", "deployment/web"); got != "configmap/plain" {
		t.Errorf("want the objects of the cascading Application gone and those of the other kept, got %s", got)
	}
	for _, e := range w.changes(mark) {
		if e.Name == "plain" {
			t.Errorf("the objects of a deleted Application are left alone, yet the agent sent %v", e)
		}
	}
	// What was left can be had again, without taking anything over by force.
	w.app("plain")
	w.until("plain", synced(commit))
}

// TestCascadeWhileGitIsAway is about an agent that has never seen the repository.
func TestCascadeWhileGitIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "one")}, "first")
	w.app("shop", cascade)
	w.until("shop", synced(commit))
	w.stop()
	w.git.Stop()
	w.kubectl("delete", "application", "shop", "--wait=false")
	w.start()
	w.gone("configmap/settings")
	w.gone("application/shop")
}

// A namespace that cannot be made for a moment is no failure of the hooks that need it: the sync is tried again.
func TestCreateNamespaceIsTriedAgainBeforeHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := w.ns + "-new"
	w.Kubectl(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: away.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [namespaces]}]
  matchConditions: [{name: ours, expression: "object.metadata.name == '%[1]s'"}]
  admissionReviewVersions: [v1]
  sideEffects: None
`, target), "apply", "-f", "-")
	t.Cleanup(func() {
		_, _ = w.TryKubectl(context.Background(), "", "delete", "validatingwebhookconfiguration", target, "--ignore-not-found")
		_, _ = w.TryKubectl(context.Background(), "", "delete", "namespace", target, "--wait=false")
	})
	kubetest.Eventually(t, patience, func() error { // the API server takes a moment to see the webhook
		_, err := w.TryKubectl(t.Context(), "", "create", "namespace", target, "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Errorf("making the namespace: got %v, want the failure of the webhook", err)
		}
		return nil
	})
	commit := w.git.Commit(map[string]string{
		"shop/settings.yaml": settings("settings", "one"), "shop/hook.yaml": hookSettings("prepare", "trueup.dev/hook: PreSync"),
		"shop/fail.yaml": hookSettings("tell", "trueup.dev/hook: SyncFail"),
	}, "first")
	w.app("shop", func(app *v1alpha1.Application) {
		app.Spec.Destination.Namespace = target
		app.Spec.SyncPolicy.SyncOptions = []string{"CreateNamespace=true"}
		app.Spec.SyncPolicy.Retry = &v1alpha1.Retry{Backoff: &v1alpha1.Backoff{Duration: "500ms"}}
	})
	app := w.until("shop", func(app *v1alpha1.Application) error {
		if op := app.Status.OperationState; op == nil || op.Phase != v1alpha1.PhaseFailed || op.Retries < 2 {
			return fmt.Errorf("the sync should have failed twice, got %+v", op)
		}
		return says(v1alpha1.ConditionApplied, "nothing was changed: creating Namespace "+target, "failed calling webhook")(app)
	})
	if app.Status.Hooks != nil {
		t.Errorf("no hook should have begun, got %+v", app.Status.Hooks)
	}
	w.kubectl("delete", "validatingwebhookconfiguration", target)
	w.until("shop", synced(commit))
	w.until("shop", hooksRan(v1alpha1.PhaseSucceeded, "PreSync prepare Succeeded"))
}

func TestCreateNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := w.ns + "-new"
	t.Cleanup(func() {
		_, _ = w.TryKubectl(context.Background(), "", "delete", "namespace", target, "--wait=false")
	})
	commit := w.git.Commit(map[string]string{
		"shop/settings.yaml": settings("settings", "one"), "shop/more.yaml": settings("more", "one"), "shop/hook.yaml": hookSettings("prepare", "trueup.dev/hook: PreSync"),
	}, "first")
	w.app("shop", cascade, func(app *v1alpha1.Application) { app.Spec.Destination.Namespace = target })
	w.until("shop", says(v1alpha1.ConditionApplied, `namespaces "`+target+`" not found`, "CreateNamespace=true", "nothing was changed"))
	w.kubectl("patch", "application", "shop", "--type=merge", "-p", `{"spec":{"syncPolicy":{"syncOptions":["CreateNamespace=true"]}}}`)
	for _, r := range w.until("shop", synced(commit)).Status.History {
		if strings.Contains(r.Message, "creating Namespace") {
			t.Errorf("making the namespace once is enough: %s", r.Message)
		}
	}
	w.kubectl("delete", "application", "shop", "--timeout=60s")
	if got := w.Kubectl(t, "", "get", "configmap/settings", "namespace/"+target, "-n", target, "--ignore-not-found", "-o", "name"); got != "namespace/"+target+"\n" {
		t.Errorf("want the object pruned and the namespace kept, got %q", got)
	}
}
