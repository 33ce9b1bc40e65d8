package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	gosync "sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
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

// write is one object on its way to the API server.
type write struct {
	step   *Step
	object *apply.Object
	// exists says that the dry-run has found the object there.
	exists bool
	// unchecked says that it cannot be checked before what it needs is there.
	unchecked bool
}

// act does what the steps say: checks all writes with a dry-run, applies them in order, then prunes.
func (c *Controller) act(ctx context.Context, l *look) {
	if l.blocked != "" || l.snap.set == nil {
		return
	}
	l.started = c.clock.Now()
	c.compareValues(ctx, l)
	writes := c.prepare(ctx, l)
	prunes := l.prunes()
	l.did.tried = len(writes)+len(prunes) > 0
	if !l.did.tried {
		return
	}
	c.announceStart(ctx, l, len(writes)+len(prunes))
	writes = c.check(ctx, l, writes, len(prunes) > 0)
	c.applyAll(ctx, l, writes)
	if l.did.refused == nil && len(l.st.failures) == 0 && ctx.Err() == nil {
		c.pruneAll(ctx, l, prunes)
	}
	c.metrics.synced(l.key, c.clock.Since(l.started), l.failure())
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
		writes = append(writes, w)
	}
	return writes
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
	if p := l.st.pauses[step.ID]; p != nil && l.now.Before(p.until) {
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

// writeOf makes what to send for a step. It reads the live object where values have to be handed over.
func (c *Controller) writeOf(ctx context.Context, step *Step) (*write, error) {
	config, err := step.Desired.Config()
	if err != nil {
		return nil, err
	}
	cmp := step.Comparison
	o := &apply.Object{Config: &unstructured.Unstructured{Object: cmp.Apply(config)}, Force: cmp.Forced()}
	o.Config.SetAnnotations(withApplied(o.Config.GetAnnotations(), diff.Applied{Config: step.Desired.digest, Fields: diff.PendingApplied}))
	o.Seal = sealer(diff.Applied{Config: step.Desired.digest, Partial: cmp.Partial()})
	w := &write{step: step, object: o}
	if step.Observed == nil {
		return w, nil
	}
	if len(cmp.Extras) > 0 {
		folded, ok, err := diff.Fold(config, step.Observed.State.Managed, v1alpha1.FieldManager)
		if err != nil {
			return nil, err
		}
		if ok {
			o.Fold, w.unchecked = folded, true
		}
	}
	if o.Force || o.Fold != nil {
		o.ResourceVersion = step.Observed.ResourceVersion
	}
	if applied := step.Observed.State.Applied; step.Op == OpHeal && applied == (diff.Applied{Config: step.Desired.digest, Fields: applied.Fields}) && !cmp.Partial() && cmp.Forced() {
		// The API server has taken this very configuration before, and which fields it gives is known. What is not forced
		// may still run into an owner whom managed fields do not show.
		o.Config.SetAnnotations(withApplied(o.Config.GetAnnotations(), applied))
		o.Sealed, w.unchecked = true, true
	}
	if len(cmp.Release) > 0 {
		live, err := c.writer.Get(ctx, o.Config)
		if err != nil {
			return nil, err
		}
		o.Release, o.ReleaseManager = diff.Extract(live, cmp.Release), v1alpha1.ReleasedManager
	}
	return w, nil
}

// sealer writes the annotation that says what was applied and which fields that gave us.
func sealer(a diff.Applied) func(config, answer *unstructured.Unstructured) bool {
	return func(config, answer *unstructured.Unstructured) bool {
		if a.Fields = diff.OwnFields(answer.GetManagedFields(), v1alpha1.FieldManager); a.Fields == "" {
			a.Fields = diff.NoFields
		}
		annotations := config.GetAnnotations()
		if annotations[v1alpha1.AnnotationApplied] == a.String() {
			return false
		}
		config.SetAnnotations(withApplied(annotations, a))
		return true
	}
}

func withApplied(annotations map[string]string, a diff.Applied) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationApplied] = a.String()
	return annotations
}

// check dry-runs all writes and returns those to go on with. An object that the API server refuses, or of a kind that
// it does not serve, stops the sync before its first write; healing goes on, and so does everything beside an object
// that only cannot be changed in place or could not be answered for.
func (c *Controller) check(ctx context.Context, l *look, writes []*write, prunes bool) []*write {
	c.dryRun(ctx, l, writes)
	var refused []error
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
			l.lookAgain(w.step)
		default:
			f := c.fail(l, w.step, err)
			if w.step.Op != OpHeal && stopsSync(f.class) {
				refused = append(refused, f.err)
			}
		}
	}
	if len(refused) == 0 {
		if newRevision(keep) {
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
	r.err = fmt.Errorf("%d of %d objects refused, nothing was changed: %w", len(refused), len(l.snap.set.Objects), first(refused))
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

const (
	shortestPause = 50 * time.Millisecond
	longestPause  = 10 * time.Second
)

// settle decides what the answer to a dry-run means for a write: nil to go on with it.
func (c *Controller) settle(ctx context.Context, l *look, w *write) error {
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
		c.applied(l, writes[i].step, seen, r.Err)
		progress()
	})
}

// applied notes what became of one write. seen is the object as stored, nil where err is set.
func (c *Controller) applied(l *look, step *Step, seen *Observed, err error) {
	switch {
	case err != nil && apply.Classify(err) == apply.Conflict:
		l.lookAgain(step)
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
		if !l.input.New {
			l.healed = append(l.healed, *step)
		}
	case OpUpdate:
		l.did.updated++
	case OpHeal:
		l.did.healed++
		l.st.healed(step.Desired, step.Comparison, c.clock.Now())
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
		err = fmt.Errorf("%w: %s", err, "what it needs is not there (with syncOptions [CreateNamespace=true] the namespace is made)")
	}
	if step.Desired != nil {
		err = fmt.Errorf("%s: %w", step.Desired.Origin, err)
	}
	if advice := apply.Advice(class); advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
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
