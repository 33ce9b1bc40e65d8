package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// finalize ends an Application that is being deleted. Without the finalizer its objects stay as they are; with it they
// are pruned first, under the same guards as any prune. It is done when nothing of ours is left that may be pruned.
func (c *Controller) finalize(ctx context.Context, l *look) (time.Duration, error) {
	if !slices.Contains(l.app.Finalizers, v1alpha1.FinalizerCascade) || l.blocked != "" {
		return 0, nil
	}
	l.input.Request = &v1alpha1.SyncRequest{Prune: true} // deleting it is a person's word
	l.input.Policy.AllowEmpty = true
	l.st.steps = map[diff.ID]*Step{}
	left := 0
	for _, o := range c.live.of(l.key) {
		if step, ok := l.input.Extra(o, false); ok {
			l.st.steps[o.ID] = &step
			if step.Op == OpPrune || o.DeletionTimestamp != nil {
				left++
			}
		}
	}
	if left > 0 {
		c.pruneAll(ctx, l, l.prunes())
		return finalizeAgain, nil
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

// finalizeAgain bounds the wait for the watch to tell that an object is gone.
const finalizeAgain = 5 * time.Second
