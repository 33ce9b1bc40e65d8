package sync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// hookRetry is how soon something is tried again that the API server could not do now.
const hookRetry = 2 * time.Second

// hooksBefore brings the PreSync hooks on their way, and reports whether the sync may go on to its writes.
func (c *Controller) hooksBefore(ctx context.Context, l *look) bool {
	r := l.run
	switch {
	case l.calledOff():
		l.callOff(c.clock.Now())
		return false
	case l.hold != "":
		return false
	case r == nil || r.over || l.did.refused != nil:
		return true
	}
	if failed := c.makeNamespaces(ctx, l); len(failed) > 0 {
		l.st.retry.times = l.tries // the check that went well has begun to count anew
		l.refuse(failed)
		return false
	}
	l.st.checkedRun = r.status.Run
	if c.advance(ctx, l, source.PreSync) {
		if l.app.Status.Hooks == nil || l.app.Status.Hooks.Run != r.status.Run {
			return c.keepRun(ctx, l) // so that it is known after a restart that the writes are this run's
		}
		return true
	}
	if l.hold == "" {
		l.hold = "the PreSync hooks are not done"
	}
	return false
}

// hooksAfter brings those hooks on their way that come after the writes, and ends the run when all of it is done.
func (c *Controller) hooksAfter(ctx context.Context, l *look) {
	r := l.run
	if r == nil || r.over || r.ended || l.calledOff() {
		return
	}
	if r.failure() == nil && l.did.refused == nil && l.whole() && c.advance(ctx, l, source.Sync) && c.postSync(ctx, l) {
		r.end(v1alpha1.PhaseSucceeded, words.Count(len(r.status.Hooks), "hook")+" ran", c.clock.Now())
	}
	if l.run == nil {
		return
	}
	failed, wait := r.failure(), l.hookWait
	if failed != nil || l.applyFailed() || r.begun(source.SyncFail) {
		if c.advance(ctx, l, source.SyncFail); failed == nil {
			l.hookWait = wait // the sync goes on or is tried again whatever becomes of them
		}
	}
	if l.run == nil {
		return
	}
	if s := r.stage(l.hooks, source.SyncFail); failed != nil && (s.done() || s.failed) {
		l.hookWait = ""
		r.end(v1alpha1.PhaseFailed, l.snap.mask.Text(hookFailure(failed)), c.clock.Now())
	}
	if len(r.status.Hooks) == 0 && l.st.retry.err != nil && l.st.checkedRun != r.status.Run {
		l.run = nil // it was refused, and has not begun
	}
}

// postSync reports whether the PostSync hooks are done.
func (c *Controller) postSync(ctx context.Context, l *look) bool {
	if l.run.stage(l.hooks, source.PostSync).done() {
		return true
	}
	if waits := l.healthyToGo(); waits != nil && !l.run.begun(source.PostSync) {
		l.hookWait = fmt.Sprintf("the PostSync hooks wait until all objects are Healthy: %s is %s", waits.ID, waits.Health.Code)
		return false
	}
	return c.advance(ctx, l, source.PostSync)
}

// applyFailed reports whether something was refused that will not be taken by trying once more.
func (l *look) applyFailed() bool {
	if l.did.refused != nil || l.hold != "" {
		return l.did.refused != nil && apply.Classify(l.did.refused) != apply.Transient
	}
	for id, f := range l.st.failures {
		if s := l.st.steps[id]; s != nil && s.Op == OpHeal {
			continue
		}
		if f.class != apply.Transient && f.class != apply.Conflict {
			return true
		}
	}
	return false
}

// advance makes the hooks of a phase whose turn it is, and reports whether all of the phase are done. It does not wait.
func (c *Controller) advance(ctx context.Context, l *look, phase source.HookPhase) bool {
	for {
		s := l.run.stage(l.hooks, phase)
		switch {
		case s.failed:
			return false
		case s.done():
			return true
		case len(s.start) == 0:
			l.awaitHook(s.waits[0])
			return false
		}
		if !c.startHooks(ctx, l, s.start) {
			return false
		}
	}
}

// awaitHook notes that the sync waits for a hook.
func (l *look) awaitHook(h *Hook) {
	item := l.run.item(h)
	l.hookWait = fmt.Sprintf("waiting for the %s until %s: %s", h.name(), item.Deadline.UTC().Format(time.RFC3339), item.Message)
	again := item.Deadline.Time
	if !again.After(l.now) { // its object cannot be read now
		again = l.now.Add(hookRetry)
	}
	l.hookAgain(again)
}

// startHooks makes the objects of hooks, after the status says that they begin. It reports whether to go on at once.
func (c *Controller) startHooks(ctx context.Context, l *look, hooks []*Hook) bool {
	r := l.run
	var ready []*Hook
	settled := false
	for _, h := range hooks {
		if item := r.item(h); item != nil && h.expires && !l.st.begunHooks[hookRunOf(r.status.Run, h.Phase)+h.ID.String()] {
			endHook(item, v1alpha1.PhaseFailed, "it is not known whether it was made before the agent was restarted, since the cluster deletes it once it is done", l.now)
			settled = true
			continue
		}
		switch err := c.clearHook(ctx, l, h); {
		case err == nil:
			ready = append(ready, h)
		case errors.Is(err, errHookWaits):
		case errors.Is(err, errHookKept):
			endHook(r.begin(h, l.now), v1alpha1.PhaseSucceeded, err.Error(), l.now)
			settled = true
		default:
			endHook(r.begin(h, l.now), v1alpha1.PhaseFailed, err.Error(), l.now)
			settled = true
		}
	}
	if len(ready) == 0 {
		return settled
	}
	for _, h := range ready {
		r.begin(h, l.now)
	}
	if !c.keepRun(ctx, l) {
		return false
	}
	made := settled
	for _, h := range ready {
		made = c.createHook(ctx, l, h) || made
	}
	return made
}

// keepRun writes the run into the status, if it is not there as it is. Without that nothing of it is done.
func (c *Controller) keepRun(ctx context.Context, l *look) bool {
	status := l.app.Status.DeepCopy()
	status.Hooks, status.Kinds = l.run.status.DeepCopy(), l.statusKinds(status.Kinds)
	maskStatus(l.snap.mask, status)
	var err error
	if equality.Semantic.DeepEqual(l.app.Status.Hooks, status.Hooks) { // as a process before this one has left it
		var same bool
		if same, err = c.catchUp(ctx, l); err == nil && !same {
			err = errors.New("the status has changed meanwhile")
		}
	} else {
		err = c.patchStatus(ctx, l, status)
	}
	if kept := l.app.Status.Hooks; err == nil && (kept == nil || kept.Run != l.run.status.Run) {
		err = errors.New("the API server does not keep status.hooks of Applications: run trueup install with this version")
	}
	if err == nil {
		return true
	}
	l.run, l.hold = nil, "noting that hooks begin: "+err.Error()
	l.hookWait = l.hold
	l.hookAgain(c.clock.Now().Add(hookRetry))
	return false
}

// createHook makes the object of a hook. It reports whether the hook has got further.
func (c *Controller) createHook(ctx context.Context, l *look, h *Hook) bool {
	r := l.run
	item := r.item(h)
	l.st.begunHooks[hookRunOf(r.status.Run, h.Phase)+h.ID.String()] = true
	u, err := h.config(r.status.Run)
	if err == nil {
		if u, err = c.writer.CreateNew(ctx, u, false); err == nil {
			r.see(item, c.live.wrote(u), c.clock.Now())
			return true
		}
	}
	if apierrors.IsAlreadyExists(err) {
		var o *Observed
		if o, err = c.readHook(ctx, h); err == nil && o.HookRun == hookRunOf(r.status.Run, h.Phase) && o.App == l.key {
			r.see(item, o, c.clock.Now())
			return true
		}
		if err == nil {
			err = inTheWay(h, o, l.key)
		}
	}
	class := apply.Classify(err)
	if ctx.Err() != nil || class == apply.Transient || class == apply.Conflict || apierrors.IsNotFound(err) && h.Phase != source.PreSync {
		l.hookWait = fmt.Sprintf("the %s could not be made yet: %s", h.name(), l.snap.mask.Error(err))
		l.hookAgain(c.clock.Now().Add(hookRetry))
		return false
	}
	endHook(item, v1alpha1.PhaseFailed, truncate(l.snap.mask.Text(fmt.Sprintf("%s: %s", h.Origin, err)), maxMessage), c.clock.Now())
	return true
}

func (c *Controller) readHook(ctx context.Context, h *Hook) (*Observed, error) {
	u, err := c.writer.Get(ctx, h.reference())
	if err != nil {
		return nil, err
	}
	return observe(diff.ID{Group: h.ID.Group, Kind: h.ID.Kind}, u, c.live.judges.judge), nil
}

var (
	errHookWaits = errors.New("waiting")
	errHookKept  = errors.New("is there from an earlier sync, and kept")
)

// clearHook makes room for the object of a hook: an earlier one of this Application's is deleted as its policy says.
// The error is errHookWaits while that takes, and errHookKept for one that holds data, which stays as it is.
func (c *Controller) clearHook(ctx context.Context, l *look, h *Hook) error {
	o := c.live.get(h.ID)
	wait := func(why string) error {
		l.hookWait = fmt.Sprintf("the %s waits until %s", h.name(), why)
		return errHookWaits
	}
	switch {
	case o == nil || o.HookRun == hookRunOf(l.run.status.Run, h.Phase) && o.App == l.key:
		return nil
	case o.App != l.key || o.HookRun == "":
		return inTheWay(h, o, l.key)
	case o.DeletionTimestamp != nil:
		return wait("the object of an earlier one is gone" + waitsFor(o))
	case keptHook(o):
		return errHookKept
	case !mayClear(h, o):
		return inTheWay(h, o, l.key)
	}
	err := c.deleteHook(ctx, h, o)
	if err != nil && apply.Classify(err) != apply.Conflict && apply.Classify(err) != apply.Transient {
		return fmt.Errorf("deleting the object of an earlier hook: %w", err)
	}
	l.hookAgain(c.clock.Now().Add(hookRetry))
	return wait("the object of an earlier one is gone")
}

// mayClear reports whether the object of an earlier run may be deleted for the next to run.
func mayClear(h *Hook, o *Observed) bool {
	return h.deletes(source.BeforeHookCreation) || o.Health.Code == health.Healthy && h.deletes(source.HookSucceeded) ||
		o.Health.Code == health.Degraded && h.deletes(source.HookFailed)
}

// keptHook reports whether the object of a hook is never deleted without a person's word, as no such object is.
func keptHook(o *Observed) bool {
	return o.Prune == v1alpha1.PruneDisabled || guarded[o.ID.GroupKind()] && o.Prune != v1alpha1.PruneConfirm
}

// inTheWay says why the object of a hook cannot be made: one of its name is there that must stay.
func inTheWay(h *Hook, o *Observed, app types.NamespacedName) error {
	switch {
	case o.App == app && o.HookRun != "":
		return fmt.Errorf("%s is there from an earlier sync: delete it, or give the hook the delete policy BeforeHookCreation", h.ID)
	case o.App == app:
		return fmt.Errorf("%s is there as an object of this Application and no hook of it: delete it, or rename the hook", h.ID)
	}
	return fmt.Errorf("%s is there and is no hook of this Application: rename the hook, or delete that object", h.ID)
}

// followHooks takes in how the objects of the hooks are that have begun.
func (c *Controller) followHooks(ctx context.Context, l *look) {
	for _, h := range l.hooks {
		item := l.run.item(h)
		if item == nil || item.State != v1alpha1.PhaseRunning {
			continue
		}
		key := hookRunOf(l.run.status.Run, h.Phase)
		o := c.live.get(h.ID)
		if o != nil && o.HookRun == key && o.App == l.key {
			l.run.see(item, o, l.now)
			continue
		}
		if item.UID == "" {
			continue // it is not known to have been made
		}
		if ended, ok := l.st.endedHook(item.UID); ok {
			l.run.see(item, ended, l.now)
			continue
		}
		switch o, err := c.readHook(ctx, h); {
		case err == nil && o.HookRun == key:
			l.run.see(item, o, l.now)
		case err == nil || apierrors.IsNotFound(err):
			endHook(item, v1alpha1.PhaseFailed, "was deleted, and it is not known whether it had done its work", l.now)
		default:
			l.hookAgain(c.clock.Now().Add(hookRetry))
		}
	}
}

// deleteDone deletes the objects of hooks whose end is written in the status, as their policies say.
func (c *Controller) deleteDone(ctx context.Context, l *look) {
	kept := l.app.Status.Hooks
	if kept == nil || l.run == nil || l.run.status.Run != kept.Run {
		return
	}
	r := &hookRun{status: kept}
	for _, h := range l.hooks {
		item := r.item(h)
		if item == nil || !(item.State == v1alpha1.PhaseSucceeded && h.deletes(source.HookSucceeded) || item.State == v1alpha1.PhaseFailed && h.deletes(source.HookFailed)) {
			continue
		}
		o := c.live.get(h.ID)
		if o == nil || o.App != l.key || o.HookRun != hookRunOf(kept.Run, h.Phase) || o.DeletionTimestamp != nil || keptHook(o) {
			continue
		}
		if err := c.deleteHook(ctx, h, o); err != nil {
			c.log.Debug("deleting the object of a hook", "object", h.ID.String(), "error", err)
			l.hookAgain(c.clock.Now().Add(hookRetry))
		}
	}
}

// deleteHook deletes exactly the object that was looked at, and what it has made in the background.
func (c *Controller) deleteHook(ctx context.Context, h *Hook, o *Observed) error {
	kind, err := c.kinds.Of(h.GVK)
	if err != nil {
		return err
	}
	err = c.writer.Delete(ctx, apply.Target{Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	if err == nil {
		c.live.deleted(o.ID, o.UID)
	}
	return err
}
