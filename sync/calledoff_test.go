package sync

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// automate turns automated sync on or off.
func (w *world) automate(name string, on bool) {
	w.t.Helper()
	w.kubectl("patch", "application", name, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"syncPolicy":{"automated":{"enabled":%t}}}}`, on))
}

func TestSyncHooksThatAutomationBeganEndWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(map[string]string{
		"shop/app.yaml": settings("settings", "one"),
		"shop/hook.yaml": hookJob("migrate", "argocd.argoproj.io/hook: PreSync") + "---\n" +
			hookJob("later", `argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/sync-wave: "2"`) + "---\n" +
			hookJob("tell", "argocd.argoproj.io/hook: PostSync"),
	}, "first")
	mark := w.AuditMark(t)
	w.app("shop")
	w.until("shop", waitsForHook("PreSync hook Job "+w.ns+"/migrate"))
	w.automate("shop", false)
	// What is at work is let end, and nothing begins after it.
	w.until("shop", waitsForHook("; automated sync was turned off, and nothing comes after it"))
	w.ends("migrate", "Succeeded")
	off := func(app *v1alpha1.Application) error {
		if op := app.Status.OperationState; op == nil || op.Phase != v1alpha1.PhaseFailed || !strings.Contains(op.Message, "automated sync was turned off") {
			return fmt.Errorf("the sync should have ended, got %+v", op)
		}
		if c := condition(app, v1alpha1.ConditionApplied); c.Reason != v1alpha1.ReasonHookFailed || !strings.Contains(c.Message, "trueup sync begins it anew") {
			return errors.New("the condition should say what became of it")
		}
		return hooksRan(v1alpha1.PhaseFailed, "PreSync migrate Succeeded")(app)
	}
	w.until("shop", off)
	// Nor does it when automated sync is turned on again, as with any sync that has failed; and not half of it.
	w.automate("shop", true)
	w.refresh("shop")
	w.until("shop", func(app *v1alpha1.Application) error {
		if app.Status.ObservedGeneration != app.Generation || app.Status.ObservedRefresh != app.Annotations[v1alpha1.AnnotationRefresh] {
			return errors.New("not looked at again")
		}
		return off(app)
	})
	if got := fmt.Sprint(w.jobsMade(mark)) + w.uid("configmap/settings"); got != "map[migrate:1]" {
		t.Errorf("nothing should have been made but the first hook, got %s", got)
	}

	// A person's word goes through with it, and what is at work last succeeds without automation, too.
	w.ask("one")
	w.ends("migrate", "Succeeded")
	w.ends("later", "Succeeded")
	w.until("shop", waitsForHook("PostSync hook Job "+w.ns+"/tell"))
	w.ends("tell", "Succeeded")
	all := []string{"PreSync migrate Succeeded", "PreSync later Succeeded", "PostSync tell Succeeded"}
	w.until("shop", hooksRan(v1alpha1.PhaseSucceeded, all...))
	w.until("shop", synced(first))

	second := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "two")}, "second")
	w.ends("migrate", "Succeeded")
	w.ends("later", "Succeeded")
	w.until("shop", waitsForHook("PostSync hook Job "+w.ns+"/tell"))
	w.automate("shop", false)
	w.until("shop", waitsForHook("; automated sync was turned off"))
	w.ends("tell", "Succeeded")
	w.until("shop", hooksRan(v1alpha1.PhaseSucceeded, all...))
	w.until("shop", synced(second))

	// What ran for a commit that is no longer the newest ends as well.
	w.automate("shop", true)
	w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "three")}, "third")
	w.until("shop", waitsForHook("PreSync hook Job "+w.ns+"/migrate"))
	w.automate("shop", false)
	w.until("shop", waitsForHook("; automated sync was turned off"))
	w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "four")}, "fourth")
	w.until("shop", hooksRan(v1alpha1.PhaseFailed, "PreSync migrate Failed"))
	w.until("shop", func(app *v1alpha1.Application) error {
		if op := app.Status.OperationState; op.Phase != v1alpha1.PhaseFailed || !strings.Contains(op.Message, "automated sync was turned off") {
			return fmt.Errorf("the sync should have ended, got %+v", op)
		}
		return nil
	})
}
