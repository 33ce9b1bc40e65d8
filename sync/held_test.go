package sync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// reasonOf wants an object listed with a reason and the beginning of a message.
func reasonOf(name, reason, message string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		for _, r := range app.Status.Resources {
			if r.Name == name && r.Reason == reason && strings.HasPrefix(r.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("want %s %s with %q, got %+v", name, reason, message, app.Status.Resources)
	}
}

// fight has a manager take a ConfigMap's mode back until that is held.
func (w *world) fight(app, manager, name string) {
	w.t.Helper()
	stop := w.rival(50*time.Millisecond, manager, "configmaps", name, "", func(i int) string { return fmt.Sprintf(`{"data":{"mode":"theirs-%d"}}`, i) })
	w.until(app, reasonOf(name, "Held", ".data.mode: contested: "+manager))
	stop()
}

// looksMore waits until the loop has made so many more passes.
func (w *world) looksMore(n int) {
	w.t.Helper()
	seen := w.passes()
	kubetest.Eventually(w.t, patience, func() error {
		if got := w.passes() - seen; got < n {
			return fmt.Errorf("want %d passes, there were %d", n, got)
		}
		return nil
	})
}

// TestOwnersThatTakeTurnsCostFewReports: whoever has a held field at the moment is no reason to write each time.
func TestOwnersThatTakeTurnsCostFewReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	mark, start := w.AuditMark(t), time.Now()
	var stops []func()
	for _, manager := range []string{"operator-a", "operator-b"} {
		stops = append(stops, w.rival(20*time.Millisecond, manager, "configmaps", "settings", "", func(i int) string {
			return fmt.Sprintf(`{"data":{"mode":"%s-%d"}}`, manager, i)
		}))
	}
	w.looksMore(200)
	reports := slices.DeleteFunc(w.ownRequests(mark), func(e kubetest.AuditEvent) bool { return e.Verb != "patch" || e.Resource != "applications" })
	// Each of the heals is told, and what comes after them a few times and then now and then.
	if most := tripObjectAfter + newsAtOnce + 2 + int(time.Since(start)/newsEvery); len(reports) > most {
		t.Errorf("writes of the status in %s: got %d, want at most %d", time.Since(start), len(reports), most)
	}
	if got := w.realWrites(mark); got > tripObjectAfter {
		t.Errorf("writes of the object: got %d, want at most %d", got, tripObjectAfter)
	}
	for _, stop := range stops {
		stop()
	}
	// What is so in the end is told all the same.
	w.write("operator-a", "settings", "the last word")
	w.until("shop", func(app *v1alpha1.Application) error {
		if d := drift(app, ".data.mode"); d == nil || d.Manager != "operator-a" {
			return fmt.Errorf("want operator-a to have the field, got %+v", d)
		}
		return nil
	})
}

// TestStatusThatChangesQuicklyIsNoFight: what outruns the heal of a scaled workload is not who scaled it.
func TestStatusThatChangesQuicklyIsNoFight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	want := w.replicas()
	var stops []func()
	for range 2 {
		stops = append(stops, w.rival(2*time.Millisecond, "some-operator", "deployments", "web", "status", func(int) string {
			return fmt.Sprintf(`{"status":{"conditions":[{"type":"Beat","status":"True","reason":"Beat","message":"%d"}]}}`, time.Now().UnixNano())
		}))
	}
	w.kubectl("scale", "deployment", "web", "--replicas=7")
	deadline := time.Now().Add(8 * time.Second)
	w.until("shop", func(app *v1alpha1.Application) error {
		if d := drift(app, ".spec.replicas"); d != nil && d.HeldUntil != nil {
			t.Fatalf("scaled once, and held as a fight: %+v", d)
		}
		if w.replicas() != want && time.Now().Before(deadline) {
			return fmt.Errorf("neither healed nor outrun for long")
		}
		return nil
	})
	for _, stop := range stops {
		stop()
	}
	w.eventually(want, w.replicas)
}

func TestHeldFieldIsRememberedUnlessGitHasChangedIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// More fields than the status lists are left to others: that of the fight is among those that it does list.
	many := configMap
	var left []string
	for i := range v1alpha1.MaxDrift + 5 {
		many += fmt.Sprintf("  a%02d: ours\n", i)
		left = append(left, fmt.Sprintf(`"a%02d":"theirs"`, i))
	}
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": many, "shop/other.yaml": settings("other", "production"), "shop/quiet.yaml": settings("quiet", "production")}, "first")
	w.app("shop", func(app *v1alpha1.Application) {
		app.Spec.FieldPolicies = []v1alpha1.FieldPolicy{{Managers: []string{"tuner"}, Policy: v1alpha1.PolicyYield}}
	})
	w.until("shop", synced(commit))
	w.kubectl("patch", "configmap", "settings", "--type=merge", "--field-manager=tuner", "-p", `{"data":{`+strings.Join(left, ",")+`}}`)
	w.fight("shop", "some-operator", "settings")
	w.fight("shop", "some-operator", "other")
	w.stop()
	commit = w.git.Commit(map[string]string{"shop/other.yaml": settings("other", "test")}, "change one of them")
	mark := w.AuditMark(t)
	w.start()
	w.heals("quiet")
	w.eventually("test", func() string { return w.setting("other") })
	w.until("shop", func(app *v1alpha1.Application) error {
		if s := app.Status.Sync; s.SyncedRevision != commit {
			return fmt.Errorf("want %.7s synced, got %.7s", commit, s.SyncedRevision)
		}
		return reasonOf("settings", "Held", ".data.mode: contested: some-operator took it back")(app)
	})
	for _, e := range w.changes(mark) {
		if e.Name == "settings" {
			t.Errorf("what Git has not changed is still held, got %s %s", e.Verb, e.URI)
		}
	}
}

// TestObjectHeldAsAWholeHoldsNothingElse: a revision that brings other objects is synced, and who asks about the held one
// is told.
func TestObjectHeldAsAWholeHoldsNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	stop := w.rival(50*time.Millisecond, "some-operator", "configmaps", "settings", "", func(int) string { return `{"metadata":{"annotations":null}}` })
	w.until("shop", reasonOf("settings", "Held", "contested: it was written and has changed again"))
	stop()
	commit = w.git.Commit(map[string]string{"shop/other.yaml": settings("other", "production")}, "another object")
	app := w.until("shop", func(app *v1alpha1.Application) error {
		if s := app.Status.Sync; s.SyncedRevision != commit || s.Status != v1alpha1.OutOfSync {
			return fmt.Errorf("want %.7s synced and the Application OutOfSync, got %.7s and %s", commit, s.SyncedRevision, s.Status)
		}
		return nil
	})
	owners, err := NewOwners(t.Context(), w.clients, w.controller.repositories, app, func(all []*Desired) (*Desired, error) {
		return all[slices.IndexFunc(all, func(d *Desired) bool { return d.ID.Name == "settings" })], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(owners.Refused, "is held as a whole: contested: ") {
		t.Errorf("want it told that the object is held, got %q", owners.Refused)
	}
	if f := owners.Fields[0]; f.Verdict != diff.Hold || f.Rule != diff.RuleContested {
		t.Errorf("want each field held, got %+v", f)
	}
}

// TestLongNamesDoNotKeepTheStatusFromBeingWritten: what people add may have names as long as an object can be.
func TestLongNamesDoNotKeepTheStatusFromBeingWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := map[string]string{}
	for i := range 4 {
		files[fmt.Sprintf("shop/%d.yaml", i)] = fmt.Sprintf("{apiVersion: batch/v1, kind: CronJob, metadata: {name: job-%d}, spec: {schedule: '0 0 1 1 *', suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: web, image: web, env: [{name: MODE, value: production}]}]}}}}}}", i)
	}
	commit := w.git.Commit(files, "first")
	w.app("shop", func(app *v1alpha1.Application) { app.Spec.SyncPolicy.Automated.SelfHeal = false })
	w.until("shop", syncedAt(commit))
	for i := range 4 {
		patch := fmt.Sprintf(`{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"%s","value":"x"}]}]}}}}}}`, strings.Repeat("x", 500_000))
		w.Kubectl(t, patch, "patch", "-n", w.ns, "cronjob", fmt.Sprintf("job-%d", i), "--patch-file=/dev/stdin")
	}
	w.until("shop", func(app *v1alpha1.Application) error {
		if s := app.Status; s.Sync.Status != v1alpha1.OutOfSync || len(s.Drift) != 4 {
			return fmt.Errorf("want four fields listed, got %d", len(s.Drift))
		}
		return nil
	})
	w.ask("again")
	w.until("shop", syncedAt(commit))
}

// TestHoldEnds: a field or an object that was held is put right by itself once the hold is over, also where the agent was
// started in it, and is not taken for a fight again when its rival has gone.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": configMap, "shop/other.yaml": settings("other", "production")}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	w.fight("shop", "some-operator", "settings")
	stop := w.rival(50*time.Millisecond, "some-operator", "configmaps", "other", "", func(int) string { return `{"metadata":{"annotations":null,"labels":null}}` })
	app := w.until("shop", reasonOf("other", "Held", "contested: it was written and has changed again"))
	stop()
	w.stop()
	over := metav1.NewTime(time.Now().Add(6 * time.Second)).Rfc3339Copy()
	app = app.DeepCopy()
	for i := range app.Status.Drift {
		if app.Status.Drift[i].HeldUntil != nil {
			app.Status.Drift[i].HeldUntil = &over
		}
	}
	if _, err := w.clients.Applications(w.ns).UpdateStatus(t.Context(), app, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	mark := w.AuditMark(t)
	w.start()
	w.until("shop", synced(commit))
	for _, e := range w.changes(mark) {
		if e.Time.Before(over.Time) {
			t.Errorf("held until %s, but written at %s: %s %s", over, e.Time, e.Verb, e.URI)
		}
	}
	if got := w.setting("settings"); got != "production" {
		t.Errorf("mode: got %s, want production", got)
	}
}

// TestFightEndsWhereTheFieldIsLeftToItsOwner: a policy or an autoscaler that has gone again leaves no fight behind.
func TestFightEndsWhereTheFieldIsLeftToItsOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	w.fight("shop", "some-operator", "settings")
	policies := func(list string) {
		w.kubectl("patch", "application", "shop", "--type=merge", "-p", `{"spec":{"fieldPolicies":`+list+`}}`)
	}
	policies(`[{"managers":["some-*"],"policy":"Yield"}]`)
	w.until("shop", func(app *v1alpha1.Application) error {
		if d := drift(app, ".data.mode"); d == nil || d.Decision != "Yield" || app.Status.Sync.Status != v1alpha1.Synced {
			return fmt.Errorf("want the field left to its owner, got %+v", d)
		}
		return nil
	})
	policies("[]")
	w.until("shop", synced(commit))
	w.eventually("production", func() string { return w.setting("settings") })
}
