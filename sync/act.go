package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	gosync "sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/apply"
)

// outcome is what a pass has done.
type outcome struct {
	created, updated, healed, pruned, failed int
	// refused says why the sync stopped before its first write.
	refused error
	// again says that objects have changed under the pass: look again at once.
	again bool
	// tried says that something was to be done.
	tried bool
}

func (o outcome) wrote() int { return o.created + o.updated + o.healed + o.pruned }

// act does what the steps say: checks all writes with a dry-run, applies them in order, then prunes.
func (c *Controller) act(ctx context.Context, l *look) {
	if l.blocked != "" || l.snap.set == nil {
		return
	}
	l.started = c.clock.Now()
	c.compareValues(ctx, l)
	writes := c.prepare(ctx, l)
	prunes := l.prunes()
	if c.planHooks(l); l.run != nil {
		c.followHooks(ctx, l)
	}
	if l.hold != "" {
		writes, prunes = heals(writes), nil
	}
	l.did.tried = len(writes)+len(prunes) > 0
	if !l.did.tried && (l.run == nil || l.run.over) {
		return
	}
	if l.did.tried {
		c.announceStart(ctx, l, len(writes)+len(prunes))
	}
	writes = c.check(ctx, l, writes, len(prunes) > 0)
	if !c.hooksBefore(ctx, l) {
		writes, prunes = heals(writes), nil
	}
	c.applyAll(ctx, l, writes)
	if l.did.refused == nil && len(l.st.failures) == 0 && ctx.Err() == nil {
		c.pruneAll(ctx, l, prunes)
	}
	c.hooksAfter(ctx, l)
	if l.did.tried {
		c.metrics.synced(l.key, c.clock.Since(l.started), l.failure())
	}
}

// prepare makes the writes of the steps that are due.
func (c *Controller) prepare(ctx context.Context, l *look) []*write {
	var steps []*Step
	for _, d := range l.snap.set.Objects {
		if step := l.st.steps[d.ID]; step != nil && step.Op != OpNone && l.due(step) {
			steps = append(steps, step)
		}
	}
	c.reread(ctx, l, steps)
	var writes []*write
	for _, step := range steps {
		if step.Op == OpNone {
			continue
		}
		w, err := c.writeOf(ctx, step)
		if err != nil {
			c.fail(l, step, err)
			continue
		}
		if !l.wasRefused(step) {
			w.trust()
		}
		writes = append(writes, w)
	}
	return writes
}

// wasRefused reports whether the last write of the step was refused without having been checked.
func (l *look) wasRefused(step *Step) bool {
	p := l.st.pauses[step.ID]
	return p != nil && p.refused
}

// reread decides anew about the steps of objects whose managed fields the cache has not kept, since they were in sync:
// what a change in Git does to each field depends on who owns it.
func (c *Controller) reread(ctx context.Context, l *look, steps []*Step) {
	steps = slices.DeleteFunc(slices.Clone(steps), func(s *Step) bool {
		return s.Observed == nil || s.Observed.State.Managed != nil || s.Observed.State.Unmanaged()
	})
	objects := make([]*unstructured.Unstructured, len(steps))
	for i, s := range steps {
		objects[i] = s.Desired.reference()
	}
	for i, r := range c.writer.GetAll(ctx, objects) {
		s := steps[i]
		var next Step
		err := r.Err
		if err == nil {
			next, err = l.input.Decide(s.Desired, observeWhole(s.ID, r.Answer, nil))
			next.Health = s.Health
		}
		switch {
		case apierrors.IsNotFound(err):
			l.lookAgain(s)
			s.Op = OpNone
		case err != nil:
			c.fail(l, s, err)
			s.Op = OpNone
		default:
			*s = next
		}
	}
}

// due reports whether a step may be tried now; where it may not, it says in the step what it waits for.
func (l *look) due(step *Step) bool {
	if l.input.Request != nil {
		return true
	}
	if p := l.st.pauses[step.ID]; p != nil && l.now.Before(p.until) || l.awaitRemake(step) {
		return false
	}
	r, f := l.st.retry, l.st.failures[step.ID]
	waits := step.Op != OpHeal && r.err != nil && l.now.Before(r.until)
	if f != nil {
		// What stops a sync is tried again with the whole sync, never left out of it.
		waits = waits || (step.Op == OpHeal || !stopsSync(f.class)) && l.now.Before(f.until)
	}
	if waits && f != nil {
		step.Reason, step.Message = string(f.class), f.err.Error()
	}
	return !waits
}

// stopsSync reports whether an object that fails this way keeps the revision from being applied at all.
func stopsSync(c apply.Class) bool {
	return c == apply.Rejected || c == apply.Forbidden || c == apply.Deferred
}

// classRefused is an object that belongs to somebody else.
const classRefused apply.Class = "Refused"

var errRefused = errors.New("belongs to somebody else")

// applyAll writes what has been checked, and takes in each answer.
func (c *Controller) applyAll(ctx context.Context, l *look, writes []*write) {
	c.makeNamespaces(ctx, l)
	objects := make([]*apply.Object, len(writes))
	for i, w := range writes {
		objects[i] = w.object
	}
	progress := c.progress(ctx, l, len(writes))
	var mu gosync.Mutex
	c.writer.ApplyAll(ctx, objects, func(i int, r apply.Result) {
		var seen *Observed
		if r.Err == nil {
			seen = c.live.wrote(r.Answer)
		}
		mu.Lock()
		defer mu.Unlock()
		c.applied(l, writes[i], seen, r.Err)
		progress()
	})
}

// applied notes what became of one write. seen is the object as stored, nil where err is set.
func (c *Controller) applied(l *look, w *write, seen *Observed, err error) {
	step := w.step
	switch {
	case err != nil && apply.Classify(err) == apply.Conflict:
		l.outrunBy(step)
		return
	case err != nil && w.unchecked && step.Observed != nil && len(apply.RefusedFields(err)) > 0 && !l.wasRefused(step):
		l.lookAgain(step)
		l.st.pauses[step.ID].refused = true
		return
	case err != nil:
		c.fail(l, step, err)
		return
	}
	delete(l.st.failures, step.ID)
	delete(l.st.pauses, step.ID)
	switch step.Op {
	case OpCreate:
		l.did.created++
		l.st.remade(step.ID, c.clock.Now())
		if !l.input.New {
			l.healed = append(l.healed, *step)
		}
	case OpUpdate:
		l.did.updated++
		l.st.wrote(step, c.clock.Now())
		if l.input.isOthers(step.Observed) {
			l.st.tookOver(step.Desired, step.Observed.App, c.clock.Now())
		}
	case OpHeal:
		l.did.healed++
		l.st.wrote(step, c.clock.Now())
		c.metrics.healed(step.Comparison)
		l.healed = append(l.healed, *step)
	}
	if seen.State.Unmanaged() {
		l.st.values[step.ID] = seen.ResourceVersion
	}
	if next, err := l.input.Decide(step.Desired, seen); err == nil {
		*step = next
		step.Op = OpNone
	}
}

// fail notes that an object could not be written, and when to try again.
func (c *Controller) fail(l *look, step *Step, err error) *failure {
	class := apply.Classify(err)
	if errors.Is(err, errRefused) {
		class = classRefused
	}
	if class == apply.Deferred && step.Desired != nil {
		err = namespaceMissing(err)
	}
	if step.Desired != nil {
		err = fmt.Errorf("%s: %w", step.Desired.Origin, err)
	}
	if advice := apply.Advice(class); advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	err = l.snap.mask.Error(err)
	f := l.st.failures[step.ID]
	if f == nil {
		f = &failure{}
		l.st.failures[step.ID] = f
	}
	f.err, f.class, f.until = err, class, never
	f.times++
	if wait, ok := backoff(l.app.Spec.SyncPolicy, f.times); ok {
		f.until = l.now.Add(wait)
	}
	step.Reason, step.Message = string(class), err.Error()
	l.did.failed++
	return f
}

// namespaceMissing adds to the error of an object whose namespace is not there what would make it.
func namespaceMissing(err error) error {
	return fmt.Errorf("%w: what it needs is not there (with syncOptions [CreateNamespace=true] the namespace is made)", err)
}
