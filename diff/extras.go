package diff

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Extra is one field that Git does not declare and that is taken away: a person's tool added it to an object of ours, or
// it does not go together with what Git declares, whoever has it.
type Extra struct {
	Path  fieldpath.Path
	Owner Owner // the zero Owner where it is a default

	clash bool // see Untangle
}

// Reason says in a few words why the field is taken away.
func (e Extra) Reason() string {
	switch {
	case !e.clash:
		return "added by " + e.Owner.String()
	case e.Owner == (Owner{}):
		return "a default that does not go together with what Git declares"
	}
	return "does not go together with what Git declares, set by " + e.Owner.String()
}

// restartedAt is what `kubectl rollout restart` writes into a pod template: a request, not a configuration.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// Extras returns what people's tools own that config does not declare and that is not left to them: labels and
// annotations of the object itself are theirs, and so are the restart request and the status.
// What a policy of ctx leaves to them is none. An item or subtree that is wholly theirs is one extra, at its top. What was
// written in another version of the API than config's is not told: the same field may have another name there.
// held are those that stay for a while, since they come back again and again.
func Extras(config map[string]any, f Fields, ctx Context) (extras []Extra, held []DecidedLoss) {
	for _, c := range f.foreign {
		if !c.comparable(config, f) {
			continue
		}
		set, stay := c.extra(config, f, ctx)
		held = append(held, stay...)
		for _, p := range tops(set) {
			extras = append(extras, Extra{Path: p, Owner: c.owner})
		}
	}
	slices.SortStableFunc(extras, func(a, b Extra) int { return a.Path.Compare(b.Path) })
	return extras, held
}

// undone reports whether additions of the claim's owner are undone: only what a person wrote to the main resource by
// an update. An Apply entry is another applier's, and a subresource is a request of its own.
func undone(c claim) bool {
	return ClassOf(c.owner.Manager) == Person && c.owner.Operation == string(metav1.ManagedFieldsOperationUpdate) && c.owner.Subresource == ""
}

// comparable reports whether additions of c are undone and named as in config.
func (c claim) comparable(config map[string]any, f Fields) bool {
	return undone(c) && config["apiVersion"] == c.version && (f.own == nil || f.version == c.version)
}

// extra returns the part of the claim that nobody else owns, Git does not declare and is undone, and what of that is held.
func (c claim) extra(config map[string]any, f Fields, ctx Context) (extra *fieldpath.Set, held []DecidedLoss) {
	others := &fieldpath.Set{}
	if f.own != nil {
		others = f.own
	}
	for _, o := range f.foreign {
		if o.owner != c.owner && !undone(o) {
			others = others.Union(o.set)
		}
	}
	isExtra := func(p fieldpath.Path) bool { return !left(p) && !f.declared(config, p) && !owns(others, p) }
	others = others.Union(c.spared(config, f, ctx, isExtra))
	extra = &fieldpath.Set{}
	for p := range c.set.All() {
		if isExtra(p) {
			extra.Insert(p.Copy())
		}
	}
	return c.lessHeld(extra, ctx)
}

// lessHeld takes from extra what the breaker holds.
func (c claim) lessHeld(extra *fieldpath.Set, ctx Context) (rest *fieldpath.Set, held []DecidedLoss) {
	if ctx.Contested == nil {
		return extra, nil
	}
	var stay []fieldpath.Path
	for _, p := range tops(extra) {
		if fight, ok := ctx.Contested(p.String(), c.owner); ok {
			stay = append(stay, p)
			held = append(held, DecidedLoss{Loss{Path: p, Owner: c.owner}, Contested(c.owner.String()+" added it", fight)})
		}
	}
	return extra.Difference(c.within(stay)), held
}

// spared returns the part of the claim that a policy leaves to its owner. In a list item that goes as a whole, nothing is.
func (c claim) spared(config map[string]any, f Fields, ctx Context, isExtra func(fieldpath.Path) bool) *fieldpath.Set {
	spared := &fieldpath.Set{}
	if len(ctx.Policies) == 0 {
		return spared
	}
	leaves := func(p fieldpath.Path) bool {
		d, ok := byPolicy(Loss{Path: p, Pointer: f.way(config, p), Owner: c.owner}, ctx)
		return ok && d.Verdict != Enforce
	}
	for p := range c.set.All() {
		stays := leaves(p)
		for n := 1; stays && n < len(p); n++ {
			item := p[:n]
			stays = item[n-1].FieldName != nil || !c.set.Has(item) || leaves(item) || !isExtra(item)
		}
		if stays {
			spared.Insert(p.Copy())
		}
	}
	return spared
}

// left reports whether a field stays with whoever added it.
func left(p fieldpath.Path) bool {
	field := func(i int) string {
		if i < len(p) && p[i].FieldName != nil {
			return *p[i].FieldName
		}
		return ""
	}
	switch field(0) {
	case "status", "apiVersion", "kind":
		return true
	case "metadata":
		return field(1) != "finalizers" && field(1) != "ownerReferences"
	}
	if last := field(len(p) - 1); last == restartedAt {
		return true
	}
	// The maps around the restart request come and go with it.
	return isTemplateMeta(p)
}

// isTemplateMeta reports whether p is the bare "metadata" or "annotations" of a pod template.
func isTemplateMeta(p fieldpath.Path) bool {
	n := len(p)
	name := func(i int) string {
		if i >= 0 && p[i].FieldName != nil {
			return *p[i].FieldName
		}
		return ""
	}
	return name(n-1) == "annotations" && name(n-2) == "metadata" || name(n-1) == "metadata" && name(n-2) == "template"
}

// owns reports whether s keeps p when its other owners let it go: it has it or something below it. A list item goes as a
// whole with whoever has the item itself, whatever others have set in it.
func owns(s *fieldpath.Set, p fieldpath.Path) bool {
	if p[len(p)-1].FieldName == nil {
		return s.Has(p)
	}
	return touches(s, p)
}

// touches reports whether s has p or something below it.
func touches(s *fieldpath.Set, p fieldpath.Path) bool {
	for i, pe := range p {
		child, deeper := s.Children.Get(pe)
		switch {
		case i == len(p)-1:
			return deeper || s.Members.Has(pe)
		case !deeper:
			return false
		}
		s = child
	}
	return false
}

// tops returns the topmost paths of s: those with no member above them.
func tops(s *fieldpath.Set) []fieldpath.Path {
	var out []fieldpath.Path
	for p := range s.All() {
		if !slices.ContainsFunc(out, func(top fieldpath.Path) bool { return isBelow(top, p) }) {
			out = append(out, p.Copy())
		}
	}
	return out
}

func isBelow(top, p fieldpath.Path) bool {
	return len(p) > len(top) && p[:len(top)].Equals(top)
}

// Fold returns managed fields in which our entry has taken over the extras, so that the next apply, which
// does not list them, removes them; ok is false where there is nothing to fold. entries are not changed.
// What Untangle found is among the extras, whoever owns it.
//
// A forced apply alone cannot do this: it adds Git's items beside the ones that it does not know of.
func (cmp Comparison) Fold(config map[string]any, entries []metav1.ManagedFieldsEntry, manager string) (folded []metav1.ManagedFieldsEntry, ok bool, err error) {
	f, err := ParseFields(entries, manager)
	if err != nil {
		return nil, false, err
	}
	if f.own == nil { // an object that is being adopted: what people's tools wrote becomes ours
		f.own = &fieldpath.Set{}
		f.version, _ = config["apiVersion"].(string)
	}
	clashes := cmp.clashes()
	taken := fieldpath.NewSet(clashes...)
	for i := range entries {
		e := entries[i]
		c := claim{owner: ownerOf(&e), version: e.APIVersion}
		if e.FieldsV1 == nil || e.Manager == manager || len(clashes) == 0 && !c.comparable(config, f) {
			folded = append(folded, e)
			continue
		}
		if c.set, err = fieldsOf(&e); err != nil {
			return nil, false, err
		}
		extra := c.within(clashes)
		if c.comparable(config, f) {
			added, _ := c.extra(config, f, cmp.ctx)
			extra = extra.Union(added)
		}
		if extra.Empty() {
			folded = append(folded, e)
			continue
		}
		taken = taken.Union(extra)
		if rest := c.set.Difference(extra); !rest.Empty() {
			if e.FieldsV1, err = encode(rest); err != nil {
				return nil, false, err
			}
			folded = append(folded, e)
		}
	}
	if taken.Empty() {
		return nil, false, nil
	}
	own := ownEntry(folded, manager)
	if own == nil {
		folded = append(folded, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: f.version, FieldsType: "FieldsV1",
		})
		own = &folded[len(folded)-1]
	}
	own.FieldsV1, err = encode(f.own.Union(taken))
	return folded, err == nil, err
}

// within returns the part of the claim at or below any of paths.
func (c claim) within(paths []fieldpath.Path) *fieldpath.Set {
	part := &fieldpath.Set{}
	for p := range c.set.All() {
		if slices.ContainsFunc(paths, func(top fieldpath.Path) bool { return top.Equals(p) || isBelow(top, p) }) {
			part.Insert(p.Copy())
		}
	}
	return part
}

func encode(s *fieldpath.Set) (*metav1.FieldsV1, error) {
	b, err := s.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("writing managed fields: %w", err)
	}
	fields := &metav1.FieldsV1{}
	fields.SetRawBytes(b)
	return fields, nil
}
