package sync

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
)

// prunes returns the steps that delete, the objects that others need last, after the guards on how many.
func (l *look) prunes() []*Step {
	var prunes []*Step
	total := 0
	for _, s := range l.st.steps {
		if s.Observed != nil {
			total++
		}
		if s.Op == OpPrune {
			prunes = append(prunes, s)
		}
	}
	// Objects that this revision has made, such as those with new names, do not make room for more prunes.
	if synced := l.app.Status.Sync.SyncedObjects; synced > 0 {
		total = min(total, synced)
	}
	l.input.WithinBudget(prunes, total)
	prunes = slices.DeleteFunc(prunes, func(s *Step) bool { return s.Op != OpPrune || !l.due(s) })
	slices.SortFunc(prunes, func(a, b *Step) int {
		if r := apply.Rank(b.ID.GroupKind()) - apply.Rank(a.ID.GroupKind()); r != 0 {
			return r
		}
		return a.ID.Compare(b.ID)
	})
	return prunes
}

// budgetBase returns of how many objects the prune budget is a part from now on. While prunes are held back it stays as
// it was, until they have gone or a person has spoken.
func (l *look) budgetBase(old int) int {
	total := 0
	for _, s := range l.st.steps {
		if s.withheld > 0 {
			return cmp.Or(old, s.withheld)
		}
		if s.Observed != nil {
			total++
		}
	}
	if !l.whole() {
		return old
	}
	return total
}

// pruneAll deletes exactly the objects that were looked at: the API server refuses when one has changed since.
func (c *Controller) pruneAll(ctx context.Context, l *look, prunes []*Step) {
	for _, s := range prunes {
		if ctx.Err() != nil {
			return
		}
		err := c.prune(ctx, l, s)
		switch {
		case err == nil:
			l.did.pruned++
			c.live.deleted(s.ID, s.Observed.UID)
			delete(l.st.steps, s.ID)
			delete(l.st.failures, s.ID)
			delete(l.st.pauses, s.ID)
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			l.lookAgain(s)
		default:
			c.fail(l, s, err)
		}
	}
}

func (c *Controller) prune(ctx context.Context, l *look, s *Step) error {
	gvk, err := c.live.version(s.ID.GroupKind())
	if err != nil {
		return err
	}
	kind, err := c.kinds.Of(gvk)
	if err != nil {
		return err
	}
	return c.writer.Delete(ctx, apply.Target{
		Kind: kind, Name: s.ID.Name, Namespace: s.ID.Namespace,
		UID: s.Observed.UID, ResourceVersion: s.Observed.ResourceVersion,
	})
}

// makeNamespaces makes the namespaces that syncOptions CreateNamespace=true asks for. They are not tracked: such a
// namespace is never pruned. It returns the failures.
func (c *Controller) makeNamespaces(ctx context.Context, l *look) (failed []error) {
	slices.Sort(l.createNamespaces)
	for _, name := range slices.Compact(l.createNamespaces) {
		ns := &unstructured.Unstructured{}
		ns.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
		ns.SetName(name)
		// Not applied: what another Application has put on a namespace that it has made meanwhile must stay.
		if err := c.writer.Create(ctx, ns); err != nil {
			failed = append(failed, c.fail(l, &Step{ID: diff.ID{Kind: "Namespace", Name: name}}, err).err)
		}
	}
	l.createNamespaces = nil // a pass with hooks comes here twice
	return failed
}
