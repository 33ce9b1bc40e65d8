package sync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

var shopApp = types.NamespacedName{Namespace: "trueup", Name: "shop"}

func observedOf(kind string, adjust ...func(*Observed)) *Observed {
	o := &Observed{ID: diff.ID{Kind: kind, Namespace: "shop", Name: "thing"}, App: shopApp, Owned: true, Health: present}
	for _, f := range adjust {
		f(o)
	}
	return o
}

func TestWhatLeftGit(t *testing.T) {
	now := metav1.Now()
	pruning := Input{App: shopApp, Policy: Policy{Automated: true, Prune: true}}
	asked := Input{App: shopApp, Request: &v1alpha1.SyncRequest{ID: "1", Prune: true}}
	for name, c := range map[string]struct {
		in      Input
		o       *Observed
		empty   bool
		ours    bool
		op      Op
		message string
	}{
		"is pruned where pruning is on":                       {pruning, observedOf("ConfigMap"), false, true, OpPrune, "no longer in Git"},
		"is pruned where a person asks":                       {asked, observedOf("ConfigMap"), false, true, OpPrune, "no longer in Git"},
		"stays where pruning is off":                          {Input{App: shopApp, Policy: Policy{Automated: true}}, observedOf("ConfigMap"), false, true, OpNone, "pruning is off"},
		"stays where a sync is asked for without prune":       {Input{App: shopApp, Request: &v1alpha1.SyncRequest{ID: "1"}}, observedOf("ConfigMap"), false, true, OpNone, "pruning is off"},
		"stays where nothing is left in Git":                  {pruning, observedOf("ConfigMap"), true, true, OpNone, "allowEmpty"},
		"stays where nothing is left, also by a request":      {asked, observedOf("ConfigMap"), true, true, OpNone, "allowEmpty"},
		"is pruned where nothing is left and that is allowed": {Input{App: shopApp, Policy: Policy{Prune: true, AllowEmpty: true}}, observedOf("ConfigMap"), true, true, OpPrune, "no longer in Git"},
		"is not ours without an entry of ours":                {pruning, observedOf("ConfigMap", func(o *Observed) { o.Owned = false }), false, false, OpNone, ""},
		"is not ours where another Application has it":        {pruning, observedOf("ConfigMap", func(o *Observed) { o.App.Name = "other" }), false, false, OpNone, ""},
		"is not ours where a controller made it":              {pruning, observedOf("ConfigMap", func(o *Observed) { o.Controlled = true }), false, false, OpNone, ""},
		"waits while it is being deleted":                     {pruning, observedOf("ConfigMap", func(o *Observed) { o.DeletionTimestamp, o.Finalizers = &now, []string{"a/b"} }), false, true, OpNone, "finalizers a/b"},
		"stays where its annotation says so":                  {pruning, observedOf("ConfigMap", func(o *Observed) { o.Prune = v1alpha1.PruneDisabled }), false, true, OpNone, "kept by its annotation"},
		"stays where it is a Namespace":                       {pruning, observedOf("Namespace"), false, true, OpNone, "trueup.dev/prune=confirm"},
		"stays where it is a claim, also by a request":        {asked, observedOf("PersistentVolumeClaim"), false, true, OpNone, "trueup.dev/prune=confirm"},
		"is pruned where a person has confirmed it":           {pruning, observedOf("PersistentVolumeClaim", func(o *Observed) { o.Prune = v1alpha1.PruneConfirm }), false, true, OpPrune, "no longer in Git"},
	} {
		t.Run(name, func(t *testing.T) {
			step, ours := c.in.Extra(c.o, c.empty)
			if ours != c.ours || step.Op != c.op || !strings.Contains(step.Message, c.message) {
				t.Errorf("got ours %t, %q, %q; want %t, %q, %q", ours, step.Op, step.Message, c.ours, c.op, c.message)
			}
		})
	}
}

func TestPruneBudget(t *testing.T) {
	for name, c := range map[string]struct {
		prunes, total int
		asked         bool
		want          int
	}{
		"half of many goes":                      {6, 12, false, 6},
		"more than half of many stays":           {7, 12, false, 0},
		"all of few goes":                        {10, 10, false, 10},
		"many stay, also when few were synced":   {60, 5, false, 0},
		"more than half goes by a person's word": {12, 12, true, 12},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{}
			if c.asked {
				in.Request = &v1alpha1.SyncRequest{Prune: true}
			}
			var steps []*Step
			for range c.prunes {
				steps = append(steps, &Step{Op: OpPrune})
			}
			in.WithinBudget(steps, c.total)
			got := 0
			for _, s := range steps {
				if s.Op == OpPrune {
					got++
				} else if !strings.Contains(s.Message, "trueup sync --prune") {
					t.Errorf("what is held back should say the way out: %q", s.Message)
				}
			}
			if got != c.want {
				t.Errorf("prunes: got %d, want %d", got, c.want)
			}
		})
	}
}

func TestDecideWhoIsAllowedToAct(t *testing.T) {
	d := &Desired{ID: diff.ID{Kind: "ConfigMap", Namespace: "shop", Name: "thing"}, digest: "new", json: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"thing"},"data":{"a":"1"}}`)}
	context := func(d *Desired) diff.Context { return diff.Context{Object: d.ID} }
	changed := observedOf("ConfigMap", func(o *Observed) {
		o.State = diff.Observed{Exists: true, Applied: diff.Applied{Config: "old", Fields: "f"}, Fields: "f"}
	})
	for name, c := range map[string]struct {
		policy Policy
		isNew  bool
		asked  bool
		o      *Observed
		op     Op
		reason string
	}{
		"a new object of a new revision is made":            {Policy{Automated: true}, true, false, nil, OpCreate, "Missing"},
		"an object deleted by hand stays so without heal":   {Policy{Automated: true}, false, false, nil, OpNone, "Missing"},
		"an object deleted by hand comes back with heal":    {Policy{Automated: true, SelfHeal: true}, false, false, nil, OpCreate, "Missing"},
		"nothing is done without automation":                {Policy{}, true, false, nil, OpNone, "Missing"},
		"a person's word is enough":                         {Policy{}, true, true, nil, OpCreate, "Missing"},
		"a change of a new revision is applied":             {Policy{Automated: true}, true, false, changed, OpUpdate, "Changed"},
		"another Application's object is left alone":        {Policy{Automated: true}, true, true, observedOf("ConfigMap", func(o *Observed) { o.App.Name = "other" }), OpNone, "Refused"},
		"an object that is going is waited for":             {Policy{Automated: true, SelfHeal: true}, true, false, observedOf("ConfigMap", func(o *Observed) { o.DeletionTimestamp = &metav1.Time{} }), OpNone, "Terminating"},
		"a claimed object that we apply already stays ours": {Policy{Automated: true}, true, false, observedOf("ConfigMap", func(o *Observed) { o.Claimant = "Helm"; o.State = changed.State }), OpUpdate, "Changed"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{App: shopApp, Policy: c.policy, New: c.isNew, Context: context}
			if c.asked {
				in.Request = &v1alpha1.SyncRequest{ID: "1"}
			}
			step, err := in.Decide(d, c.o)
			if err != nil || step.Op != c.op || step.Reason != c.reason {
				t.Errorf("got %q, %q, %v; want %q, %q", step.Op, step.Reason, err, c.op, c.reason)
			}
		})
	}
}

func TestTrackingNamesTheObject(t *testing.T) {
	for _, id := range []diff.ID{
		{Kind: "Namespace", Name: "shop"},
		{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system:shop:viewer"},
	} {
		app, got, ok := parseTracking(tracking(shopApp, id))
		if !ok || app != shopApp || got != id {
			t.Errorf("%s: got %v, %v, %t", id, app, got, ok)
		}
	}
	for _, s := range []string{"", "a/b", "a/b:c", "a:b:c", "shop:apps/Deployment:x/y"} {
		if _, _, ok := parseTracking(s); ok {
			t.Errorf("%q names no object", s)
		}
	}
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	limit, by := int64(3), int64(3)
	spec := &v1alpha1.SyncPolicy{Retry: &v1alpha1.Retry{Limit: &limit, Backoff: &v1alpha1.Backoff{Duration: "2s", Factor: &by, MaxDuration: "10s"}}}
	var got []string
	for n := int64(1); ; n++ {
		wait, ok := backoff(spec, n)
		if !ok {
			break
		}
		got = append(got, wait.String())
	}
	if d := cmp.Diff([]string{"2s", "6s", "10s"}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if wait, ok := backoff(nil, 1000); !ok || wait != 3*time.Minute {
		t.Errorf("without a word in the Application: got %s, %t", wait, ok)
	}
	zero := int64(0)
	if _, ok := backoff(&v1alpha1.SyncPolicy{Retry: &v1alpha1.Retry{Limit: &zero}}, 1); ok {
		t.Error("a limit of 0 means no retry")
	}
}

func TestBreaker(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := &fight{}
	for i := range tripAfter - 1 {
		f.note(start.Add(time.Duration(i)*time.Second), tripAfter)
	}
	if !f.until.IsZero() {
		t.Errorf("held after %d heals", tripAfter-1)
	}
	f.note(start.Add(time.Minute), tripAfter)
	if want := start.Add(time.Minute + holdFor); f.until != want {
		t.Errorf("held until %s, want %s", f.until, want)
	}
	again := f.until.Add(time.Second)
	f.note(again, tripAfter)
	if want := again.Add(2 * holdFor); f.until != want {
		t.Errorf("the second time held until %s, want %s", f.until, want)
	}
	slow := &fight{}
	for i := range 10 {
		slow.note(start.Add(time.Duration(i)*fightWindow), tripAfter)
	}
	if !slow.until.IsZero() {
		t.Error("heals that are far apart are no fight")
	}
	for range 100 {
		last := f.until
		f.note(last, tripAfter)
		if held := f.until.Sub(last); held <= 0 || held > holdAtMost {
			t.Fatalf("held for %s, want more than nothing and at most %s", held, holdAtMost)
		}
	}
}

// TestOutrunHealsCountAsTakenBack: where the owner writes so fast that no heal gets there, none is ever counted as done.
func TestOutrunHealsCountAsTakenBack(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	for name, c := range map[string]struct {
		wrote []time.Time // by the owner, before each heal
		each  int64       // how far the object's generation has come each time
		held  bool
	}{
		"an owner that has written each time":           {[]time.Time{second(0), second(1), second(2), second(3)}, 1, true},
		"an owner that has written twice more":          {[]time.Time{second(0), second(0), second(1), second(2)}, 1, false},
		"an object of which only others change":         {[]time.Time{second(0), second(0), second(0), second(0), second(0), second(0)}, 1, false},
		"an owner without a time, beside a status":      {make([]time.Time, 100), 0, false},
		"an owner without a time, a few times":          {make([]time.Time, 3), 1, false},
		"an owner without a time, again and again":      {make([]time.Time, 4), 1, true},
		"an owner without a time, that writes more yet": {make([]time.Time, 4), 10, true},
	} {
		t.Run(name, func(t *testing.T) {
			st := newAppState()
			d := &Desired{ID: diff.ID{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}, digest: "git"}
			now := start
			for i, wrote := range c.wrote {
				now = now.Add(time.Second)
				observed := &Observed{}
				observed.Generation = int64(i) * c.each
				owner := diff.Owner{Manager: "operator", Operation: "Update", Time: wrote}
				loss := diff.DecidedLoss{Loss: diff.Loss{Path: fieldpath.MakePathOrDie("data", "mode"), Owner: owner}, Decision: diff.Decision{Verdict: diff.Enforce}}
				st.outrun(&Step{ID: d.ID, Desired: d, Observed: observed, Op: OpHeal, Comparison: diff.Comparison{Losses: []diff.DecidedLoss{loss}}}, now)
				st.calm(now)
			}
			if _, held := st.contested(d, now)(".data.mode", diff.Owner{Manager: "operator"}); held != c.held {
				t.Errorf("held: got %t, want %t", held, c.held)
			}
		})
	}
}

func TestFightThatHasBeenQuietIsOver(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := newAppState()
	d := &Desired{ID: diff.ID{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}, digest: "git"}
	owner := diff.Owner{Manager: "operator", Operation: "Update"}
	takenBack := func(now time.Time) *fight {
		f := st.fight(d, ".data.mode", owner, now)
		f.note(now, tripAfter)
		return f
	}
	var held *fight
	for range tripAfter {
		held = takenBack(start)
	}
	if again := takenBack(held.until.Add(fightWindow - time.Second)); again.until.Before(start.Add(2 * holdFor)) {
		t.Errorf("taken back soon after the hold: want it held for longer, got until %s", again.until)
	}
	// No look in between, as where nothing else changes for an hour: nobody has forgotten it.
	if again := takenBack(start.Add(5 * time.Hour)); !again.until.IsZero() || again.count != 1 {
		t.Errorf("taken back once, hours after the fight: want it put right, got held until %s after %d times", again.until, again.count)
	}
}

// TestFightsAreBounded: a rival that writes another field each time costs a bounded amount of memory, and the object is
// held as a whole.
func TestFightsAreBounded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := newAppState()
	d := &Desired{ID: diff.ID{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}, digest: "git"}
	for i := range tripObjectAfter {
		var extras []diff.Extra
		for n := range maxFights {
			extras = append(extras, diff.Extra{Path: fieldpath.MakePathOrDie("data", fmt.Sprintf("key-%d-%d", i, n)), Owner: diff.Owner{Manager: "kubectl-edit"}})
		}
		st.wrote(&Step{ID: d.ID, Desired: d, Op: OpHeal, Comparison: diff.Comparison{Extras: extras}}, now)
	}
	if len(st.fights) > maxFights+1 {
		t.Errorf("remembered: got %d, want at most %d", len(st.fights), maxFights+1)
	}
	if _, held := st.contested(d, now)(wholeObject.String(), diff.Owner{}); !held {
		t.Error("the object is to be held")
	}
}

// TestWhatWaitsForSomethingElseIsNotLookedAtAtOnce: a deadline that has passed brings no pass where the one that was just
// made could not do anything about it.
func TestWhatWaitsForSomethingElseIsNotLookedAtAtOnce(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	id := diff.ID{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	for name, c := range map[string]struct {
		until time.Time
		want  time.Duration
	}{
		"long ago":           {now.Add(-time.Minute), time.Hour},
		"during the pass":    {now.Add(time.Millisecond), time.Millisecond},
		"in a while":         {now.Add(time.Minute), 58 * time.Second},
		"only by a person":   {never, time.Hour},
		"at the look itself": {now, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, note := range map[string]func(*appState){
				"pause":   func(st *appState) { st.pauses[id] = &pause{until: c.until} },
				"failure": func(st *appState) { st.failures[id] = &failure{until: c.until} },
				"retry":   func(st *appState) { st.retry = retry{until: c.until, err: errLookAgain} },
			} {
				l := &look{app: &v1alpha1.Application{}, st: newAppState(), now: now}
				note(l.st)
				if got := l.next(now.Add(2*time.Second), time.Hour); got != c.want {
					t.Errorf("%s: next look in %s, want %s", kind, got, c.want)
				}
			}
		})
	}
}
