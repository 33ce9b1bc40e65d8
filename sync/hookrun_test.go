package sync

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/why"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// desiredOf is what a folder with one file declares.
func desiredOf(t *testing.T, manifest string) (*DesiredSet, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "app.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	rendered, err := source.RenderDir(t.Context(), dir, ".", source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := newDesiredSet(rendered.Objects, types.NamespacedName{Namespace: "trueup", Name: "shop"}, "dest", someKinds{})
	if err == nil {
		set.leaveOut(rendered.LeftOut, "dest")
	}
	return set, err
}

func TestSyncHooksThatGitDeclares(t *testing.T) {
	set, err := desiredOf(t, hookJob("b", `argocd.argoproj.io/hook: "PostSync,PreSync", argocd.argoproj.io/sync-wave: "2"`)+"---\n"+hookJob("a", "helm.sh/hook: pre-install")+"---\n"+
		strings.Replace(hookJob("c", "helm.sh/hook: pre-install"), "name: c", "generateName: c-", 1)+"---\n"+settings("settings", "one"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	hooks, err := set.hooksOf("run")
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hooks {
		names = append(names, fmt.Sprintf("%s %d %s", h.Phase, h.Weight, h.ID.Name))
	}
	want := []string{"PreSync 0 " + hooks[0].ID.Name, "PreSync 0 a", "PreSync 2 b", "PostSync 2 b"}
	if !slices.Equal(names, want) {
		t.Errorf("want the hooks %v, got %v", want, names)
	}
	u, err := hooks[0].config("run")
	if err != nil || u.GetGenerateName() != "" || !regexp.MustCompile(`^c-[0-9a-f]{7}-presync$`).MatchString(u.GetName()) || !strings.HasSuffix(u.GetAnnotations()[v1alpha1.AnnotationTracking], "/"+u.GetName()) {
		t.Errorf("a generated name is the same in a run, got %v, %v", u, err)
	}
	if other, err := set.hooksOf("other"); err != nil || other[0].ID == hooks[0].ID || other[1].ID != hooks[1].ID {
		t.Errorf("each run has names of its own, got %v, %v", other, err)
	}
	if len(set.Objects) != 1 {
		t.Errorf("hooks are no objects, got %v", set.Objects)
	}
	if _, err := desiredOf(t, hookJob("a", "helm.sh/hook: pre-install")+"---\n"+hookJob("a", "x: y")); err == nil || !strings.Contains(err.Error(), "is declared twice") {
		t.Errorf("an object that is a hook too: got %v", err)
	}
	var many strings.Builder
	for i := range v1alpha1.MaxHooks + 1 {
		many.WriteString(hookJob(fmt.Sprint("a", i), "helm.sh/hook: pre-install") + "---\n")
	}
	if _, err := desiredOf(t, many.String()); err == nil || !strings.Contains(err.Error(), "there are 51 hooks, and at most 50 are run") {
		t.Errorf("too many hooks: got %v", err)
	}
}

func TestSyncHookStages(t *testing.T) {
	hook := func(name string, phase source.HookPhase, weight int) *Hook {
		return &Hook{Desired: &Desired{ID: diff.ID{Kind: "Pod", Name: name}}, Phase: phase, Weight: weight}
	}
	hooks := []*Hook{hook("a", source.PreSync, 0), hook("b", source.PreSync, 0), hook("c", source.PreSync, 1), hook("d", source.PostSync, 0)}
	for name, c := range map[string]struct {
		items map[string]v1alpha1.Phase // of those that have begun and were made
		want  string                    // to start, at work, failed, done
	}{
		"nothing has begun":                          {nil, "[a b] [] false false"},
		"one of a weight is at work":                 {map[string]v1alpha1.Phase{"a": v1alpha1.PhaseRunning}, "[b] [a] false false"},
		"one of a weight is done":                    {map[string]v1alpha1.Phase{"a": v1alpha1.PhaseSucceeded, "b": v1alpha1.PhaseRunning}, "[] [b] false false"},
		"a weight is done":                           {map[string]v1alpha1.Phase{"a": v1alpha1.PhaseSucceeded, "b": v1alpha1.PhaseSucceeded}, "[c] [] false false"},
		"one failed: what comes later does not come": {map[string]v1alpha1.Phase{"a": v1alpha1.PhaseFailed, "b": v1alpha1.PhaseSucceeded}, "[] [] true false"},
		"all are done":                               {map[string]v1alpha1.Phase{"a": v1alpha1.PhaseSucceeded, "b": v1alpha1.PhaseSucceeded, "c": v1alpha1.PhaseSucceeded}, "[] [] false true"},
	} {
		r := hookRun{status: &v1alpha1.HooksStatus{}}
		for _, h := range hooks {
			if state, ok := c.items[h.ID.Name]; ok {
				item := r.begin(h, time.Now())
				item.UID, item.State = "uid", state
			}
		}
		names := func(hooks []*Hook) []string {
			out := []string{}
			for _, h := range hooks {
				out = append(out, h.ID.Name)
			}
			return out
		}
		s := r.stage(hooks, source.PreSync)
		if got := fmt.Sprint(names(s.start), names(s.waits), s.failed, s.done()); got != c.want {
			t.Errorf("%s: want %s, got %s", name, c.want, got)
		}
	}
}

func TestASyncThatGoesWellRunsNoSyncFailHook(t *testing.T) {
	hooks := []*Hook{{Phase: source.PreSync}, {Phase: source.PostSync}, {Phase: source.SyncFail}}
	if got := runWell(hooks); len(got) != 2 || got[0] != hooks[0] || got[1] != hooks[1] || hooks[2] == nil {
		t.Errorf("got %v", got)
	}
}

func TestWhyPutsTheHookFirstThatASyncWaitsFor(t *testing.T) {
	judge, err := health.NewJudge(nil, health.Options{})
	if err != nil {
		t.Fatal(err)
	}
	job := v1alpha1.ObjectReference{Group: "batch", Kind: "Job", Namespace: "shop", Name: "migrate"}
	app := &v1alpha1.Application{}
	app.Name = "shop"
	app.Status.Resources = []v1alpha1.ResourceStatus{{ObjectReference: v1alpha1.ObjectReference{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}, Sync: v1alpha1.OutOfSync, Health: "Missing", Reason: "Missing"}}
	app.Status.Hooks = &v1alpha1.HooksStatus{Run: "2", Phase: v1alpha1.PhaseFailed, Hooks: []v1alpha1.HookStatus{{ObjectReference: job, Phase: "PreSync", State: v1alpha1.PhaseFailed, Message: "0 of 1 pods succeeded"}}}
	g := &gathering{judge: judge, app: app}
	report := why.Explain(why.Snapshot{Application: why.Application{Namespace: "trueup", Name: "shop", Managed: g.states(nil)}}, time.Now())
	if want := "the PreSync hook Job shop/migrate failed: 0 of 1 pods succeeded"; report.Cause != want {
		t.Errorf("want the cause %q, got %q", want, report.Cause)
	}
	id := diff.ID(ref(idOf(app.Status.Hooks.Hooks[0].ObjectReference)))
	// A Job that was done only after its deadline is healthy, and has failed as a hook.
	managed := map[diff.ID]why.Managed{id: {Health: health.Result{Code: health.Healthy, Message: "completed"}}}
	noteHooks(app, managed)
	if got := managed[id].Health; got.Code != health.Degraded || got.Message != "0 of 1 pods succeeded" {
		t.Errorf("a hook that failed is Degraded whatever its object is, got %+v", got)
	}
	for run, done := range map[string]bool{"": false, "2:PreSync": false, "1:PreSync": true} {
		if got := doneHook(app, id, run); got != done {
			t.Errorf("the object of the run %q: done is %v", run, got)
		}
	}
	app.Status.Hooks.Phase = v1alpha1.PhaseSucceeded
	if !doneHook(app, id, "2:PreSync") {
		t.Error("the hooks of a run that succeeded are no cause")
	}
}
