package sync

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// TestNewNamesForAllObjectsDoNotMakeRoomInThePruneBudget is about a namePrefix that changes: the objects under the new
// names must not count as those that stay.
func TestNewNamesForAllObjectsDoNotMakeRoomInThePruneBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all strings.Builder
	for i := range budgetFrom + 2 {
		all.WriteString(settings(fmt.Sprintf("settings-%d", i), "one") + "---\n")
	}
	kustomization := func(prefix string) string { return "namePrefix: " + prefix + "\nresources: [all.yaml]\n" }
	first := w.git.Commit(map[string]string{"shop/all.yaml": all.String(), "shop/kustomization.yaml": kustomization("old-")}, "first")
	w.app("shop")
	w.until("shop", synced(first))
	second := w.git.Commit(map[string]string{"shop/kustomization.yaml": kustomization("new-")}, "other names")
	held := func(revision string) func(*v1alpha1.Application) error {
		return func(app *v1alpha1.Application) error {
			if got := app.Status.Sync.SyncedRevision; got != revision {
				return fmt.Errorf("want all new objects made at %.7s, got %.7s", revision, got)
			}
			return extra("old-settings-0", "trueup sync --prune")(app)
		}
	}
	w.until("shop", held(second))
	third := w.git.Commit(map[string]string{"shop/more.yaml": settings("more", "one"), "shop/kustomization.yaml": kustomization("new-") + "commonAnnotations: {a: b}\n"}, "look at everything again")
	w.until("shop", held(third))
	w.stop() // the guard is not in memory
	w.start()
	seen := w.git.Commit(map[string]string{"shop/kustomization.yaml": kustomization("new-") + "commonAnnotations: {a: c}\n"}, "and once more")
	w.until("shop", held(seen))
	if got := strings.Count(w.there("configmap"), "configmap/old-"); got != budgetFrom+2 {
		t.Errorf("%d of %d objects were left", got, budgetFrom+2)
	}
}

// TestTwoApplicationsThatTakeOverOneObjectDoNotFightForEver is about Adopt=true on both sides.
func TestTwoApplicationsThatTakeOverOneObjectDoNotFightForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.Commit(map[string]string{"one/settings.yaml": settings("settings", "one"), "two/settings.yaml": settings("settings", "two")}, "first")
	adopting := func(app *v1alpha1.Application) { app.Spec.SyncPolicy.SyncOptions = []string{"Adopt=true"} }
	mark := w.AuditMark(t)
	w.app("one", adopting)
	w.app("two", adopting)
	kubetest.Eventually(t, patience, func() error {
		for _, name := range []string{"one", "two"} {
			app := w.get(name)
			if slices.ContainsFunc(app.Status.Resources, func(r v1alpha1.ResourceStatus) bool {
				return r.Reason == "Held" && strings.Contains(r.Message, "declares it too")
			}) && app.Status.Sync.Status == v1alpha1.OutOfSync {
				return nil
			}
		}
		return fmt.Errorf("want one of the two to give in and to say so")
	})
	if got := w.realWrites(mark); got > 4*tripAfter {
		t.Errorf("%d writes about one object", got)
	}
}

// TestRevisionIsNotSyncedWhileOneOfItsObjectsIsRefused: the object is made as part of that revision, also without
// self-heal, once the other Application has let go of it.
func TestRevisionIsNotSyncedWhileOneOfItsObjectsIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(map[string]string{"one/settings.yaml": settings("settings", "one"), "one/more.yaml": settings("more", "one"), "two/settings.yaml": settings("settings", "two")}, "first")
	w.app("one")
	w.until("one", synced(first))
	w.app("two", func(app *v1alpha1.Application) { app.Spec.SyncPolicy.Automated.SelfHeal = false })
	app := w.until("two", func(app *v1alpha1.Application) error {
		if len(app.Status.Resources) != 1 || app.Status.Resources[0].Reason != "Refused" {
			return fmt.Errorf("want the object refused")
		}
		return says(v1alpha1.ConditionApplied, "belongs to the Application")(app)
	})
	if got := app.Status.Sync.SyncedRevision; got != "" {
		t.Errorf("revision %.7s counts as synced", got)
	}
	second := w.git.Remove("let go of it", "one/settings.yaml")
	w.until("one", synced(second))
	w.until("two", synced(second))
	w.eventually("two", func() string { return w.setting("settings") })
}

// TestObjectThatIsDeletedAsSoonAsItIsThere is about one that the garbage collector takes, since Git gives it an owner that
// is not there.
func TestObjectThatIsDeletedAsSoonAsItIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orphan := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: orphan\n  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: nobody, uid: 11111111-1111-1111-1111-111111111111}]\n"
	w.git.Commit(map[string]string{"shop/orphan.yaml": orphan, "shop/settings.yaml": settings("settings", "one")}, "first")
	mark := w.AuditMark(t)
	w.app("shop")
	w.until("shop", says(v1alpha1.ConditionApplied, "deleted each time", "ownerReferences"))
	made := 0
	for _, e := range w.writes(mark) {
		if e.Name == "orphan" && !strings.Contains(e.URI, "dryRun") {
			made++
		}
	}
	if made < tripAfter || made > 3*tripAfter {
		t.Errorf("made %d times", made)
	}
	w.heals("settings")
}
