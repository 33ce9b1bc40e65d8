package sync

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// untangle makes a write that the API server refuses go through where what it refuses is not Git's alone: something is
// live that does not go together with what Git declares, such as the rollingUpdate of a Deployment that is now to be
// recreated. Applying leaves that where it is, whoever set it, even where it is a default. That the object is taken
// without it is tried first; where it is not, or where the field is left to its owner, the refusal stands.
func (c *Controller) untangle(ctx context.Context, l *look, w *write, refusal error) error {
	if len(apply.RefusedFields(refusal)) == 0 {
		return refusal
	}
	live, err := c.writer.Get(ctx, w.object.Config)
	if err != nil {
		return refusal
	}
	if live.GetResourceVersion() != w.step.Observed.ResourceVersion {
		return errLookAgain
	}
	if err := untangleStep(ctx, c.writer, w.step, live, l.input.Context(w.step.Desired), refusal); err != nil {
		return err
	}
	next, err := c.writeOf(ctx, w.step)
	if err == nil {
		*w = *next
	}
	return err
}

// untangleStep changes what a step does so that the API server takes it; else it returns the refusal, with who has the
// field that is in the way where that is left to him.
func untangleStep(ctx context.Context, writer *apply.Writer, step *Step, live *unstructured.Unstructured, dc diff.Context, refusal error) error {
	config, err := step.Desired.Config()
	if err != nil {
		return err
	}
	if live, err = attributed(ctx, writer, step, live); err != nil {
		return err
	}
	u := &untangler{ctx: ctx, writer: writer, step: step, config: config, live: live, fields: apply.RefusedFields(refusal)}
	err = u.clashes(dc, refusal)
	if err != nil && u.changed {
		return errLookAgain
	}
	return err
}

// clashes makes the step take away what does not go together with Git.
func (u *untangler) clashes(dc diff.Context, refusal error) error {
	step := u.step
	if u.taken(nil) {
		return u.empty(dc, refusal)
	}
	for _, reach := range []diff.Reach{diff.Named, diff.Beside} {
		clashes, held, err := step.Comparison.Untangle(u.config, u.live, u.fields, reach, dc, v1alpha1.FieldManager)
		if err != nil {
			return err
		}
		if len(clashes) > 0 && u.taken(clashes) {
			step.Comparison = step.Comparison.With(u.needed(clashes))
			return nil
		}
		if len(held) == 0 {
			continue
		}
		// Whether it would help to take those too.
		all, _, err := step.Comparison.Untangle(u.config, u.live, u.fields, reach, diff.Context{Object: dc.Object, Adopting: true}, v1alpha1.FieldManager)
		if err == nil && u.taken(all) {
			return fmt.Errorf("%w: what Git declares does not go together with %s: %s", refusal, held[0].Path, held[0].Reason)
		}
	}
	return refusal
}

type untangler struct {
	ctx    context.Context
	writer *apply.Writer
	step   *Step
	config map[string]any
	live   *unstructured.Unstructured
	fields []string // that are refused

	changed bool // the object has, so that an answer was about another one
}

// taken reports whether the API server would take the object without clashes.
func (u *untangler) taken(clashes []diff.Extra) bool {
	without, err := u.step.Comparison.With(clashes).Restore(u.config, u.live, v1alpha1.FieldManager)
	if err == nil {
		err = u.writer.Try(u.ctx, u.live, without)
	}
	u.changed = u.changed || err != nil && apply.Classify(err) == apply.Conflict
	return err == nil
}

// empty changes what the step does where all values go together, and only the way to them is refused: a list or a map of
// which nothing is left, and that somebody has besides us, becomes null. It is taken away as a whole, and made anew where
// Git declares it empty.
func (u *untangler) empty(dc diff.Context, refusal error) error {
	next, emptied := u.step.Comparison.Emptied(u.config, u.fields)
	config := u.config
	if emptied {
		config = next.ApplyFirst(u.config)
	}
	wholes, held, err := next.Untangle(config, u.live, u.fields, diff.Named, dc, v1alpha1.FieldManager)
	switch {
	case err != nil:
		return err
	case len(held) > 0:
		return fmt.Errorf("%w: %s cannot be emptied: %s", refusal, held[0].Path, held[0].Reason)
	case !emptied && len(wholes) == 0:
		return refusal
	}
	u.step.Comparison = next.With(wholes)
	return nil
}

// mostTried bounds of how many fields each is tried to be kept.
const mostTried = 8

// needed returns those of clashes without which the object is not taken.
func (u *untangler) needed(clashes []diff.Extra) []diff.Extra {
	for i := 0; i < len(clashes) && len(clashes) > 1 && i < mostTried; {
		if fewer := slices.Delete(slices.Clone(clashes), i, i+1); u.taken(fewer) {
			clashes = fewer
		} else {
			i++
		}
	}
	return clashes
}

// attributed returns live with managed fields, and the step with them, also where somebody has wiped them: which fields
// there are and how its lists are keyed is told by a dry-run that applies nothing but our mark.
func attributed(ctx context.Context, writer *apply.Writer, step *Step, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if len(live.GetManagedFields()) > 0 {
		return live, nil
	}
	mark := step.Desired.reference()
	mark.SetLabels(map[string]string{v1alpha1.LabelApp: live.GetLabels()[v1alpha1.LabelApp]})
	answer, err := writer.DryRun(ctx, &apply.Object{Config: mark, Force: true, ResourceVersion: live.GetResourceVersion()})
	if err != nil {
		return nil, err
	}
	live = live.DeepCopy()
	live.SetManagedFields(answer.GetManagedFields())
	observed := *step.Observed
	observed.State.Managed = live.GetManagedFields()
	step.Observed = &observed
	return live, nil
}
