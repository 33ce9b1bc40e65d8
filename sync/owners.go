package sync

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// Owners is who owns which field of one object, and what the agent does about it.
type Owners struct {
	Revision string // of Git
	Desired  *Desired
	// Exists says whether the object is in the cluster.
	Exists bool
	// Refused says why nothing is done about the object: it is somebody else's, or held as a whole; "" where something is.
	Refused string
	// Fields are those that Git declares and those that people's tools added, in order.
	Fields []diff.FieldOwner
}

// NewOwners tells who owns which field of the one object that find chooses among those that app declares at the
// revision it was last compared with. It blocks on the Git server and the API server, and writes nothing.
// The error of find is returned as it is, unless it chooses a hook: then the error says what became of that.
func NewOwners(ctx context.Context, clients *Clients, repositories *source.Repositories, app *v1alpha1.Application, find func([]*Desired) (*Desired, error)) (*Owners, error) {
	p, err := newPreviewer(ctx, clients, repositories, app, "")
	if err != nil {
		return nil, err
	}
	d, err := find(p.set.Objects)
	if err != nil {
		return nil, cmp.Or(p.noOwners(ctx, find), err)
	}
	owners := &Owners{Revision: p.revision, Desired: d}
	live, err := p.writer.Get(ctx, d.reference())
	if apierrors.IsNotFound(err) {
		return owners, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Origin, err)
	}
	o := observeWhole(d.ID, live, p.judge)
	c := p.input.Context(d)
	c.Contested = contestedIn(app, d.ID, time.Now())
	if owners.Fields, err = diff.Explain(d.forDiff(), o.State, c, v1alpha1.FieldManager); err != nil {
		return nil, err
	}
	owners.Exists = true
	if who := p.input.claimedBy(o); who != "" {
		owners.refuse("claimed", refusal(who))
	} else if why := p.heldWhole(d, o, c); why != "" {
		owners.refuse(diff.RuleContested, "is held as a whole: "+why)
	}
	for i := range owners.Fields {
		firstSeen(&owners.Fields[i], app.Status.Drift, d.ID)
	}
	return owners, nil
}

// noOwners says of a hook that find chooses why there is nothing to tell about its fields, and what became of it; nil where
// it chooses none.
func (p *previewer) noOwners(ctx context.Context, find func([]*Desired) (*Desired, error)) error {
	last := p.app.Status.Hooks
	if last == nil {
		last = &v1alpha1.HooksStatus{}
	}
	hooks, err := p.set.hooksOf(last.Run)
	if err != nil {
		return p.mask.Error(err)
	}
	var objects []*Desired
	for _, h := range hooks {
		if !slices.ContainsFunc(objects, func(d *Desired) bool { return d.ID == h.ID }) {
			objects = append(objects, h.Desired)
		}
	}
	for id := range p.set.leftOut {
		if id.Namespace == "" { // each is there without a namespace, too
			objects = append(objects, &Desired{ID: id})
		}
	}
	d, err := find(objects)
	switch {
	case err != nil:
		return nil
	case p.set.leftOut[d.ID]:
		return fmt.Errorf("%s is a hook that is left out: it is skipped, or not for a sync; nothing is done about it", d.ID)
	}
	run := &hookRun{status: last}
	var became []string
	for _, h := range hooks {
		if h.ID == d.ID {
			became = append(became, hookWords(h, run.item(h)))
		}
	}
	there := ""
	if _, err := p.writer.Get(ctx, d.reference()); apierrors.IsNotFound(err) {
		there = "; its object is not in the cluster"
	}
	return fmt.Errorf("%s is a hook (%s): a sync makes it and waits for it, and nothing is done about its fields; %s%s",
		d.ID, d.Origin, p.mask.Text(strings.Join(became, "; ")), there)
}

// hookWords says how a hook stands in the last run.
func hookWords(h *Hook, s *v1alpha1.HookStatus) string {
	switch {
	case s == nil:
		return fmt.Sprintf("in %s it has not run in the last sync", h.Phase)
	case s.FinishedAt == nil:
		return fmt.Sprintf("in %s it runs since %s: %s", h.Phase, s.StartedAt.UTC().Format(time.RFC3339), s.Message)
	case s.State == v1alpha1.PhaseFailed:
		return fmt.Sprintf("in %s it failed at %s: %s", h.Phase, s.FinishedAt.UTC().Format(time.RFC3339), s.Message)
	}
	return fmt.Sprintf("in %s it succeeded at %s: %s", h.Phase, s.FinishedAt.UTC().Format(time.RFC3339), s.Message)
}

// refuse notes that nothing is done about any field of the object.
func (o *Owners) refuse(rule, why string) {
	o.Refused = why
	for i := range o.Fields {
		o.Fields[i].Decision = diff.Decision{Verdict: diff.Hold, Rule: rule, Reason: "the object " + why}
	}
}

// heldWhole says why an object is held as a whole, "" where it is not.
func (p *previewer) heldWhole(d *Desired, o *Observed, c diff.Context) string {
	in, step := p.input, Step{ID: d.ID, Desired: d, Observed: o}
	in.Context = func(*Desired) diff.Context { return c }
	if in.takenBack(&step) || in.changedAgain(&step) {
		return step.Message
	}
	return ""
}

// contestedIn tells from a status which fields of an object are held because their owner keeps taking them back.
func contestedIn(app *v1alpha1.Application, id diff.ID, now time.Time) func(path string, o diff.Owner) (diff.Fight, bool) {
	return func(path string, o diff.Owner) (diff.Fight, bool) {
		if d := HeldField(app, id, path, o, now); d != nil {
			return diff.Fight{Count: d.Times, Until: d.HeldUntil.Time}, true
		}
		return diff.Fight{}, false
	}
}

// HeldField returns what the status says of a field that is held now because its owner keeps taking it back; nil of any
// other.
func HeldField(app *v1alpha1.Application, id diff.ID, path string, o diff.Owner, now time.Time) *v1alpha1.FieldDrift {
	for i := range app.Status.Drift {
		d := &app.Status.Drift[i]
		if d.ObjectReference == reference(id) && d.Path == path && d.Manager == o.Manager && d.HeldUntil != nil && now.Before(d.HeldUntil.Time) {
			return d
		}
	}
	return nil
}

// firstSeen gives a field whose owner has no time, as that of the scale subresource, the one at which the agent first
// saw it there.
func firstSeen(f *diff.FieldOwner, drift []v1alpha1.FieldDrift, id diff.ID) {
	for _, d := range drift {
		if f.Owner.Time.IsZero() && d.ObjectReference == reference(id) && d.Path == f.Path.String() && d.Manager == f.Owner.Manager && d.Time != nil {
			f.Owner.Time = d.Time.Time
		}
	}
}
