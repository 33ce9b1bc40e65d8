package diff

import (
	"fmt"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Ours is said of a field that is as Git declares it and that we own: nothing is to be done about it.
const Ours Verdict = "Ours"

// Rules that Explain names beside those of the chain.
const (
	RuleShared  = "shared"   // somebody else has set the same value
	RuleNotGit  = "not-git"  // ours, and no longer in Git
	RuleExtra   = "extra"    // a person's tool added it
	RuleHandOff = "hand-off" // ours, and about to be left to somebody else
)

// FieldOwner is one field of an object: who has it, and what is done about that.
type FieldOwner struct {
	Path  fieldpath.Path
	Owner Owner // the zero Owner where nobody has it
	Decision
}

// Explain tells of each field that Git declares or that we own who has it and what is done about it, and of each field
// that a person's tool added; in the order of the paths. Fields that only controllers have, such as defaults and the
// status, are not among them. An object that is not there has no field. It needs the managed fields, and changes nothing.
func Explain(d Desired, o Observed, c Context, manager string) ([]FieldOwner, error) {
	if !o.Exists {
		return nil, nil
	}
	config, err := d.Config()
	if err != nil {
		return nil, err
	}
	fields, err := ParseFields(o.Managed, manager)
	if err != nil {
		return nil, fmt.Errorf("explaining %s: %w", c.Object, err)
	}
	cmp := compare(config, fields, c, change{git: d.Digest != o.Applied.Config, fields: o.Fields != o.Applied.Fields})
	var all []FieldOwner
	for _, l := range cmp.Losses {
		all = append(all, FieldOwner{l.Path, l.Owner, l.Decision})
	}
	for _, e := range cmp.Extras {
		all = append(all, FieldOwner{e.Path, e.Owner, Decision{Enforce, RuleExtra, "not in Git, " + e.Reason() + ": taken away"}})
	}
	all = append(all, fields.leftToPeople()...)
	if fields.own != nil {
		for p := range fields.own.Leaves().All() {
			all = append(all, FieldOwner{p.Copy(), fields.owner, fields.standing(config, p, cmp.Release)})
		}
	}
	slices.SortStableFunc(all, func(a, b FieldOwner) int { return a.Path.Compare(b.Path) })
	return all, nil
}

// standing is what there is to say about a field that is ours.
func (f Fields) standing(config map[string]any, p fieldpath.Path, release []fieldpath.Path) Decision {
	declared := f.declared(config, p)
	switch {
	case isMark(p):
		return Decision{Ours, "own", "Trueup's own mark"}
	case slices.ContainsFunc(release, p.Equals) && declared:
		return Decision{Yield, RuleHandOff, "about to be left to whoever takes it, with the value that it has"}
	case slices.ContainsFunc(release, p.Equals):
		return Decision{Yield, RuleHandOff, "no longer in Git: it keeps the value that it has"}
	case !declared:
		return Decision{Enforce, RuleNotGit, "no longer in Git: taken away"}
	}
	for _, c := range f.foreign {
		if c.set.Has(p) {
			return Decision{Ours, RuleShared, "as Git declares it, and " + c.owner.String() + " has set the same value"}
		}
	}
	return Decision{Verdict: Ours, Reason: "as Git declares it"}
}

// leftToPeople are the fields that people's tools added and may keep.
func (f Fields) leftToPeople() []FieldOwner {
	var all []FieldOwner
	for _, c := range f.foreign {
		if !undone(c) {
			continue
		}
		for p := range c.set.Leaves().All() {
			if !left(p) || p[0].String() == ".status" || f.own != nil && touches(f.own, p) {
				continue
			}
			all = append(all, FieldOwner{p.Copy(), c.owner, Decision{Yield, RuleExtra, "not in Git, added by " + c.owner.String() + ": left as it is"}})
		}
	}
	return all
}
