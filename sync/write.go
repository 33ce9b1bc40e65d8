package sync

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// write is one object on its way to the API server.
type write struct {
	step   *Step
	object *apply.Object
	// exists says that the dry-run has found the object there.
	exists bool
	// unchecked says that it cannot be checked before what it needs is there.
	unchecked bool
}

// writeOf makes what to send for a step. It reads the live object where values have to be handed over.
func (c *Controller) writeOf(ctx context.Context, step *Step) (*write, error) {
	config, err := step.Desired.Config()
	if err != nil {
		return nil, err
	}
	if step.Observed != nil && len(step.Desired.random) > 0 {
		live, err := c.writer.Get(ctx, step.Desired.reference())
		if err != nil {
			return nil, err
		}
		step.Desired.keepRandom(config, live)
	}
	cmp := step.Comparison
	o := &apply.Object{Config: &unstructured.Unstructured{Object: cmp.Apply(config)}, Force: cmp.Forced()}
	o.Config.SetAnnotations(withApplied(o.Config.GetAnnotations(), diff.Applied{Config: step.Desired.digest, Fields: diff.PendingApplied}))
	o.Seal = sealer(diff.Applied{Config: step.Desired.digest, Left: cmp.Left()})
	w := &write{step: step, object: o}
	if step.Observed == nil {
		return w, nil
	}
	if len(cmp.Extras) > 0 {
		folded, ok, err := cmp.Fold(config, step.Observed.State.Managed, v1alpha1.FieldManager)
		if err != nil {
			return nil, err
		}
		if ok {
			o.Fold, w.unchecked = folded, true
		}
	}
	if first := cmp.ApplyFirst(config); first != nil {
		o.First, w.unchecked = &unstructured.Unstructured{Object: first}, true
	}
	if o.Force || o.Fold != nil {
		o.ResourceVersion = step.Observed.ResourceVersion
	}
	if len(cmp.Release) > 0 {
		live, err := c.writer.Get(ctx, o.Config)
		if err != nil {
			return nil, err
		}
		released, err := cmp.Handover(step.Observed.State.Managed)
		if err != nil {
			return nil, err
		}
		o.Release, o.ReleaseManager = diff.Extract(live, released), v1alpha1.ReleasedManager
	}
	return w, nil
}

// trust spares the dry-run of a write that puts back what the API server has taken before: which fields that gives is
// known. What is not forced may still run into an owner whom managed fields do not show.
func (w *write) trust() {
	if w.step.Op != OpHeal {
		return
	}
	digest, applied, cmp := w.step.Desired.digest, w.step.Observed.State.Applied, w.step.Comparison
	if applied != (diff.Applied{Config: digest, Fields: applied.Fields}) || cmp.Partial() || !cmp.Forced() {
		return
	}
	w.object.Config.SetAnnotations(withApplied(w.object.Config.GetAnnotations(), applied))
	w.object.Sealed, w.unchecked = true, true
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
