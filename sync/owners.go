package sync

import (
	"context"
	"fmt"
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
	// Refused says whose the object is that the Application declares but may not have; "" where it may.
	Refused string
	// Fields are those that Git declares and those that people's tools added, in order.
	Fields []diff.FieldOwner
}

// NewOwners tells who owns which field of the one object that find chooses among those that app declares at the
// revision it was last compared with. It blocks on the Git server and the API server, and writes nothing.
// The error of find is returned as it is.
func NewOwners(ctx context.Context, clients *Clients, repositories *source.Repositories, app *v1alpha1.Application, find func([]*Desired) (*Desired, error)) (*Owners, error) {
	p, err := newPreviewer(ctx, clients, repositories, app, "")
	if err != nil {
		return nil, err
	}
	d, err := find(p.set.Objects)
	if err != nil {
		return nil, err
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
	c.Contested = contestedIn(app.Status.Drift, d.ID, time.Now())
	if owners.Fields, err = diff.Explain(d.forDiff(), o.State, c, v1alpha1.FieldManager); err != nil {
		return nil, err
	}
	owners.Exists = true
	if who := p.input.claimedBy(o); who != "" {
		owners.refuse(refusal(who))
	}
	for i := range owners.Fields {
		firstSeen(&owners.Fields[i], app.Status.Drift, d.ID)
	}
	return owners, nil
}

// refuse notes that the object is somebody else's, so that nothing is done about any of its fields.
func (o *Owners) refuse(why string) {
	o.Refused = why
	for i := range o.Fields {
		o.Fields[i].Decision = diff.Decision{Verdict: diff.Hold, Rule: "claimed", Reason: "the object " + why}
	}
}

// contestedIn tells from a status which fields of an object are held because their owner keeps taking them back.
func contestedIn(drift []v1alpha1.FieldDrift, id diff.ID, now time.Time) func(path string, o diff.Owner) (diff.Fight, bool) {
	return func(path string, o diff.Owner) (diff.Fight, bool) {
		for _, d := range drift {
			if d.ObjectReference == reference(id) && d.Path == path && d.Manager == o.Manager && d.HeldUntil != nil && now.Before(d.HeldUntil.Time) {
				return diff.Fight{Count: d.Times, Until: d.HeldUntil.Time}, true
			}
		}
		return diff.Fight{}, false
	}
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
