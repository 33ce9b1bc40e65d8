package sync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// answered wants the status to tell how the request called id ended, with words in its message.
func answered(id string, phase v1alpha1.Phase, words string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		r := app.Status.LastRequest
		if r == nil || r.ID != id || r.Phase != phase || r.FinishedAt.IsZero() || !strings.Contains(r.Message, words) {
			return fmt.Errorf("want the request %s %s with %q, got %+v", id, phase, words, r)
		}
		return nil
	}
}

func (w *world) ask(id string) {
	w.t.Helper()
	w.kubectl("annotate", "--overwrite", "application", "shop", v1alpha1.AnnotationSync+`={"id":"`+id+`","by":"anna"}`)
}

func TestASyncThatIsAskedForBringsWhatGitHasNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.PollInterval = time.Hour })
	first := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "one")}, "first")
	w.app("shop", func(app *v1alpha1.Application) { app.Spec.SyncPolicy = nil })
	w.until("shop", func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.OutOfSync || app.Status.Sync.Revision != first || app.Status.LastRequest != nil {
			return fmt.Errorf("want OutOfSync with the first commit")
		}
		return nil
	})
	second := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "two")}, "second")
	w.ask("one")
	w.until("shop", answered("one", v1alpha1.PhaseSucceeded, "1 created"))
	app := w.until("shop", synced(second))

	// What the agent does of itself later leaves the answer as it is.
	if op := app.Status.OperationState; op == nil || op.ID != "one" {
		t.Errorf("the operation is %+v", op)
	}
	w.ask("two")
	w.until("shop", answered("two", v1alpha1.PhaseSucceeded, "nothing to do"))
}

func TestASyncThatIsAskedForAndCannotBeDoneSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "one")}, "first")
	w.app("shop")
	w.until("shop", synced(first))

	broken := w.git.Commit(map[string]string{"shop/settings.yaml": "a: [\n"}, "broken")
	w.ask("broken")
	w.until("shop", answered("broken", v1alpha1.PhaseFailed, "commit "+broken[:7]+": shop/settings.yaml:1: invalid YAML"))

	w.git.Stop()
	w.ask("away")
	w.until("shop", answered("away", v1alpha1.PhaseFailed, "cannot be reached"))
	w.git.Start()

	second := w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "two")}, "mended")
	w.kubectl("patch", "application", "shop", "--type=merge", "-p", `{"spec":{"fieldPolicies":[{"paths":["data"],"policy":"Yield"}]}}`)
	w.ask("policy")
	w.until("shop", answered("policy", v1alpha1.PhaseFailed, "spec.fieldPolicies[0].paths[0]"))

	w.kubectl("patch", "application", "shop", "--type=merge", "-p", `{"spec":{"fieldPolicies":null}}`)
	w.ask("mended")
	w.until("shop", synced(second))
	w.until("shop", answered("mended", v1alpha1.PhaseSucceeded, ""))
}
