package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// finalize ends an Application that is being deleted. Without the finalizer its objects stay as they are; with it they
// are pruned first, under the same guards as any prune. It is done when nothing of ours is left that may be pruned.
// Git need not be there for it, but every kind of which there were objects must be seen.
func (c *Controller) finalize(ctx context.Context, l *look) (time.Duration, error) {
	notLooked := l.snap.set == nil && l.snap.fetchErr == nil && l.snap.renderErr == nil
	if notLooked || !slices.Contains(l.app.Finalizers, v1alpha1.FinalizerCascade) {
		return 0, nil
	}
	var waits []string
	for _, gk := range sortedKinds(l.unknown) {
		if err := l.unknown[gk]; err == nil {
			waits = append(waits, "the objects of kind "+gk.Kind+" are not known yet")
		} else if !meta.IsNoMatchError(err) { // a kind that is not served has no objects
			waits = append(waits, err.Error())
		}
	}
	l.input.Request = &v1alpha1.SyncRequest{Prune: true} // deleting it is a person's word
	l.input.Policy.AllowEmpty = true
	l.st.steps = map[diff.ID]*Step{}
	for _, o := range c.live.of(l.key) {
		step, ok := l.input.Extra(o, false)
		if !ok && o.HookRun != "" {
			step, ok = hookLeft(o), true
		}
		if ok {
			l.st.steps[o.ID] = &step
			if step.Op == OpPrune || o.DeletionTimestamp != nil {
				waits = append(waits, o.ID.String()+": "+step.Message)
			}
		}
	}
	if len(waits) > 0 {
		c.pruneAll(ctx, l, l.prunes())
		return finalizeAgain, c.patchStatus(ctx, l, l.deleting(waits))
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": l.app.ResourceVersion,
		"finalizers":      slices.DeleteFunc(slices.Clone(l.app.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerCascade }),
	}})
	if err != nil {
		return 0, err
	}
	_, err = c.clients.Applications(l.key.Namespace).Patch(ctx, l.key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: v1alpha1.FieldManager})
	if err != nil {
		return 0, fmt.Errorf("releasing the Application: %w", err)
	}
	return 0, nil
}

// deleting is the status of an Application whose objects are being pruned.
func (l *look) deleting(waits []string) *v1alpha1.ApplicationStatus {
	message := fmt.Sprintf("being deleted with its objects; waiting for %d: %s", len(waits), strings.Join(waits[:min(len(waits), maxNamed)], "; "))
	if len(l.st.failures) > 0 {
		message += "; " + l.anyFailure()
	}
	s := l.app.Status.DeepCopy()
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleting, Message: truncate(message, 8*maxMessage), ObservedGeneration: l.app.Generation,
	})
	return s
}

// finalizeAgain bounds the wait for the watch to tell that an object is gone.
const finalizeAgain = 5 * time.Second
