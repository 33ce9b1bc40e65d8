package sync

import (
	"bytes"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// tries bounds how often a check or a sync is begun anew because somebody, a controller say, has written meanwhile.
const tries = 10

// isUntyped reports whether the API server says that it cannot apply anything to an object, whoever made it so: it has
// a list item without its keys.
func isUntyped(err error) bool {
	return err != nil && strings.Contains(err.Error(), "omits all key fields")
}

// check holds the verdict from metadata against the API server's own.
func (o *oracle) check() {
	for range tries {
		live, err := o.read()
		if apierrors.IsNotFound(err) {
			if step := o.decide(nil); step.Comparison.State != diff.Missing {
				o.failf("the object is not there, but the verdict is %s", step.Comparison.State)
			}
			return
		}
		if err != nil {
			o.t.Fatal(err)
		}
		if o.compare(live) {
			return
		}
	}
	o.failf("the object does not come to rest")
}

func (o *oracle) decide(live *unstructured.Unstructured) Step {
	var seen *Observed
	if live != nil {
		seen = observeWhole(o.git.ID, live, nil)
	}
	step, err := o.input().Decide(o.git, seen)
	if err != nil {
		o.failf("deciding: %v", err)
	}
	return step
}

// answer is what the API server says would come of applying Git's configuration by force.
type answer struct {
	object  *unstructured.Unstructured
	applied *fieldpath.Set // the fields that this would give us
	own     *fieldpath.Set // those that we have
}

// ask asks about all of Git's configuration; ok is false when the object has changed since it was read.
func (o *oracle) ask(live *unstructured.Unstructured) (a answer, ok bool, err error) {
	config, err := o.git.Config()
	if err != nil {
		o.t.Fatal(err)
	}
	return o.askFor(live, config)
}

// askFor sends the dry-run.
func (o *oracle) askFor(live *unstructured.Unstructured, config map[string]any) (a answer, ok bool, err error) {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(config)}
	if applied, ok := live.GetAnnotations()[v1alpha1.AnnotationApplied]; ok {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.AnnotationApplied] = applied
		u.SetAnnotations(annotations)
	}
	a.object, err = o.writer.DryRun(o.t.Context(), &apply.Object{Config: u, Force: true, ResourceVersion: live.GetResourceVersion()})
	if apierrors.IsConflict(err) {
		return a, false, nil
	}
	if err == nil {
		a.applied, a.own = o.fieldsOf(a.object), o.fieldsOf(live)
	}
	return a, true, err
}

func (o *oracle) fieldsOf(u *unstructured.Unstructured) *fieldpath.Set {
	for _, e := range u.GetManagedFields() {
		if e.Manager == v1alpha1.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply {
			return o.setOf(e)
		}
	}
	return &fieldpath.Set{}
}

func (o *oracle) setOf(e metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := &fieldpath.Set{}
	if e.FieldsV1 != nil {
		if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
			o.failf("reading managed fields: %v", err)
		}
	}
	return set
}

// compare returns false when the object has changed since it was read.
func (o *oracle) compare(live *unstructured.Unstructured) bool {
	step := o.decide(live)
	cached, err := o.input().Decide(o.git, observe(diff.ID{Group: o.git.ID.Group, Kind: o.git.ID.Kind}, live, nil))
	if err != nil || cached.Comparison.State != step.Comparison.State {
		o.failf("with all managed fields the verdict is %s, with what the cache keeps %s, %v", step.Comparison.State, cached.Comparison.State, err)
	}
	if live.GetDeletionTimestamp() != nil {
		return true
	}
	a, ok, err := o.ask(live)
	switch {
	case !ok:
		return false
	case isUntyped(err):
		o.remove("") // the API server keeps no books on it, so that nothing can be told of it
		return true
	case err != nil && !apierrors.IsInvalid(err):
		o.failf("asking: %v", err)
	case err != nil:
		if step.Comparison.State == diff.InSync || step.Comparison.State == diff.Held {
			return o.isTakenInPart(live, step.Comparison, err)
		}
		return true
	}
	o.states[step.Comparison.State]++
	o.compareLosses(step.Comparison, a)
	extras := o.extras(live, a, step.Comparison)
	unsure := func(e diff.Extra) bool { return mayBeLost(step.Comparison, e.Path) }
	if got := pathsOf(slices.DeleteFunc(slices.Clone(step.Comparison.Extras), unsure)); !slices.Equal(got, extras) {
		o.failf("extras: from metadata %v, by the API server %v", got, extras)
	}
	o.compareState(step, live, a, len(step.Comparison.Extras) > 0)
	return true
}

// isTakenInPart checks that what is refused is what others have been left with, which need not go together with all that
// Git declares: the rest is taken. It returns false when the object has changed since it was read.
func (o *oracle) isTakenInPart(live *unstructured.Unstructured, c diff.Comparison, refusal error) bool {
	config, _ := o.git.Config()
	if !c.Partial() {
		o.failf("the verdict is %s, and nothing is left to others, but the API server says %v", c.State, refusal)
	}
	_, ok, err := o.askFor(live, c.Apply(config))
	if err != nil {
		o.failf("the verdict is %s, but the API server refuses also what is not left to others: %v", c.State, err)
	}
	return ok
}

func pathsOf(extras []diff.Extra) []string {
	var paths []string
	for _, e := range extras {
		paths = append(paths, e.Path.String())
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

const appliedPath = ".metadata.annotations." + v1alpha1.AnnotationApplied

// compareLosses checks that the losses are what applying would give us and we do not have.
func (o *oracle) compareLosses(c diff.Comparison, a answer) {
	config, _ := o.git.Config()
	missing := a.applied.Difference(a.own)
	missing.Iterate(func(p fieldpath.Path) {
		value, there := at(config, p)
		// What Git declares only now was never ours.
		if c.State == diff.Changed || p.String() == appliedPath || there && isNothing(value) {
			return
		}
		if (len(c.Losses) == 0 || o.mayHide(a.own)) && c.State == diff.Drifted { // it shows in the digest alone
			return
		}
		if !slices.ContainsFunc(c.Losses, func(l diff.DecidedLoss) bool { return related(l.Path, p) }) {
			o.failf("%s is not ours, but is no loss", p)
		}
	})
	for _, l := range c.Losses {
		// Which item of a list with defaulted keys is Git's is only known once it has been applied.
		found := isNothing(valueAt(config, l.Pointer)) || c.State == diff.Changed && slices.ContainsFunc(l.Path, func(pe fieldpath.PathElement) bool { return pe.Key != nil })
		missing.Iterate(func(p fieldpath.Path) { found = found || related(l.Path, p) })
		if !found {
			o.failf("%s is a loss, but is ours", l.Path)
		}
	}
}

// mayHide reports whether of a custom resource's object we own a map that Git fills as one value: it may be one without a
// schema of which somebody has taken the last field.
func (o *oracle) mayHide(own *fieldpath.Set) bool {
	config, _ := o.git.Config()
	found := false
	own.Leaves().Iterate(func(p fieldpath.Path) {
		v, _ := at(config, p)
		m, isMap := v.(map[string]any)
		found = found || isMap && len(m) > 0 && !isNothing(m)
	})
	return found && o.subject.gvk.Kind == "Gadget"
}

// related reports whether one path leads to or through the other. A list key of the first may lack keys that the API
// server defaults.
func related(loss, p fieldpath.Path) bool {
	for i := range min(len(loss), len(p)) {
		x, y := loss[i], p[i]
		if x.Key == nil || y.Key == nil {
			if !x.Equals(y) && x.Index == nil {
				return false
			}
			continue
		}
		for _, k := range *x.Key {
			if !slices.ContainsFunc(*y.Key, func(f value.Field) bool { return f.Name == k.Name && value.Equals(f.Value, k.Value) }) {
				return false
			}
		}
	}
	return true
}

// extras are what people's tools own, nobody else owns and the API server does not take for declared.
func (o *oracle) extras(live *unstructured.Unstructured, a answer, c diff.Comparison) []string {
	config, _ := o.git.Config()
	others := a.own.Union(a.applied)
	type person struct {
		owner diff.Owner
		set   *fieldpath.Set
	}
	var persons []person
	for _, e := range live.GetManagedFields() {
		switch {
		case e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" && diff.ClassOf(e.Manager) == diff.Person:
			if e.APIVersion == o.git.GVK.GroupVersion().String() {
				persons = append(persons, person{diff.Owner{Manager: e.Manager, Operation: string(e.Operation)}, o.setOf(e)})
			}
		default:
			others = others.Union(o.setOf(e))
		}
	}
	var extras []string
	for _, person := range persons {
		kept := o.keptByPolicy(person.owner, person.set, others, config, a.applied)
		var tops []fieldpath.Path
		person.set.Iterate(func(p fieldpath.Path) {
			if value, there := at(config, p); theirs(p) || owned(others, p) || owned(kept, p) || there && isNothing(value) || mayBeLost(c, p) || slices.ContainsFunc(tops, func(top fieldpath.Path) bool { return len(p) > len(top) && p[:len(top)].Equals(top) }) {
				return
			}
			tops = append(tops, p.Copy())
			extras = append(extras, p.String())
		})
	}
	slices.Sort(extras)
	return slices.Compact(extras)
}

// keptByPolicy returns what policies leave to a person, except in list items that go as a whole.
func (o *oracle) keptByPolicy(owner diff.Owner, set, others *fieldpath.Set, config map[string]any, applied *fieldpath.Set) *fieldpath.Set {
	kept := &fieldpath.Set{}
	set.Iterate(func(p fieldpath.Path) {
		for n := 1; n <= len(p); n++ {
			isItem := n < len(p) && p[n-1].FieldName == nil
			if n < len(p) && !isItem {
				continue
			}
			_, there := at(config, p[:n])
			if isItem && (!set.Has(p[:n]) || others.Has(p[:n]) || there) {
				continue
			}
			if !o.leaves(owner, p[:n], applied) {
				return
			}
		}
		kept.Insert(p.Copy())
	})
	return kept
}

// leaves reports whether the first policy that matches leaves a field to its owner; applied is what applying gives.
func (o *oracle) leaves(owner diff.Owner, p fieldpath.Path, applied *fieldpath.Set) bool {
	config, _ := o.git.Config()
	for _, policy := range o.policies {
		if policy.Matches(o.git.ID, diff.Loss{Path: p, Pointer: wayTo(config, p, applied), Owner: owner}) {
			return policy.Verdict != diff.Enforce
		}
	}
	return false
}

// mayBeLost reports whether p is, or is in, a list item which by its keys may be one that Git declares without all of them:
// metadata alone does not tell the defaults. It counts as an extra once the API server has said which item Git's is.
func mayBeLost(c diff.Comparison, p fieldpath.Path) bool {
	return slices.ContainsFunc(c.Losses, func(l diff.DecidedLoss) bool {
		n := len(l.Path) - 1
		if len(p) <= n || l.Path[n].Key == nil || p[n].Key == nil || !p[:n].Equals(l.Path[:n]) || len(*l.Path[n].Key) >= len(*p[n].Key) {
			return false
		}
		return !slices.ContainsFunc(*l.Path[n].Key, func(k value.Field) bool {
			return !slices.ContainsFunc(*p[n].Key, func(have value.Field) bool { return have.Name == k.Name && value.Equals(have.Value, k.Value) })
		})
	})
}

// theirs reports whether a field is left to whoever adds it.
func theirs(p fieldpath.Path) bool {
	s := p.String()
	switch {
	case strings.HasPrefix(s, ".metadata.finalizers"), strings.HasPrefix(s, ".metadata.ownerReferences"):
		return false
	case strings.HasPrefix(s, ".metadata"), strings.HasPrefix(s, ".status"), s == ".apiVersion", s == ".kind":
		return true
	}
	return strings.HasSuffix(s, ".template.metadata") || strings.HasSuffix(s, ".metadata.annotations") || strings.HasSuffix(s, ".kubectl.kubernetes.io/restartedAt")
}

// owned reports whether s keeps p where a person lets it go. A list item goes as a whole with who has the item itself: so
// does server-side apply, whatever others have set in it.
func owned(s *fieldpath.Set, p fieldpath.Path) bool {
	if p[len(p)-1].FieldName == nil {
		return s.Has(p)
	}
	return covered(s, p)
}

// covered reports whether s has p or something below it.
func covered(s *fieldpath.Set, p fieldpath.Path) bool {
	for _, pe := range p[:len(p)-1] {
		child, deeper := s.Children.Get(pe)
		if !deeper {
			return false
		}
		s = child
	}
	last := p[len(p)-1]
	_, deeper := s.Children.Get(last)
	return deeper || s.Members.Has(last)
}

// compareState checks the state that is concluded from losses and extras.
func (o *oracle) compareState(step Step, live *unstructured.Unstructured, a answer, extra bool) {
	c, state := step.Comparison, step.Observed.State
	enforced := slices.ContainsFunc(c.Losses, func(l diff.DecidedLoss) bool { return l.Verdict == diff.Enforce })
	held := slices.ContainsFunc(c.Losses, func(l diff.DecidedLoss) bool { return l.Verdict == diff.Hold })
	surplus := !a.own.Difference(a.applied).Empty()
	want := diff.InSync
	switch {
	case state.Applied.Config != o.git.digest:
		want = diff.Changed
	case enforced, extra, (surplus || len(c.Losses) == 0 || o.mayHide(a.own)) && state.Fields != state.Applied.Fields:
		want = diff.Drifted
	case held:
		want = diff.Held
	}
	if c.State != want {
		o.failf("the verdict is %s, want %s (losses %v, surplus %v, extra %v)", c.State, want, c.Losses, surplus, extra)
	}
	if c.State == diff.InSync && len(c.Losses) == 0 && !bytes.Equal(content(live), content(a.object)) {
		o.failf("the verdict is Synced, but applying would make %s of %s", content(a.object), content(live))
	}
}
