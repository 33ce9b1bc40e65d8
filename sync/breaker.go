package sync

import (
	"iter"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// The breaker: when one manager takes one field back again and again, the field is held, and everything else goes on.
//
//	healed ──(taken back tripAfter times within fightWindow)──▶ held ──(holdFor, doubled each time)──▶ tried once more
//
// A heal that never gets there, since the owner writes faster, counts too. What no field explains is held by the object:
// one that is written tripObjectAfter times for the same configuration.
// It closes when Git changes the field's object, when the field is left to its owner, when a sync is asked for, and after a
// quiet while.
const (
	tripAfter       = 3
	tripObjectAfter = 10
	fightWindow     = 10 * time.Minute
	holdFor         = 10 * time.Minute
	holdAtMost      = 2 * time.Hour
)

type fightKey struct {
	id      diff.ID
	path    string
	manager string
}

type fight struct {
	heals  []time.Time // within the window
	count  int         // of all heals since the fight began
	outrun outrun      // the last heal that did not get there
	trips  int
	until  time.Time // held until then; zero while it is not held
	digest string    // of the configuration that it is about
}

// outrun is a heal that did not get there, since the object had changed meanwhile.
type outrun struct {
	at         time.Time // by our clock
	wrote      time.Time // by the API server's, when the owner had written what was to be undone; zero where it does not tell
	generation int64     // of the object then
}

// contested returns whether a field is held now. A fight about another configuration is over.
func (s *appState) contested(d *Desired, now time.Time) func(path string, o diff.Owner) (diff.Fight, bool) {
	if len(s.fights) == 0 {
		return nil
	}
	return func(path string, o diff.Owner) (diff.Fight, bool) {
		f, ok := s.fights[fightKey{d.ID, path, o.Manager}]
		if !ok || f.digest != d.digest || !now.Before(f.until) {
			return diff.Fight{}, false
		}
		return diff.Fight{Count: f.count, Until: f.until}, true
	}
}

// wrote notes that an object was put right, and holds what has been too often.
func (s *appState) wrote(step *Step, now time.Time) {
	if step.Op == OpHeal {
		for path, owner := range taken(step.Comparison) {
			s.fight(step.Desired, path, owner, now).note(now, tripAfter)
		}
	}
	s.fight(step.Desired, wholeObject.String(), diff.Owner{}, now).note(now, tripObjectAfter)
}

// outrun notes that an object has changed under a step: what the owner of a field has written since the last time counts
// as taken back. Where the API server notes no time, as for the scale subresource, the object's generation tells it from a
// status that changes beside it.
func (s *appState) outrun(step *Step, now time.Time) {
	for path, owner := range taken(step.Comparison) {
		if owner.Manager == "" {
			continue
		}
		f := s.fight(step.Desired, path, owner, now)
		last := outrun{now, owner.Time, step.Observed.Generation}
		if f.outrun.before(last) {
			f.note(now, tripAfter)
		}
		f.outrun = last
	}
}

// yielded ends the fights about fields that are left to their owners: an autoscaler that comes and goes, or a policy, has
// made peace.
func (s *appState) yielded(d *Desired, c diff.Comparison) {
	for _, l := range c.Losses {
		if l.Verdict == diff.Yield {
			delete(s.fights, fightKey{d.ID, l.Path.String(), l.Owner.Manager})
		}
	}
}

// before reports whether the owner has written between two heals that did not get there.
func (o outrun) before(p outrun) bool {
	return !o.at.IsZero() && (o.wrote.Before(p.wrote) || p.wrote.IsZero() && o.generation < p.generation)
}

// taken are the fields that putting an object right takes from others.
func taken(c diff.Comparison) iter.Seq2[string, diff.Owner] {
	return func(yield func(string, diff.Owner) bool) {
		for _, l := range c.Losses {
			if l.Verdict == diff.Enforce && !yield(l.Path.String(), l.Owner) {
				return
			}
		}
		for _, e := range c.Extras {
			if !yield(e.Path.String(), e.Owner) {
				return
			}
		}
	}
}

// tookOver notes that an object was taken over from another Application.
func (s *appState) tookOver(d *Desired, from types.NamespacedName, now time.Time) {
	s.fight(d, trackingPath.String(), applicationOwner(from), now).note(now, tripAfter)
}

// What stands for an object as a whole in a fight: between two Applications the mark of whose it is, in any other the one
// of what was applied.
var (
	trackingPath = fieldpath.MakePathOrDie("metadata", "annotations", v1alpha1.AnnotationTracking)
	wholeObject  = fieldpath.MakePathOrDie("metadata", "annotations", v1alpha1.AnnotationApplied)
)

// applicationOwner is another Application in a fight over an object: it writes with our own field manager.
func applicationOwner(app types.NamespacedName) diff.Owner {
	return diff.Owner{Manager: "the Application " + app.String()}
}

// maxFights bounds how many fields are remembered: of an object that is written each time for another field, the object
// as a whole is enough.
const maxFights = 10_000

// fight returns the fight about a field under the present configuration; one that has been quiet for long is over.
func (s *appState) fight(d *Desired, path string, o diff.Owner, now time.Time) *fight {
	key := fightKey{d.ID, path, o.Manager}
	f, ok := s.fights[key]
	if ok && f.digest == d.digest && !f.quiet(now) {
		return f
	}
	f = &fight{digest: d.digest}
	if ok || len(s.fights) < maxFights || path == wholeObject.String() {
		s.fights[key] = f
	}
	return f
}

// note takes in that the field was taken back, and holds it when that has been trip times within the window.
func (f *fight) note(now time.Time, trip int) {
	recent := f.heals[:0]
	for _, t := range f.heals {
		if now.Sub(t) < fightWindow {
			recent = append(recent, t)
		}
	}
	f.heals = append(recent, now)
	f.count++
	// After a first trip one more heal is enough: the owner was given its chance.
	if len(f.heals) < trip && f.trips == 0 {
		return
	}
	f.until = now.Add(min(holdFor<<min(f.trips, 10), holdAtMost))
	f.trips++
	f.heals = nil
}

// calm forgets fights that have been quiet for long, and returns when the next held field is to be tried again.
func (s *appState) calm(now time.Time) (next time.Time) {
	for key, f := range s.fights {
		switch {
		case now.Before(f.until):
			if next.IsZero() || f.until.Before(next) {
				next = f.until
			}
		case f.quiet(now):
			delete(s.fights, key)
		}
	}
	return next
}

// quiet reports whether nothing has happened for a window after the last hold or heal.
func (f *fight) quiet(now time.Time) bool {
	last := f.until
	if n := len(f.heals); n > 0 && f.heals[n-1].After(last) {
		last = f.heals[n-1]
	}
	if f.outrun.at.After(last) {
		last = f.outrun.at
	}
	return now.Sub(last) >= fightWindow
}

// remember takes fights over from the status, after a restart: a fight is not forgotten because the agent was killed in
// it, but it is over where Git has changed the object meanwhile. It is written to the status only when a field is held, so
// flips before that cost no write.
func (l *look) remember(observed func(diff.ID) *Observed) {
	l.st.remembers = true
	s := l.app.Status.Sync
	same := s.Revision == l.snap.revision() && slices.Equal(s.Revisions, l.snap.revisions()) && l.app.Status.ObservedGeneration == l.app.Generation
	for _, d := range l.app.Status.Drift {
		id := idOf(d.ObjectReference)
		desired, ok := l.snap.set.byID[id]
		if d.HeldUntil == nil || !ok {
			continue
		}
		applied := ""
		if o := observed(id); o != nil {
			applied = o.State.Applied.Config
		}
		if same || applied == desired.digest {
			l.st.fights[fightKey{id, d.Path, d.Manager}] = &fight{count: d.Times, trips: 1, until: d.HeldUntil.Time, digest: desired.digest}
		}
	}
}

// heldUntil tells the status until when a loss is held by the breaker.
func (s *appState) heldUntil(d *Desired, l diff.DecidedLoss, now time.Time) (until *metav1.Time, times int) {
	if l.Rule != diff.RuleContested {
		return nil, 0
	}
	f, ok := s.fights[fightKey{d.ID, l.Path.String(), l.Owner.Manager}]
	if !ok || !now.Before(f.until) {
		return nil, 0
	}
	t := metav1.NewTime(f.until).Rfc3339Copy()
	return &t, f.count
}
