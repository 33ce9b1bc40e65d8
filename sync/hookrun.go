package sync

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// A run of hooks belongs to one sync. What of it has been done is known from the Application's status and from the
// annotation of the hooks' objects, and from nothing else, so that a restart at any moment goes on where it was:
//
//	due       the revision brings another state than the last sync that went through, or a person asks
//	  ↓       all writes and hooks are checked by a dry-run
//	PreSync   weight by weight; until it is done nothing but healing is written. One that fails ends the run.
//	  ↓
//	apply     as always, with its retries
//	  ↓
//	Sync      weight by weight, once everything is applied
//	  ↓       everything is Healthy
//	PostSync  weight by weight
//
// SyncFail hooks run once in a run, when a hook or the apply fails. Before the object of a hook is made the status says
// so, and before one is deleted it says how it ended.

// hookRun is a run as a pass sees it.
type hookRun struct {
	status *v1alpha1.HooksStatus // of this pass's own
	over   bool                  // it had ended before this pass
	ended  bool                  // it has ended in this pass
}

// item returns how a hook stands; nil where it has not begun.
func (r *hookRun) item(h *Hook) *v1alpha1.HookStatus {
	for i := range r.status.Hooks {
		if s := &r.status.Hooks[i]; s.Phase == string(h.Phase) && s.ObjectReference == reference(h.ID) {
			return s
		}
	}
	return nil
}

// begin notes that a hook begins.
func (r *hookRun) begin(h *Hook, now time.Time) *v1alpha1.HookStatus {
	if s := r.item(h); s != nil {
		return s
	}
	start := metav1.NewTime(now).Rfc3339Copy()
	r.status.Hooks = append(r.status.Hooks, v1alpha1.HookStatus{
		ObjectReference: reference(h.ID), Phase: string(h.Phase), State: v1alpha1.PhaseRunning,
		StartedAt: start, Deadline: metav1.NewTime(start.Add(h.Deadline)),
	})
	return &r.status.Hooks[len(r.status.Hooks)-1]
}

// runWell returns the hooks that a sync runs in which nothing fails.
func runWell(hooks []*Hook) []*Hook {
	return slices.DeleteFunc(slices.Clone(hooks), func(h *Hook) bool { return h.Phase == source.SyncFail })
}

// hookStage is how one phase stands.
type hookStage struct {
	start  []*Hook // to be made now
	waits  []*Hook // at work
	failed bool
}

func (s hookStage) done() bool { return !s.failed && len(s.start)+len(s.waits) == 0 }

// stage returns what comes next in a phase: one weight after the other. It is pure.
func (r *hookRun) stage(hooks []*Hook, phase source.HookPhase) hookStage {
	var s hookStage
	for i, h := range hooks {
		if h.Phase != phase {
			continue
		}
		if i > 0 && hooks[i-1].Phase == phase && hooks[i-1].Weight != h.Weight && !s.done() {
			break
		}
		switch item := r.item(h); {
		case item == nil, item.State == v1alpha1.PhaseRunning && item.UID == "":
			s.start = append(s.start, h)
		case item.State == v1alpha1.PhaseRunning:
			s.waits = append(s.waits, h)
		case item.State == v1alpha1.PhaseFailed:
			s.failed = true
		}
	}
	return s
}

// failure returns the first hook that failed and makes the sync fail; nil where there is none.
func (r *hookRun) failure() *v1alpha1.HookStatus {
	for i := range r.status.Hooks {
		if s := &r.status.Hooks[i]; s.State == v1alpha1.PhaseFailed && s.Phase != string(source.SyncFail) {
			return s
		}
	}
	return nil
}

// stopsWrites reports whether a run that is over ended before the writes of its sync: a PreSync hook failed, or it was
// called off.
func (r *hookRun) stopsWrites() bool {
	failed := r.failure()
	return r.status.Phase == v1alpha1.PhaseFailed && (failed == nil || failed.Phase == string(source.PreSync))
}

// begun reports whether a hook of a phase has begun.
func (r *hookRun) begun(phase source.HookPhase) bool {
	return slices.ContainsFunc(r.status.Hooks, func(s v1alpha1.HookStatus) bool { return s.Phase == string(phase) })
}

// see takes in how the object of a hook is.
func (r *hookRun) see(s *v1alpha1.HookStatus, o *Observed, now time.Time) {
	s.UID = string(o.UID)
	message := truncate(o.Health.Message, maxMessage)
	switch {
	case o.Health.Code == health.Healthy:
		endHook(s, v1alpha1.PhaseSucceeded, message, now)
	case o.Health.Code == health.Degraded:
		endHook(s, v1alpha1.PhaseFailed, cmp.Or(message, o.Health.Reason), now)
	case o.DeletionTimestamp != nil:
		endHook(s, v1alpha1.PhaseFailed, "was deleted before it was done", now)
	case !now.Before(s.Deadline.Time):
		endHook(s, v1alpha1.PhaseFailed, fmt.Sprintf("was not done within %s: %s", s.Deadline.Sub(s.StartedAt.Time), message), now)
	default:
		s.Message = message
	}
}

func endHook(s *v1alpha1.HookStatus, state v1alpha1.Phase, message string, now time.Time) {
	finished := metav1.NewTime(now).Rfc3339Copy()
	s.State, s.Message, s.FinishedAt = state, message, &finished
}

// end ends the run.
func (r *hookRun) end(phase v1alpha1.Phase, message string, now time.Time) {
	finished := metav1.NewTime(now).Rfc3339Copy()
	r.status.Phase, r.status.Message, r.status.FinishedAt, r.ended = phase, message, &finished, true
}

// giveUp ends a run whose hooks are not looked after any longer.
func (r *hookRun) giveUp(why, message string, now time.Time) {
	for i := range r.status.Hooks {
		if h := &r.status.Hooks[i]; h.State == v1alpha1.PhaseRunning {
			endHook(h, v1alpha1.PhaseFailed, why, now)
		}
	}
	r.end(v1alpha1.PhaseFailed, message, now)
}

// newRun makes the run of a sync. Its name comes from that of the run before, so that going back to an earlier state is
// another run, while one that was begun just before a restart is the same.
func (l *look) newRun(request string, now time.Time) *v1alpha1.HooksStatus {
	state, before := l.snap.set.state, ""
	if last := l.app.Status.Hooks; last != nil {
		before = last.Run
	}
	run := diff.Digest([]byte(strings.Join([]string{string(l.app.UID), state, request, before}, "\n")))
	return &v1alpha1.HooksStatus{
		Run: run[:min(len(run), 16)], State: state, Input: l.hookInput(), Request: request, Phase: v1alpha1.PhaseRunning, StartedAt: metav1.NewTime(now).Rfc3339Copy(),
	}
}

// hookInput is a digest of what the sync is made from.
func (l *look) hookInput() string {
	return diff.Digest([]byte(strings.Join(l.snap.commits, " ") + " " + syncedSource(l.source, l.snap.versions)))
}

// isOf reports whether a run is that of what Git declares now.
func (l *look) isOf(run *v1alpha1.HooksStatus) bool {
	return run != nil && (run.State == l.snap.set.state || run.Input == l.hookInput())
}

// outrun reports whether Git has changed while the hooks of a sync ran that a person asked for, where nothing is synced
// that nobody asked for: the word was given for what was there then. While Git cannot be read, nobody knows.
func (l *look) outrun() bool {
	run := l.app.Status.Hooks
	return l.superseded() && run.Request != "" && l.input.Request != nil && run.Request == l.input.Request.ID
}

// superseded reports whether Git has changed while hooks ran, where nothing is synced that nobody asks for.
func (l *look) superseded() bool {
	run := l.app.Status.Hooks
	return run != nil && run.Phase == v1alpha1.PhaseRunning && !l.input.Policy.Automated && l.snap.set != nil &&
		l.snap.fetchErr == nil && l.snap.verifyErr == nil && l.snap.renderErr == nil && !l.isOf(run)
}

const outrunMessage = "Git, the source or the variables changed while the hooks of this sync ran, and what is there now was not asked for: look at it with trueup diff, then run trueup sync"

// hooksDue reports whether a run of hooks begins with this pass, if nothing is in its way.
func (l *look) hooksDue() bool {
	set, synced, last := l.snap.set, l.app.Status.Sync, l.app.Status.Hooks
	ended := l.isOf(last)
	switch {
	case len(set.Hooks) == 0:
		return false
	case l.input.Request != nil && (l.unread() == nil || set.state != synced.SyncedState):
		return !ended || last.Request != l.input.Request.ID
	case !l.input.Policy.Automated || !l.input.New || ended || set.state == synced.SyncedState:
		return false
	case synced.SyncedState == "" && (synced.SyncedRevision != "" || len(set.Objects) > 0) && l.inPlace():
		return false // all of it was brought by somebody who kept no state: an agent before this one
	}
	return true
}

// planHooks decides which part hooks have in the pass, and notes in the look why nothing may be written but healing.
func (c *Controller) planHooks(l *look) {
	set, last := l.snap.set, l.app.Status.Hooks
	l.tries = l.st.retry.times
	c.noteHookKinds(l)
	switch {
	case l.isOf(last) && last.Phase == v1alpha1.PhaseRunning:
		l.run = &hookRun{status: last.DeepCopy()}
		l.run.status.State, l.run.status.Input = set.state, l.hookInput()
		if l.input.Request != nil {
			l.run.status.Request = l.input.Request.ID
		}
	case l.hooksDue():
		request := ""
		if l.input.Request != nil {
			request = l.input.Request.ID
		}
		if l.awaitOlderHooks(c.live.of(l.key)); l.hold == "" {
			l.run = &hookRun{status: l.newRun(request, l.now)}
			clear(l.st.begunHooks)
		}
	case l.isOf(last):
		l.run = &hookRun{status: last.DeepCopy(), over: true}
		if l.run.stopsWrites() && set.state != l.app.Status.Sync.SyncedState {
			l.hold = last.Message
		}
	case last != nil && set.state != l.app.Status.Sync.SyncedState && l.input.New && (l.input.Policy.Automated || l.input.Request != nil):
		l.awaitOlderHooks(c.live.of(l.key))
	}
	if l.run != nil {
		var err error
		if l.hooks, err = set.hooksOf(l.run.status.Run); err != nil {
			l.run, l.hold = nil, err.Error()
		}
	}
	if l.run == nil && l.superseded() && l.app.Status.Hooks.Request == "" && !l.asked() {
		l.run = &hookRun{status: last.DeepCopy(), over: true}
		l.run.giveUp("Git changed before it was done", calledOffMessage, l.now)
	}
	if r := l.run; r != nil && !r.over && l.st.checkedRun != r.status.Run && l.input.Request == nil && l.st.retry.err != nil && l.now.Before(l.st.retry.until) {
		l.hold = l.st.retry.err.Error()
	}
}

// awaitOlderHooks holds the sync back while a hook of an earlier one is at work.
func (l *look) awaitOlderHooks(objects []*Observed) {
	for _, o := range objects {
		if !o.runs(l.now) {
			continue
		}
		l.hold = fmt.Sprintf("waiting for %s, the hook of an earlier sync, which still runs; to go on without it, delete it", o.ID)
		l.hookWait = l.hold
		l.hookAgain(o.hookDeadline())
		return
	}
}

// hookAgain has the hooks looked at again at a time, without anything happening.
func (l *look) hookAgain(at time.Time) {
	if l.hookDue.IsZero() || at.Before(l.hookDue) {
		l.hookDue = at
	}
}

// noteHookKinds notes the kinds of which objects of hooks are left that Git no longer has, or leaves out.
func (c *Controller) noteHookKinds(l *look) {
	if l.app.Status.Hooks == nil && len(l.snap.set.leftOut) == 0 {
		return
	}
	declared := l.snap.set.Kinds()
	isDeclared := func(k v1alpha1.KindReference) bool {
		return slices.ContainsFunc(declared, func(gvk schema.GroupVersionKind) bool { return gvk.Group == k.Group && gvk.Kind == k.Kind })
	}
	if !slices.ContainsFunc(l.app.Status.Kinds, func(k v1alpha1.KindReference) bool { return !isDeclared(k) }) {
		return
	}
	for _, o := range c.live.of(l.key) {
		if o.HookRun != "" || l.snap.set.leftOut[o.ID] {
			l.hookKinds = append(l.hookKinds, diff.ID{Group: o.ID.Group, Kind: o.ID.Kind})
		}
	}
}

// heals are the writes that are made whatever stops a sync.
func heals(writes []*write) []*write {
	return slices.DeleteFunc(writes, func(w *write) bool { return w.step.Op != OpHeal })
}

// healthyToGo reports whether everything that Git declares is Healthy; else it returns the first object that is not.
func (l *look) healthyToGo() (waits *Step) {
	for _, d := range l.snap.set.Objects {
		if s := l.st.steps[d.ID]; s != nil && s.Health.Code != health.Healthy {
			return s
		}
	}
	return nil
}
