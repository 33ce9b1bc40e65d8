package diff

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Reach is how far from a refused field is looked for what it does not go together with.
type Reach int

const (
	// Named takes the refused field itself, where Git does not declare it: rollingUpdate where Git has the strategy Recreate.
	// Of a list it takes items that Git does not declare: that have the same value there as one of Git's, as port 80 where
	// Git has 83 of the same name; that lack what all of Git's have; and those of which applying takes our part away and
	// leaves what others set.
	Named Reach = iota
	// Beside takes also what Git does not declare beside it and in it: the emptyDir that was there before Git said
	// configMap, the minAvailable that somebody added to Git's maxUnavailable.
	Beside
)

// Untangle returns the fields of live that Git does not declare and that do not go together with what it declares: the
// API server refuses the merged object, and refused are the fields that it names. There need not be a loss: a default that
// nobody owns stays when Git changes what it belongs to. held are those among them that are left to their owners.
// Whether the object is taken without them has to be tried; see With and Restore. It is pure.
func (c Comparison) Untangle(config map[string]any, live *unstructured.Unstructured, refused []string, reach Reach, ctx Context, manager string) (clashes []Extra, held []DecidedLoss, err error) {
	fields, err := ParseFields(live.GetManagedFields(), manager)
	if err != nil {
		return nil, nil, fmt.Errorf("comparing %s: %w", ctx.Object, err)
	}
	ctx.Policies = selected(ctx.Policies, config)
	u := untangler{reach: reach}
	for _, field := range refused {
		u.follow(splitField(field), config, live.Object, fields.top(), nil, nil)
	}
	for _, l := range u.found {
		if slices.ContainsFunc(c.Extras, func(e Extra) bool { return e.Path.Equals(l.Path) }) {
			continue
		}
		if d := l.decided(ctx); d.Verdict != Enforce {
			held = append(held, d)
			continue
		}
		clashes = append(clashes, Extra{Path: l.Path, Owner: l.Owner, clash: true})
	}
	return clashes, held, nil
}

// With returns c with what Untangle found, or a part of it, to be taken away too.
func (c Comparison) With(clashes []Extra) Comparison {
	c.Extras = append(slices.Clip(c.Extras), clashes...)
	return c
}

// Emptied returns c with the refused fields that config declares as empty lists or maps to be left out at first; ok is
// false where there is none. See ApplyFirst.
func (c Comparison) Emptied(config map[string]any, refused []string) (_ Comparison, ok bool) {
	c.emptied = nil
	for _, field := range refused {
		c.emptied = append(c.emptied, emptied(splitField(field), config, nil)...)
	}
	return c, len(c.emptied) > 0
}

// emptied goes along a field to the empty values that it leads to, in a list through every item.
func emptied(field []string, v any, pointer []string) (pointers [][]string) {
	switch v := v.(type) {
	case map[string]any:
		if len(field) > 0 {
			return emptied(field[1:], v[field[0]], append(slices.Clip(pointer), field[0]))
		}
		if len(v) == 0 {
			return [][]string{pointer}
		}
	case []any:
		if len(field) == 0 && len(v) == 0 {
			return [][]string{pointer}
		}
		for i := range v {
			if len(field) > 0 {
				pointers = append(pointers, emptied(field[1:], v[i], append(slices.Clip(pointer), strconv.Itoa(i)))...)
			}
		}
	}
	return pointers
}

// ApplyFirst returns the configuration to apply before the one that Apply returns: without the fields that Emptied found.
// nil is none. config is not changed.
func (c Comparison) ApplyFirst(config map[string]any) map[string]any {
	if len(c.emptied) == 0 {
		return nil
	}
	c.leaveOut = append(slices.Clip(c.leaveOut), c.emptied...)
	return c.Apply(config)
}

// clashes are the extras that Untangle found.
func (c Comparison) clashes() []fieldpath.Path {
	var paths []fieldpath.Path
	for _, e := range c.Extras {
		if e.clash {
			paths = append(paths, e.Path)
		}
	}
	return paths
}

// splitField reads a field as validation writes it: spec.volumes[0].configMap, data[a.b].
func splitField(field string) []string {
	var out []string
	for field != "" {
		if rest, ok := strings.CutPrefix(field, "["); ok {
			key, after, _ := strings.Cut(rest, "]")
			out, field = append(out, key), strings.TrimPrefix(after, ".")
			continue
		}
		end := strings.IndexAny(field, ".[")
		if end < 0 {
			return append(out, field)
		}
		out, field = append(out, field[:end]), strings.TrimPrefix(field[end:], ".")
	}
	return out
}

type untangler struct {
	reach Reach
	found []Loss
}

// follow goes along a refused field as far as both Git and live have it. Which item of a list it means is not asked: it
// counts items of the merged list, which nobody has.
func (u *untangler) follow(field []string, config, live any, n node, path fieldpath.Path, pointer []string) {
	switch want := config.(type) {
	case map[string]any:
		have, _ := live.(map[string]any)
		if len(field) > 0 {
			u.name(field, want, have, n, path, pointer)
		} else if u.reach == Beside {
			u.others(want, have, n, path, pointer, false)
		}
	case []any:
		have, _ := live.([]any)
		if len(field) > 0 {
			u.items(field[1:], want, have, n, path, pointer)
		}
	}
}

func (u *untangler) items(field []string, want, have []any, n node, path fieldpath.Path, pointer []string) {
	elements := n.elements()
	declared := n.match(want)
	for _, pe := range elements {
		at := slices.IndexFunc(have, func(item any) bool { return fitsExactly(item, pe) })
		if at < 0 {
			continue
		}
		if i := slices.IndexFunc(declared, pe.Equals); i >= 0 {
			u.follow(field, want[i], have[at], n.descend(pe), append(slices.Clip(path), pe), append(slices.Clip(pointer), strconv.Itoa(i)))
			continue
		}
		v := valueAt(have[at], field)
		same := slices.ContainsFunc(want, func(item any) bool { return reflect.DeepEqual(valueAt(item, field), v) })
		if n.isOwn(pe) && len(n.ownersOf(pe)) > 0 || same == (v != nil) {
			u.add(pe, n, path, append(slices.Clip(pointer), strconv.Itoa(at)))
		}
	}
}

// valueAt returns what a field of a refusal is, nil where it is not there.
func valueAt(v any, field []string) any {
	for _, element := range field {
		v = at(v, element)
	}
	return v
}

func (u *untangler) name(field []string, want, have map[string]any, n node, path fieldpath.Path, pointer []string) {
	name := field[0]
	v, declared := want[name]
	switch {
	case declared:
		if _, isMap := v.(map[string]any); len(field) == 1 && u.reach == Beside {
			u.others(want, have, n, path, pointer, isMap)
		}
		pe := fieldpath.FieldNameElement(name)
		u.follow(field[1:], v, have[name], n.descend(pe), append(slices.Clip(path), pe), append(slices.Clip(pointer), name))
	case have[name] != nil:
		u.add(fieldpath.FieldNameElement(name), n, path, append(slices.Clip(pointer), name))
	}
}

// others takes what Git does not declare in a map and somebody else owns; also what nobody owns where maps exclude each
// other, which is how kinds have one of several sources or handlers.
func (u *untangler) others(want, have map[string]any, n node, path fieldpath.Path, pointer []string, maps bool) {
	for name, v := range have {
		if _, declared := want[name]; declared {
			continue
		}
		pe := fieldpath.FieldNameElement(name)
		if _, isMap := v.(map[string]any); len(n.ownersOf(pe)) > 0 || maps && isMap {
			u.add(pe, n, path, append(slices.Clip(pointer), name))
		}
	}
}

func (u *untangler) add(pe fieldpath.PathElement, n node, path fieldpath.Path, pointer []string) {
	l := Loss{Path: append(slices.Clip(path), pe), Pointer: pointer}
	l.Owner, l.others = latest(n.ownersOf(pe))
	if !left(l.Path) && !slices.ContainsFunc(u.found, func(have Loss) bool { return have.Path.Equals(l.Path) }) {
		u.found = append(u.found, l)
	}
}

// ownersOf returns who else owns pe or something below it.
func (n node) ownersOf(pe fieldpath.PathElement) []claim {
	return slices.DeleteFunc(slices.Clone(n.foreign), func(c claim) bool {
		_, below := c.set.Children.Get(pe)
		return !below && !c.set.Members.Has(pe)
	})
}
