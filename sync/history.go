package sync

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trueup/trueup/sync/v1alpha1"
)

func (l *look) record(op *v1alpha1.OperationState) v1alpha1.SyncRecord {
	r := v1alpha1.SyncRecord{
		Revision: op.Revision, Revisions: l.snap.revisions(), StartedAt: op.StartedAt, FinishedAt: *op.FinishedAt, InitiatedBy: "automated", Result: op.Phase,
		Created: l.did.created, Updated: l.did.updated, Healed: l.did.healed, Pruned: l.did.pruned, Failed: l.did.failed,
	}
	switch {
	case l.input.Request != nil:
		r.InitiatedBy = cmp.Or(l.input.Request.By, "a person")
	case !l.input.New && l.did.healed+l.did.created > 0 && l.did.updated+l.did.pruned == 0:
		r.InitiatedBy = "self-heal"
	}
	if op.Phase == v1alpha1.PhaseFailed {
		r.Message = op.Message
	}
	return r
}

// mergeWithin is how close two rounds of self-healing are to count as one in the history.
const mergeWithin = time.Minute

// record puts r in front of the history. Self-healing that goes on is one record: it must not push out the syncs.
func record(history []v1alpha1.SyncRecord, r v1alpha1.SyncRecord) []v1alpha1.SyncRecord {
	if len(history) > 0 {
		last := history[0]
		if last.InitiatedBy == "self-heal" && r.InitiatedBy == "self-heal" && last.Revision == r.Revision && slices.Equal(last.Revisions, r.Revisions) && last.Result == r.Result &&
			r.StartedAt.Sub(last.FinishedAt.Time) < mergeWithin {
			r.StartedAt, r.Healed, r.Created = last.StartedAt, r.Healed+last.Healed, r.Created+last.Created
			history = history[1:]
		}
	}
	return append([]v1alpha1.SyncRecord{r}, history[:min(len(history), v1alpha1.MaxHistory-1)]...)
}

// summary says in one line what the sync did.
func (l *look) summary() string {
	if text := l.did.summary(); l.run == nil || !l.run.ended {
		return text
	} else if l.did.wrote() > 0 {
		return text + ", " + l.run.status.Message
	}
	return l.run.status.Message
}

func (o outcome) summary() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{o.created, "created"}, {o.updated, "updated"}, {o.healed, "healed"}, {o.pruned, "pruned"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}
