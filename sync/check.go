package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// check dry-runs all writes and returns those to go on with. An object that the API server refuses, or of a kind that
// it does not serve, stops the sync before its first write; healing goes on, and so does everything beside an object
// that only cannot be changed in place or could not be answered for.
func (c *Controller) check(ctx context.Context, l *look, writes []*write, prunes bool) []*write {
	c.dryRun(ctx, l, writes)
	refused := c.checkHooks(ctx, l)
	for _, d := range l.snap.set.Objects {
		if step := l.st.steps[d.ID]; step != nil && step.unservable != nil && (prunes || newRevision(writes)) {
			refused = append(refused, step.unservable)
		}
	}
	keep := writes[:0]
	for _, w := range writes {
		err := c.settle(ctx, l, w)
		switch {
		case err == nil:
			keep = append(keep, w)
		case errors.Is(err, errLookAgain):
			l.outrunBy(w.step)
		case errors.Is(err, errContested):
		default:
			f := c.fail(l, w.step, err)
			if w.step.Op != OpHeal && stopsSync(f.class) {
				refused = append(refused, f.err)
			}
		}
	}
	if len(refused) == 0 {
		if newRevision(keep) || l.checksRun() {
			l.st.retry = retry{}
		}
		return keep
	}
	l.refuse(refused)
	return slices.DeleteFunc(keep, func(w *write) bool { return w.step.Op != OpHeal })
}

// newRevision reports whether the writes bring a revision, and not only healing.
func newRevision(writes []*write) bool {
	return slices.ContainsFunc(writes, func(w *write) bool { return w.step.Op != OpHeal })
}

func (l *look) refuse(refused []error) {
	r := &l.st.retry
	r.times++
	r.err = fmt.Errorf("%d of %s refused, nothing was changed: %w", len(refused), words.Count(len(l.snap.set.Objects)+len(l.snap.set.Hooks), "object"), first(refused))
	r.until = never
	if wait, ok := backoff(l.app.Spec.SyncPolicy, r.times); ok {
		r.until = l.now.Add(wait)
	}
	l.did.refused = r.err
}

// first returns the first few of many errors.
func first(errs []error) error {
	if len(errs) > maxNamed {
		return errors.Join(append(errs[:maxNamed:maxNamed], fmt.Errorf("and %d more", len(errs)-maxNamed))...)
	}
	return errors.Join(errs...)
}

func (c *Controller) dryRun(ctx context.Context, l *look, writes []*write) {
	var checked []*write
	var objects []*apply.Object
	for _, w := range writes {
		if !w.unchecked {
			checked, objects = append(checked, w), append(objects, w.object)
		}
	}
	c.writer.DryRunAll(ctx, objects, func(i int, r apply.Result) {
		checked[i].step.err = r.Err
		checked[i].exists = r.Err == nil && r.Answer.GetResourceVersion() != ""
	})
}

// errLookAgain says that an object is not what the step was decided on.
var errLookAgain = errors.New("the object has changed meanwhile")

// errContested says that an object is held, since it has been taken back again and again.
var errContested = errors.New("contested")

// lookAgain has an object looked at again: at once the first time, and ever later while it keeps changing under us, so
// that one whose owner writes without end costs little.
func (l *look) lookAgain(s *Step) {
	l.did.again = true
	l.st.wake(s.ID)
	p := l.st.pauses[s.ID]
	if p == nil {
		p = &pause{}
		l.st.pauses[s.ID] = p
	} else {
		p.wait = min(max(2*p.wait, shortestPause), longestPause)
	}
	p.until = l.now.Add(p.wait)
}

// outrunBy has an object looked at again that has changed under a step, and takes in who has won.
func (l *look) outrunBy(s *Step) {
	l.lookAgain(s)
	l.st.outrun(s, l.now)
}

const (
	shortestPause = 50 * time.Millisecond
	longestPause  = 10 * time.Second
)

// settle decides what the answer to a dry-run means for a write: nil to go on with it.
func (c *Controller) settle(ctx context.Context, l *look, w *write) error {
	err := c.settleOwners(ctx, l, w)
	if err != nil && w.step.Observed != nil {
		return c.untangle(ctx, l, w, err)
	}
	return err
}

func (c *Controller) settleOwners(ctx context.Context, l *look, w *write) error {
	err := w.step.err
	w.step.err = nil
	if err != nil {
		switch class := apply.Classify(err); {
		case class == apply.Conflict && w.step.Op == OpCreate:
			return c.adopt(ctx, l, w)
		case class == apply.Conflict:
			return c.contest(ctx, l, w, err)
		case class == apply.Deferred && c.comes(ctx, l, w, err):
			w.unchecked = true
			return nil
		}
		return err
	}
	if w.step.Op == OpCreate && w.exists {
		return c.adopt(ctx, l, w)
	}
	return nil
}

// comes reports whether what a write lacks comes with this sync: its namespace or its kind.
func (c *Controller) comes(ctx context.Context, l *look, w *write, err error) bool {
	d := w.step.Desired
	if l.snap.set.byID[diff.ID{Kind: "Namespace", Name: d.ID.Namespace}] != nil && apierrors.IsNotFound(err) {
		return true
	}
	if _, kindErr := c.kinds.Of(d.GVK); kindErr != nil {
		return l.snap.set.Unknown[d.GVK] == nil
	}
	if l.input.Policy.CreateNamespace && apierrors.IsNotFound(err) && d.ID.Namespace != "" {
		l.createNamespaces = append(l.createNamespaces, d.ID.Namespace)
		return true
	}
	return false
}

// adopt turns the creation of an object that is there already into taking it over, where nobody claims it.
func (c *Controller) adopt(ctx context.Context, l *look, w *write) error {
	live, err := c.writer.Get(ctx, w.object.Config)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return errLookAgain
		}
		return err
	}
	id := w.step.ID
	step, err := l.input.Decide(w.step.Desired, observeWhole(id, live, nil))
	if err != nil {
		return err
	}
	if step.contested {
		step.Health, *w.step = w.step.Health, step
		return errContested
	}
	if step.Op == OpNone && step.Sync != v1alpha1.Synced {
		return fmt.Errorf("taking over %s: %w: %s", id, errRefused, step.Message)
	}
	step.Op, step.Health = OpUpdate, w.step.Health
	*w.step = step
	if err = c.rewrite(ctx, w); err != nil && apply.Classify(err) == apply.Conflict {
		return c.contest(ctx, l, w, err)
	}
	return err
}

// contest decides about fields that were not given to us without force, and checks the write that comes of it.
func (c *Controller) contest(ctx context.Context, l *look, w *write, conflict error) error {
	fields := apply.FieldConflicts(conflict)
	if len(fields) == 0 {
		return errLookAgain
	}
	if err := l.input.contest(w.step, fields); err != nil {
		return err
	}
	err := c.rewrite(ctx, w)
	if err != nil && apply.Classify(err) == apply.Conflict {
		return errLookAgain
	}
	return err
}

// rewrite makes a write anew, since its step has changed, and checks it.
func (c *Controller) rewrite(ctx context.Context, w *write) error {
	next, err := c.writeOf(ctx, w.step)
	if err != nil {
		return err
	}
	*w = *next
	if !w.unchecked {
		_, err = c.writer.DryRun(ctx, w.object)
	}
	return err
}
