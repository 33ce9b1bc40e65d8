package sync

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/why"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// hooksStatus puts the run of this pass into the status.
func (l *look) hooksStatus(s *v1alpha1.ApplicationStatus, now time.Time) {
	switch {
	case l.run != nil:
		s.Hooks = l.run.status
	case l.outrun():
		r := hookRun{status: s.Hooks.DeepCopy()}
		r.giveUp("Git changed before it was done", outrunMessage, now)
		s.Hooks = r.status
	case s.Hooks != nil && l.snap.set != nil && !l.isOf(s.Hooks) && l.whole() &&
		l.snap.fetchErr == nil && l.snap.verifyErr == nil && l.snap.renderErr == nil:
		// What the last run was for is no more: should Git come back to it, that is another run. While Git cannot be read,
		// the last good revision stands in for one whose run may not have ended.
		r := hookRun{status: l.newRun("", now)}
		r.end(v1alpha1.PhaseSucceeded, "no hooks ran", now)
		s.Hooks = r.status
	}
}

// hooksFailed returns why the hooks of the present state failed; "" where they did not.
func (l *look) hooksFailed(s *v1alpha1.ApplicationStatus) string {
	if h := s.Hooks; h != nil && h.Phase == v1alpha1.PhaseFailed && l.snap.set != nil && l.isOf(h) {
		return h.Message + `; it is tried again when Git, the source or the variables change, or by "trueup sync"`
	}
	return ""
}

// hookAtWork names a hook that the sync waits for; "" where there is none.
func (l *look) hookAtWork() string {
	if l.run == nil || l.run.status.Phase != v1alpha1.PhaseRunning {
		return ""
	}
	for _, h := range l.run.status.Hooks {
		if h.State == v1alpha1.PhaseRunning {
			return fmt.Sprintf("%s hook %s: %s", h.Phase, idOf(h.ObjectReference), h.Message)
		}
	}
	return ""
}

// hookFailure is one sentence on a hook that failed.
func hookFailure(h *v1alpha1.HookStatus) string {
	return fmt.Sprintf("the %s hook %s failed: %s", h.Phase, idOf(h.ObjectReference), h.Message)
}

// hookHealth makes the health of an Application Progressing while its sync waits for a hook.
func (l *look) hookHealth(code health.Code, message string) (health.Code, string) {
	if at := l.hookAtWork(); at != "" && health.Progressing.WorseThan(code) {
		l.deciding = nil
		return health.Progressing, truncate(l.snap.mask.Text(at), maxMessage)
	}
	return code, message
}

// hookOperation says in the status that the sync waits for a hook, and reports whether it does. What it has written is
// noted in the history right away.
func (l *look) hookOperation(s *v1alpha1.ApplicationStatus, now time.Time) bool {
	if l.hookWait == "" || l.failure() != nil {
		return false
	}
	started := now
	if l.run != nil {
		started = l.run.status.StartedAt.Time
	} else if op := s.OperationState; op != nil && op.Phase == v1alpha1.PhaseRunning {
		started = op.StartedAt.Time
	}
	l.started = started
	s.OperationState = l.operation(v1alpha1.PhaseRunning, truncate(l.snap.mask.Text(l.hookWait), 2*maxMessage))
	if l.did.wrote() > 0 {
		op := l.operation(v1alpha1.PhaseSucceeded, "")
		finished := metav1.NewTime(now).Rfc3339Copy()
		op.FinishedAt = &finished
		s.History = record(s.History, l.record(op))
	}
	return true
}

// hookError is why the run that has ended in this pass failed; nil where it did not.
func (l *look) hookError() error {
	if l.run == nil || !l.run.ended || l.run.status.Phase != v1alpha1.PhaseFailed {
		return nil
	}
	return errors.New(l.run.status.Message)
}

// countHooks counts the hooks that have ended with a new status.
func (c *Controller) countHooks(l *look, status *v1alpha1.ApplicationStatus) {
	if status.Hooks == nil {
		return
	}
	for _, h := range status.Hooks.Hooks {
		known := l.app.Status.Hooks != nil && l.app.Status.Hooks.Run == status.Hooks.Run &&
			slices.ContainsFunc(l.app.Status.Hooks.Hooks, func(o v1alpha1.HookStatus) bool {
				return o.ObjectReference == h.ObjectReference && o.Phase == h.Phase && o.State == h.State
			})
		if h.State != v1alpha1.PhaseRunning && !known {
			c.metrics.hookRan(l.key, h.Phase, string(h.State))
		}
	}
}

// doneHook reports whether an object was made in a run of hooks and is of no interest any more.
func doneHook(app *v1alpha1.Application, id diff.ID, run string) bool {
	if run == "" {
		return false
	}
	h := app.Status.Hooks
	return h == nil || h.Phase == v1alpha1.PhaseSucceeded || !strings.HasPrefix(run, h.Run+":") ||
		!slices.ContainsFunc(h.Hooks, func(s v1alpha1.HookStatus) bool {
			return idOf(s.ObjectReference) == id && s.State != v1alpha1.PhaseSucceeded
		})
}

// noteHooks adds the hooks that the last sync waits for, or that made it fail.
func noteHooks(app *v1alpha1.Application, managed map[diff.ID]why.Managed) {
	if app.Status.Hooks == nil || app.Status.Hooks.Phase == v1alpha1.PhaseSucceeded {
		return
	}
	for _, h := range app.Status.Hooks.Hooks {
		if h.State == v1alpha1.PhaseSucceeded {
			continue
		}
		m, there := managed[idOf(h.ObjectReference)]
		if !there {
			m = why.Managed{Ref: ref(idOf(h.ObjectReference)), Health: health.Result{Code: health.Progressing, Reason: "Running", Message: h.Message}}
		}
		if h.State == v1alpha1.PhaseFailed && m.Health.Code != health.Degraded {
			// Whatever its object is by now, as one that was done only after its deadline.
			m.Health = health.Result{Code: health.Degraded, Reason: "HookFailed", Message: h.Message}
		}
		m.Hook = h.Phase
		managed[idOf(h.ObjectReference)] = m
	}
}
