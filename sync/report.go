package sync

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// report writes the status if anything in it changed, and returns when the next pass is due at the latest.
func (c *Controller) report(ctx context.Context, l *look) (time.Duration, error) {
	status := l.status(c.clock.Now())
	c.explain(ctx, l, status)
	maskStatus(l.snap.mask, status)
	c.metrics.state(l.key, l.st.steps)
	if l.newsMayCome(status, c.clock.Now()) {
		if err := c.patchStatus(ctx, l, status); err != nil {
			return 0, err
		}
	}
	c.deleteDone(ctx, l)
	if l.did.again {
		c.queue.Add(l.key)
	}
	return l.next(c.clock.Now(), c.config.ResyncInterval), nil
}

// next returns how long to wait for the soonest of what is due: a retry, a held field, the next full look.
func (l *look) next(now time.Time, resync time.Duration) time.Duration {
	soonest := now.Add(resync)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(soonest) {
			soonest = t
		}
	}
	// What was due in this pass has been tried, or waits for something else, whose end wakes us.
	retried := func(t time.Time) {
		if l.blocked == "" && t.After(l.now) {
			sooner(t)
		}
	}
	for _, f := range l.st.failures {
		retried(f.until)
	}
	for _, p := range l.st.pauses {
		retried(p.until)
	}
	if l.st.retry.err != nil {
		retried(l.st.retry.until)
	}
	sooner(l.st.calm(now))
	sooner(l.st.nextRemake(now))
	sooner(l.st.causeDue)
	sooner(l.st.newsDue)
	sooner(l.hookDue)
	if deadline := progressDeadline(&l.app.Spec, l.app.Status.Health); now.Before(deadline) {
		sooner(deadline)
	}
	// Whatever comes first is for a full look: it is cheap, and it asks nobody.
	l.st.due = soonest
	return max(soonest.Sub(now), time.Millisecond)
}

// A status that changes without anything having been done, such as the owner of a field about which others fight, is
// written at once the first few times, and then now and then.
const (
	newsAtOnce = 20
	newsEvery  = 5 * time.Second
)

// newsMayCome reports whether a status is written now. Where it is not, it notes when.
func (l *look) newsMayCome(status *v1alpha1.ApplicationStatus, now time.Time) bool {
	l.st.newsDue = time.Time{}
	old := &l.app.Status
	if l.did.tried || l.run != nil || l.input.Request != nil || old.ObservedGeneration != status.ObservedGeneration ||
		old.ObservedRefresh != status.ObservedRefresh || equality.Semantic.DeepEqual(old, status) {
		return true
	}
	r := l.st.news.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
		l.st.newsDue = now.Add(wait)
	}
	return wait == 0
}

func (c *Controller) patchStatus(ctx context.Context, l *look, status *v1alpha1.ApplicationStatus) error {
	if equality.Semantic.DeepEqual(&l.app.Status, status) {
		return nil
	}
	patch, err := statusPatch(&l.app.Status, status)
	if err == nil && string(patch) == nothing {
		return nil // they differ in what is not written, such as parts of a second
	}
	sameHooks := equality.Semantic.DeepEqual(l.app.Status.Hooks, status.Hooks)
	if err == nil && !sameHooks {
		patch, err = jsonpatch.MergeMergePatches(patch, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, l.app.ResourceVersion))
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	updated, err := c.clients.Applications(l.key.Namespace).Patch(ctx, l.key.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: v1alpha1.FieldManager}, "status")
	if apierrors.IsConflict(err) {
		_, _ = c.catchUp(ctx, l) // the conflict is told
	}
	if apierrors.IsNotFound(err) {
		return nil // it was deleted meanwhile; the watch will tell
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	c.announce(l, status)
	c.checkKept(l, updated, status)
	l.app, l.st.last = updated, updated
	return nil
}

// catchUp reads the Application as it is now, and reports whether its hooks are as they were looked at: what a watch has
// told may be behind, and what has run is written, and acted upon, only where all of it is known.
func (c *Controller) catchUp(ctx context.Context, l *look) (same bool, err error) {
	fresh, err := c.clients.Applications(l.key.Namespace).Get(ctx, l.key.Name, metav1.GetOptions{})
	if err != nil || fresh.UID != l.app.UID {
		return false, err
	}
	fresh.ManagedFields = nil
	l.st.last = fresh
	return equality.Semantic.DeepEqual(fresh.Status.Hooks, l.app.Status.Hooks), nil
}

// checkKept says once what of a status the API server has dropped, as it does with fields that its schema does not know.
func (c *Controller) checkKept(l *look, stored *v1alpha1.Application, status *v1alpha1.ApplicationStatus) {
	lost, err := statusPatch(&stored.Status, status)
	if err != nil || string(lost) == nothing || l.st.unkept {
		return
	}
	l.st.unkept = true
	const what = "the API server does not keep the whole status: its API of Applications is older than this agent; run trueup install with this version"
	c.log.Error(what, "application", l.key.String(), "lost", truncate(string(lost), maxMessage))
	c.recorder.Eventf(l.app, nil, corev1.EventTypeWarning, "StatusNotKept", "Report", "%s", what)
}

// nothing is the patch that changes nothing.
const nothing = "{}"

func statusPatch(old, new *v1alpha1.ApplicationStatus) ([]byte, error) {
	type holder struct {
		Status *v1alpha1.ApplicationStatus `json:"status"`
	}
	before, err := json.Marshal(holder{old})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(holder{new})
	if err != nil {
		return nil, err
	}
	return jsonpatch.CreateMergePatch(before, after)
}

// newerVersion reports whether a was read from the API server after b.
func newerVersion(a, b *v1alpha1.Application) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// announceStart says in the status that a sync runs, where it is one that a person would want to watch.
func (c *Controller) announceStart(ctx context.Context, l *look, n int) {
	if l.input.Request == nil && n < watchable {
		return
	}
	c.running(ctx, l, "checking "+words.Count(n, "object"))
}

// watchable is the number of writes from which on a sync reports its progress.
const watchable = 20

// progressEvery is the time between two reports of progress.
const progressEvery = 2 * time.Second

// progress returns a function to call after each object, which now and then reports how far the sync is.
func (c *Controller) progress(ctx context.Context, l *look, total int) func() {
	done, last := 0, c.clock.Now()
	return func() {
		done++
		if now := c.clock.Now(); done < total && now.Sub(last) >= progressEvery {
			last = now
			c.running(ctx, l, fmt.Sprintf("applied %d of %s", done, words.Count(total, "object")))
		}
	}
}

// running writes a running operation into the status. It is only news: that it fails is no reason to stop.
func (c *Controller) running(ctx context.Context, l *look, message string) {
	status := l.app.Status.DeepCopy()
	status.OperationState = l.operation(v1alpha1.PhaseRunning, l.snap.mask.Text(message))
	if err := c.patchStatus(ctx, l, status); err != nil {
		c.log.Debug("reporting progress", "application", l.key.String(), "error", err)
	}
}

func (l *look) operation(phase v1alpha1.Phase, message string) *v1alpha1.OperationState {
	op := &v1alpha1.OperationState{
		Phase: phase, Message: message, Revision: l.snap.revision(),
		StartedAt: metav1.NewTime(l.started).Rfc3339Copy(), Retries: l.st.retry.times,
	}
	if l.input.Request != nil {
		op.ID = l.input.Request.ID
	}
	return op
}

// announce tells each change of state once, as an Event on the Application.
func (c *Controller) announce(l *look, status *v1alpha1.ApplicationStatus) {
	tell := func(kind, reason, action, message string) {
		message = truncate(l.snap.mask.Text(message), 900)
		c.recorder.Eventf(l.app, nil, kind, reason, action, "%s", message)
		c.log.Info(message, "application", l.key.String(), "reason", reason)
	}
	c.countHooks(l, status)
	c.logConditions(l, status)
	old := &l.app.Status
	begins := old.Sync.Status == "" && status.Sync.Status == v1alpha1.SyncUnknown // no news of an Application just made
	if status.Sync.Status != old.Sync.Status && status.Sync.Status != "" && !begins {
		kind := corev1.EventTypeNormal
		if status.Sync.Status == v1alpha1.SyncUnknown {
			kind = corev1.EventTypeWarning
		}
		tell(kind, string(status.Sync.Status), "Compare", readyMessage(status))
	}
	if status.Health.Status != old.Health.Status && status.Health.Status != "" {
		kind := corev1.EventTypeNormal
		if status.Health.Status == "Degraded" {
			kind = corev1.EventTypeWarning
		}
		tell(kind, status.Health.Status, "Judge", cmp.Or(status.Health.Message, words.Are(status.Objects.Total, "object")+" healthy"))
	}
	c.announceOperation(tell, old.OperationState, status.OperationState)
	if len(l.healed) > 0 {
		tell(corev1.EventTypeNormal, "Healed", "Heal", healedMessage(l.healed))
		l.healed = nil
	}
}

// logConditions logs what has gone wrong since the last status.
func (c *Controller) logConditions(l *look, status *v1alpha1.ApplicationStatus) {
	for _, now := range status.Conditions {
		before := meta.FindStatusCondition(l.app.Status.Conditions, now.Type)
		if now.Status == metav1.ConditionFalse && now.Type != v1alpha1.ConditionReady && (before == nil || before.Status != now.Status || before.Message != now.Message) {
			c.log.Warn(truncate(now.Message, 900), "application", l.key.String(), "condition", now.Type, "reason", now.Reason)
		}
	}
}

// healedMessage says in one sentence what was put back, and names the first few objects: one Event for a pass, however
// many objects somebody has changed.
func healedMessage(steps []Step) string {
	var parts []string
	for _, s := range steps[:min(len(steps), maxNamed)] {
		what := "was deleted, and is made anew"
		if s.Op == OpHeal {
			what = lostFields(s.Comparison, diff.Enforce)
		}
		parts = append(parts, s.ID.String()+": "+what)
	}
	if more := len(steps) - maxNamed; more > 0 {
		parts = append(parts, "and "+words.Count(more, "more object"))
	}
	return strings.Join(parts, "; ")
}

func (c *Controller) announceOperation(tell func(kind, reason, action, message string), old, op *v1alpha1.OperationState) {
	if op == nil || op.Phase == v1alpha1.PhaseRunning || old != nil && old.Phase == op.Phase && old.Message == op.Message && old.Revision == op.Revision {
		return
	}
	kind, reason := corev1.EventTypeNormal, "SyncSucceeded"
	if op.Phase == v1alpha1.PhaseFailed {
		kind, reason = corev1.EventTypeWarning, "SyncFailed"
	}
	tell(kind, reason, "Sync", op.Message)
}
