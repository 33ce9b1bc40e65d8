package sync

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// sync does what the agent does about one object, until there is nothing left to do.
func (o *oracle) sync() {
	var before *unstructured.Unstructured
	var first *Step
	o.untangled = nil
	doubted := false
	for pass := range tries {
		live, err := o.read()
		if err != nil && !apierrors.IsNotFound(err) {
			o.t.Fatal(err)
		}
		if err != nil {
			live = nil
		}
		step := o.decide(live)
		if first == nil {
			before, first = live, &step
		}
		if step.Op == OpNone {
			if live != nil && o.settled(before, first, live, step) {
				o.syncs++
				return
			}
			continue
		}
		extras := len(step.Comparison.Extras)
		err = o.put(&step, doubted)
		o.noteUntangled(live, step.Comparison.Extras[min(extras, len(step.Comparison.Extras)):])
		switch {
		case err == nil, errors.Is(err, errLookAgain), apierrors.IsConflict(err):
			o.note("sync, pass %d: %s, %v", pass, step.Op, err)
		case len(apply.RefusedFields(err)) > 0 && !doubted:
			o.note("sync, pass %d: %s, tried once more: %v", pass, step.Op, err)
			doubted = true
		default:
			o.note("sync, pass %d: refused: %v", pass, err)
			o.refused++
			o.checkRefusal(&step, err)
			if _, err := o.remove(""); err != nil && !apierrors.IsNotFound(err) {
				o.t.Fatal(err)
			}
			return
		}
	}
	o.failf("the sync does not come to an end")
}

// noteUntangled notes what a sync takes away because it does not go together with what Git declares: only where the API
// server refuses the two.
func (o *oracle) noteUntangled(live *unstructured.Unstructured, extras []diff.Extra) {
	if len(extras) == 0 {
		return
	}
	o.note("does not go together with Git: %v", pathsOf(extras))
	for _, e := range extras {
		o.untangled = append(o.untangled, e.Path)
	}
	if live == nil {
		o.failf("nothing is there that %v does not go together with", pathsOf(extras))
	}
}

// checkRefusal checks that what is refused could not have been brought about: the API server does not take Git's
// configuration of itself, the object cannot be changed that way, or somebody else has what is in the way.
func (o *oracle) checkRefusal(step *Step, refusal error) {
	if isUntyped(refusal) || errors.Is(refusal, errRefused) || apply.Classify(refusal) == apply.Immutable || step.Comparison.Partial() ||
		strings.Contains(refusal.Error(), "does not go together with") || strings.Contains(refusal.Error(), "cannot be emptied") {
		return
	}
	config, _ := o.git.Config()
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(config)}
	u.SetName(o.name + "-anew")
	if _, err := o.writer.DryRun(o.t.Context(), &apply.Object{Config: u}); err == nil {
		o.failf("the sync is refused, though Git's configuration would be taken if nothing were there: %v", refusal)
	}
}

// put writes what a step says; doubted says that it was refused before.
func (o *oracle) put(step *Step, doubted bool) error {
	c := &Controller{writer: o.writer, kinds: o.kinds}
	ctx := o.t.Context()
	w, err := c.writeOf(ctx, step)
	if err != nil {
		return err
	}
	if !doubted {
		w.trust()
	}
	if !w.unchecked {
		answer, err := o.writer.DryRun(ctx, w.object)
		w.step.err, w.exists = err, err == nil && answer.GetResourceVersion() != ""
	}
	if err := c.settle(ctx, &look{input: o.input(), snap: &snapshot{set: o.set}, st: newAppState()}, w); err != nil {
		return err
	}
	_, err = o.writer.Apply(ctx, w.object)
	return err
}

// settled checks, after a sync, that each field is what its owner, as decided, wants. It returns false when the object
// has changed since it was read.
func (o *oracle) settled(before *unstructured.Unstructured, first *Step, after *unstructured.Unstructured, last Step) bool {
	a, ok, err := o.ask(after)
	switch {
	case isUntyped(err):
		return true
	case apierrors.IsInvalid(err):
		return o.isTakenInPart(after, last.Comparison, err)
	}
	if err != nil {
		o.failf("the sync has come to an end, but the API server says %v", err)
	}
	if !ok {
		return false
	}
	config, _ := o.git.Config()
	left := append(slices.Clone(first.Comparison.Losses), last.Comparison.Losses...)
	left = slices.DeleteFunc(left, func(l diff.DecidedLoss) bool { return l.Verdict == diff.Enforce })
	a.applied.Leaves().Iterate(func(p fieldpath.Path) {
		isLeft := slices.ContainsFunc(left, func(l diff.DecidedLoss) bool { return related(l.Path, p) }) ||
			slices.ContainsFunc(first.Comparison.Release, func(r fieldpath.Path) bool { return related(r, p) })
		declared, there := at(config, p)
		isLeft = isLeft || there && isNothing(declared)
		switch want, _ := at(a.object.Object, p); {
		case !isLeft && !same(after, want, p):
			got, _ := at(after.Object, p)
			o.failf("after the sync %s is %s, and Git wants %s", p, asJSON(got), asJSON(want))
		case !isLeft && !a.own.Has(p) && p.String() != appliedPath:
			o.failf("after the sync %s is not ours", p)
		}
	})
	if before != nil {
		o.keptOthers(before, first, after, a, left)
	}
	return true
}

// keptOthers checks that a sync has left alone what is neither Git's nor a person's addition, and what was left to others.
func (o *oracle) keptOthers(before *unstructured.Unstructured, first *Step, after *unstructured.Unstructured, a answer, left []diff.DecidedLoss) {
	kept, all, persons, own := &fieldpath.Set{}, &fieldpath.Set{}, &fieldpath.Set{}, o.fieldsOf(before)
	for _, e := range before.GetManagedFields() {
		all = all.Union(o.setOf(e))
		if diff.ClassOf(e.Manager) == diff.Person {
			persons = persons.Union(o.setOf(e))
		}
		if diff.ClassOf(e.Manager) != diff.Person && e.Manager != v1alpha1.FieldManager && e.Subresource != "status" && e.APIVersion == o.git.GVK.GroupVersion().String() {
			kept = kept.Union(o.setOf(e))
		}
	}
	kept.Leaves().Iterate(func(p fieldpath.Path) {
		enforced := covered(a.applied, p) && !slices.ContainsFunc(left, func(l diff.DecidedLoss) bool { return related(l.Path, p) }) &&
			!o.appliedByOthers(before, p)
		below := all.WithPrefix(p[0])
		for _, pe := range p[1:] {
			below = below.WithPrefix(pe)
		}
		// What is below a map or a list has owners of its own.
		for i := range p {
			if item := p[:i+1]; item[i].FieldName == nil && (own.Has(item) || persons.Has(item)) && !a.applied.Has(item) {
				return // an item that leaves Git, or that a person added, goes as a whole
			}
		}
		if slices.ContainsFunc(o.untangled, func(top fieldpath.Path) bool { return len(p) >= len(top) && p[:len(top)].Equals(top) }) {
			return
		}
		if want, there := at(before.Object, p); there && below.Empty() && !isEffect(want, p) && !enforced && !strings.HasPrefix(p.String(), ".status") && !same(after, want, p) {
			got, _ := at(after.Object, p)
			o.failf("the sync made %s of %s at %s, which is not Git's", asJSON(got), asJSON(want), p)
		}
	})
	for _, p := range first.Comparison.Release {
		want, there := at(before.Object, p)
		got, _ := at(after.Object, p)
		if there && !bytes.Equal(asJSON(withoutPort(got)), asJSON(withoutPort(want))) {
			o.failf("%s was to keep its value %s, and is %s", p, asJSON(want), asJSON(got))
		}
	}
}

// withoutPort returns a port of a Service without its number on the nodes, which goes when the Service's type does.
func withoutPort(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	m = maps.Clone(m)
	delete(m, "nodePort")
	return m
}

// isEffect reports whether a value changes by what others do: a map by its fields, what the API server itself takes out of a
// Service, and what the controller of Deployments counts.
func isEffect(v any, p fieldpath.Path) bool {
	m, isMap := v.(map[string]any)
	return isMap && len(m) == 0 || strings.HasPrefix(p.String(), ".spec.sessionAffinityConfig") || p.String() == ".spec.externalTrafficPolicy" || strings.HasSuffix(p.String(), ".nodePort") ||
		strings.HasSuffix(p.String(), ".deployment.kubernetes.io/revision")
}

// appliedByOthers reports whether another applier has a field that is not to be taken from it.
func (o *oracle) appliedByOthers(u *unstructured.Unstructured, p fieldpath.Path) bool {
	return slices.ContainsFunc(u.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		config, _ := o.git.Config()
		l := diff.Loss{Path: p, Pointer: pointerOf(config, p, o.fieldsOf(u)), Owner: diff.Owner{Manager: e.Manager, Operation: string(e.Operation)}}
		return e.Operation == metav1.ManagedFieldsOperationApply && e.Manager != v1alpha1.FieldManager && o.setOf(e).Has(p) &&
			diff.Decide(l, o.input().Context(o.git)).Verdict != diff.Enforce
	})
}
