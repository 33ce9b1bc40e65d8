package sync

import (
	"fmt"
	"time"

	"github.com/trueup/trueup/diff"
)

// remake is an object that was made, and made anew after somebody had deleted it: at once the first few times, and then
// ever later, so that one which a controller deletes as soon as it is there, such as the garbage collector one whose owner
// is not there, costs little.
type remake struct {
	times int64 // within a window of the one before
	last  time.Time
	until time.Time // not made anew before
}

// longestRemake bounds how long an object stays away that is deleted again and again.
const longestRemake = 3 * time.Minute

// remade notes that an object was made.
func (s *appState) remade(id diff.ID, now time.Time) {
	r := s.remakes[id]
	if r == nil || now.Sub(r.last) >= fightWindow {
		r = &remake{}
		s.remakes[id] = r
	}
	r.times++
	r.last = now
	if n := r.times - 1 - tripAfter; n >= 0 {
		r.until = now.Add(min(time.Second<<min(n, 10), longestRemake))
	}
}

// nextRemake forgets objects that have been quiet for long, and returns when the next may be made anew.
func (s *appState) nextRemake(now time.Time) (next time.Time) {
	for id, r := range s.remakes {
		switch {
		case now.Before(r.until):
			if next.IsZero() || r.until.Before(next) {
				next = r.until
			}
		case now.Sub(r.last) >= fightWindow:
			delete(s.remakes, id)
		}
	}
	return next
}

// awaitRemake reports whether the object of a step is to stay away for now, and says so in the step.
func (l *look) awaitRemake(step *Step) bool {
	r := l.st.remakes[step.ID]
	if step.Op != OpCreate || r == nil || !l.now.Before(r.until) {
		return false
	}
	step.Message = fmt.Sprintf("made %d times and deleted each time; made anew after %s, or by trueup sync; find out what deletes it: a controller, or the garbage collector if Git declares metadata.ownerReferences",
		r.times, r.until.UTC().Format(time.RFC3339))
	return true
}
