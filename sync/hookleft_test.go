package sync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

func TestSyncHookLeftOutIsDeclared(t *testing.T) {
	t.Parallel()
	object := func(apiVersion, kind, name, annotation string) string {
		return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, annotations: {%s}}\n---\n", apiVersion, kind, name, annotation)
	}
	set, err := desiredOf(t, object("v1", "ConfigMap", "kept", "a: b")+object("v1", "ConfigMap", "skipped", "argocd.argoproj.io/hook: Skip")+
		object("apps/v1", "Deployment", "last", "argocd.argoproj.io/hook: PostDelete")+object("rbac.authorization.k8s.io/v1", "ClusterRole", "test", "helm.sh/hook: test"))
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Objects) != 1 || len(set.Hooks) != 0 || len(set.Kinds()) != 1 {
		t.Errorf("what is left out should be nothing to apply nor to watch, got %d objects, %d hooks, %v", len(set.Objects), len(set.Hooks), set.Kinds())
	}
	for id, want := range map[diff.ID]bool{
		{Kind: "ConfigMap", Namespace: "dest", Name: "kept"}:                    true,
		{Kind: "ConfigMap", Namespace: "dest", Name: "skipped"}:                 true,
		{Kind: "ConfigMap", Namespace: "other", Name: "skipped"}:                false,
		{Group: "apps", Kind: "Deployment", Namespace: "dest", Name: "last"}:    true,
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "test"}: true,
		{Kind: "ConfigMap", Namespace: "dest", Name: "gone"}:                    false,
	} {
		if got := set.declares(id); got != want {
			t.Errorf("%s: want declared %v, so that it is not pruned, got %v", id, want, got)
		}
	}
}

func TestSyncHookRequestOutrunByGit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*look)
		want   bool
	}{
		"Git has moved on":              {func(*look) {}, true},
		"it is what was asked for":      {func(l *look) { l.snap.set.state = "old" }, false},
		"nobody asks":                   {func(l *look) { l.input.Request = nil }, false},
		"somebody asks once more":       {func(l *look) { l.input.Request = &v1alpha1.SyncRequest{ID: "two"} }, false},
		"all of Git is synced":          {func(l *look) { l.input.Policy.Automated = true }, false},
		"the run is over":               {func(l *look) { l.app.Status.Hooks.Phase = v1alpha1.PhaseFailed }, false},
		"there was none":                {func(l *look) { l.app.Status.Hooks = nil }, false},
		"the last good state stands in": {func(l *look) { l.snap.fetchErr = errHookWaits }, false},
		"a commit that does not render": {func(l *look) { l.snap.renderErr = errHookWaits }, false},
		"nothing has been rendered yet": {func(l *look) { l.snap.set = nil }, false},
	} {
		l := &look{app: &v1alpha1.Application{}, snap: &snapshot{set: &DesiredSet{state: "new"}}}
		l.app.Status.Hooks = &v1alpha1.HooksStatus{Run: "run", State: "old", Request: "one", Phase: v1alpha1.PhaseRunning}
		l.input.Request = &v1alpha1.SyncRequest{ID: "one"}
		if c.change(l); l.outrun() != c.want {
			t.Errorf("%s: want outrun %v", name, c.want)
		}
	}
}

func TestSyncHooksAreNotDueForARequestWhileGitCannotBeRead(t *testing.T) {
	t.Parallel()
	l := &look{app: &v1alpha1.Application{}, snap: &snapshot{set: &DesiredSet{state: "synced", Hooks: []*Hook{{}}}}}
	l.app.Status.Sync.SyncedState = "synced"
	l.app.Status.Hooks = &v1alpha1.HooksStatus{Run: "run", State: "newer", Request: "one", Phase: v1alpha1.PhaseRunning}
	l.input.Request = &v1alpha1.SyncRequest{ID: "one"}
	if !l.hooksDue() {
		t.Error("a person may have the hooks of what is synced run again")
	}
	if l.snap.fetchErr = errHookWaits; l.hooksDue() {
		t.Error("the hooks of the last good state ran for what was synced, and should not run in place of the newer ones")
	}
}

func TestSyncHookOfOneRunIsNotInTheWayOfItsLaterPhase(t *testing.T) {
	t.Parallel()
	app := types.NamespacedName{Namespace: "trueup", Name: "shop"}
	l := &look{key: app, run: &hookRun{status: &v1alpha1.HooksStatus{Run: "this"}}}
	h := &Hook{Desired: &Desired{ID: diff.ID{Kind: "Pod", Name: "a"}}, Phase: source.PostSync, Delete: []source.HookDelete{source.HookSucceeded}}
	for run, want := range map[string]bool{"this:PreSync": true, "other:PreSync": false, "thisone:PreSync": false, "": false} {
		o := &Observed{ID: h.ID, App: app, HookRun: run, Health: health.Result{Code: health.Progressing}}
		if got := l.mayReplace(h, o); got != want {
			t.Errorf("made in %q: want %v, got %v", run, want, got)
		}
	}
}

func TestSyncHookThatCannotBeReadIsNotLookedAtWithoutAPause(t *testing.T) {
	t.Parallel()
	now := time.Now()
	h := &Hook{Desired: &Desired{ID: diff.ID{Kind: "Pod", Name: "a"}}, Phase: source.PreSync, Deadline: time.Minute}
	for begun, want := range map[time.Time]time.Duration{now: time.Minute, now.Add(-time.Hour): hookRetry} {
		l := &look{now: now, run: &hookRun{status: &v1alpha1.HooksStatus{}}}
		l.run.begin(h, begun).Deadline = metav1.NewTime(begun.Add(h.Deadline))
		l.awaitHook(h)
		if got := l.hookDue.Sub(now); got != want {
			t.Errorf("want the next look in %s, got %s", want, got)
		}
	}
}

func TestSyncHookLeftOutIsNotPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "one"), "shop/kept.yaml": hookSettings("kept", "a: b")}, "first")
	w.app("shop")
	w.until("shop", synced(first))
	before := w.uid("configmap/kept")
	second := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "two"), "shop/kept.yaml": hookSettings("kept", "argocd.argoproj.io/hook: Skip")}, "second")
	w.until("shop", synced(second))
	if got := w.uid("configmap/kept"); got != before || got == "" {
		t.Errorf("what Git has skipped should be left alone, got %q and %q", before, got)
	}
}

func TestSyncHooksOfARequestDoNotBringWhatCameLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "one"), "shop/hook.yaml": hookJob("migrate", "argocd.argoproj.io/hook: PreSync")}, "first")
	w.app("shop", func(app *v1alpha1.Application) { app.Spec.SyncPolicy = nil })
	w.ask("one")
	w.until("shop", waitsForHook("PreSync hook Job"))
	second := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "two")}, "second")
	w.until("shop", func(app *v1alpha1.Application) error {
		if r := app.Status.LastRequest; r == nil || r.ID != "one" || r.Phase != v1alpha1.PhaseFailed || !strings.Contains(r.Message, "was not asked for") {
			return fmt.Errorf("the request should be answered, got %+v", r)
		}
		if app.Status.Hooks.Phase != v1alpha1.PhaseFailed || app.Status.Sync.Status != v1alpha1.OutOfSync || condition(app, v1alpha1.ConditionApplied).Reason == "Waiting" {
			return fmt.Errorf("the run should have ended, and the commit wait for a person's word")
		}
		return nil
	})
	w.ends("migrate", "Succeeded")
	w.refresh("shop")
	w.until("shop", func(app *v1alpha1.Application) error {
		if want := app.Annotations[v1alpha1.AnnotationRefresh]; app.Status.ObservedRefresh != want {
			return fmt.Errorf("want the refresh %s answered", want)
		}
		return nil
	})
	if got := w.uid("configmap/settings"); got != "" {
		t.Error("nothing should be written that nobody asked for")
	}
	w.ask("two")
	w.ends("migrate", "Succeeded")
	w.until("shop", synced(second))
}
