package sync

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// compareValues compares the objects whose API server keeps no managed fields, and that have changed since they were
// last compared. It costs one request for each.
func (c *Controller) compareValues(ctx context.Context, l *look) {
	for _, id := range l.byValue {
		step := l.st.steps[id]
		if step == nil || step.Desired == nil {
			continue
		}
		live, err := c.writer.Get(ctx, step.Desired.reference())
		if apierrors.IsNotFound(err) {
			l.lookAgain(step)
			continue
		}
		config, configErr := step.Desired.Config()
		if err != nil || configErr != nil {
			continue // it stays to be compared, at the latest at the next full look
		}
		step.Desired.keepRandom(config, live)
		if diff.Holds(live.Object, config) {
			l.st.values[id] = step.Observed.ResourceVersion
			continue
		}
		step.Comparison.State, step.Sync = diff.Drifted, v1alpha1.OutOfSync
		if l.input.conclude(step); !step.contested {
			step.Message = "its values are not those in Git; its API server does not tell who changed them"
		}
	}
}
