package diff

import (
	"cmp"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Loss is one declared field that we do not own.
type Loss struct {
	// Path is the field as managed fields write it.
	Path fieldpath.Path
	// Pointer is the same place in the declared configuration, as the elements of a JSON pointer.
	Pointer []string
	// Owner has it now; the zero Owner where the field was removed.
	Owner Owner

	others []Owner // who share the value with Owner
	empty  bool    // config declares an empty list
	// unsure says that the field is a list item which leaves keys to their defaults, and that others have items which it
	// may be: whose it is, only the API server can tell.
	unsure bool
}

// walk finds the fields of config that f does not list as ours, with their new owners, in the order of the paths.
// A subtree that nobody owns any longer is one loss, at its top. config is not changed.
//
// No schema is needed: what is a list with keys, a set or an atomic value shows in the entries themselves.
func walk(config map[string]any, f Fields) walker {
	w := walker{}
	w.fields(config, f.top().orEmpty(), nil, nil, topLevel)
	slices.SortStableFunc(w.losses, func(a, b Loss) int { return a.Path.Compare(b.Path) })
	return w
}

// node is one place in the tree: what we own below it and what others own below it. own is nil where we own nothing.
type node struct {
	own     *fieldpath.Set
	version string // of the API, in which own is written
	foreign []claim
}

func (f Fields) top() node { return node{own: f.own, version: f.version, foreign: f.foreign} }

type walker struct {
	losses []Loss
	// whole says that we own a map with fields as one value, as far as it shows: one without a schema that has lost its
	// last field looks the same.
	whole bool
}

// identity are the fields that server-side apply takes as the object's name and never lists.
var (
	identityTop  = map[string]bool{"apiVersion": true, "kind": true}
	identityMeta = map[string]bool{"name": true, "namespace": true, "resourceVersion": true, "uid": true, "generation": true, "creationTimestamp": true, "managedFields": true, "selfLink": true}
)

type level int

const (
	topLevel level = iota
	metadataLevel
	deeper
)

func (w *walker) fields(m map[string]any, n node, path fieldpath.Path, pointer []string, l level) {
	for name, v := range m {
		next := deeper
		switch {
		case v == nil, l == topLevel && identityTop[name], l == metadataLevel && identityMeta[name]:
			continue // a null declares nothing that could be lost
		case l == topLevel && name == "metadata":
			next = metadataLevel
		}
		w.child(v, n, fieldpath.FieldNameElement(name), path, append(slices.Clip(pointer), name), next)
	}
}

// child looks at one field or list item: pe below the node n, with the declared value v.
func (w *walker) child(v any, n node, pe fieldpath.PathElement, path fieldpath.Path, pointer []string, l level) {
	path = append(slices.Clip(path), pe)
	sub := n.descend(pe)
	list, isList := v.([]any)
	loss := Loss{Path: path, Pointer: pointer, empty: isList && len(list) == 0}
	isMember := n.own != nil && n.own.Members.Has(pe)
	if l == metadataLevel && len(path) == 1 {
		if m, ok := v.(map[string]any); ok {
			w.fields(m, sub.orEmpty(), path, pointer, metadataLevel)
			return
		}
	}
	if m, isMap := v.(map[string]any); isMember && sub.own == nil && (!isMap || len(m) == 0 || !n.sharedBelow(pe)) {
		w.whole = w.whole || hasValue(m)
		return // a leaf, or a value owned as a whole
	}
	if sub.own == nil && len(sub.foreign) == 0 {
		loss.Owner, loss.others = n.takenWhole(pe)
		w.losses = append(w.losses, loss)
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			w.fields(v, sub, path, pointer, deeper)
			return
		}
	case []any:
		// An empty list with keys or a set is never listed as ours: whoever adds to it takes nothing.
		w.items(v, sub, path, pointer)
		return
	}
	if !isMember {
		// An empty value of ours into which somebody else put something.
		loss.Owner, loss.others = latest(sub.foreign)
		w.losses = append(w.losses, loss)
	}
}

// hasValue reports whether anything in m is declared: a null is nothing.
func hasValue(m map[string]any) bool {
	for _, v := range m {
		if v != nil {
			return true
		}
	}
	return false
}

func (w *walker) items(list []any, n node, path fieldpath.Path, pointer []string) {
	elements := n.elements()
	for i, pe := range n.match(list) {
		pointer := append(slices.Clip(pointer), strconv.Itoa(i))
		if !n.unsure(list[i], pe) {
			w.child(list[i], n, pe, path, pointer, deeper)
			continue
		}
		path := append(slices.Clip(path), unmatched(list[i], i, elements))
		w.losses = append(w.losses, Loss{Path: path, Pointer: pointer, unsure: true})
	}
}

// unsure reports whether only the API server can tell if pe is what item becomes, since keys are left to their defaults.
func (n node) unsure(item any, pe fieldpath.PathElement) bool {
	return !fitsDefaults(item, pe) && n.mayFit(item, pe) && !n.isOwn(pe)
}

// isOwn reports whether we own pe or something below it.
func (n node) isOwn(pe fieldpath.PathElement) bool {
	if n.own == nil {
		return false
	}
	_, below := n.own.Children.Get(pe)
	return below || n.own.Members.Has(pe)
}

func (n node) descend(pe fieldpath.PathElement) node {
	sub := node{version: n.version}
	if n.own != nil {
		sub.own, _ = n.own.Children.Get(pe)
	}
	for _, c := range n.foreign {
		if set, ok := c.set.Children.Get(pe); ok {
			sub.foreign = append(sub.foreign, claim{owner: c.owner, version: c.version, set: set})
		}
	}
	return sub
}

func (n node) orEmpty() node {
	if n.own == nil {
		n.own = &fieldpath.Set{}
	}
	return n
}

// sharedBelow reports whether somebody owns a field below pe, in the version of the API in which we do: then it is no
// value owned as a whole, but a map without a schema of which we have lost all fields.
func (n node) sharedBelow(pe fieldpath.PathElement) bool {
	return slices.ContainsFunc(n.foreign, func(c claim) bool {
		_, ok := c.set.Children.Get(pe)
		return ok && c.version == n.version
	})
}

// takenWhole finds who owns pe, of which nobody owns anything below; see latest.
func (n node) takenWhole(pe fieldpath.PathElement) (Owner, []Owner) {
	var owners []claim
	for _, c := range n.foreign {
		if c.set.Members.Has(pe) {
			owners = append(owners, c)
		}
	}
	return latest(owners)
}

// latest returns the owner that wants a value most, and the others that share it; the zero Owner where there is none.
// Whoever applies the field comes before those who have only set it, another applier before all, and of equals the one that
// wrote last.
func latest(claims []claim) (Owner, []Owner) {
	if len(claims) == 0 {
		return Owner{}, nil
	}
	owners := make([]Owner, len(claims))
	for i, c := range claims {
		owners[i] = c.owner
	}
	slices.SortStableFunc(owners, func(a, b Owner) int { return cmp.Or(b.standing()-a.standing(), b.Time.Compare(a.Time)) })
	return owners[0], owners[1:]
}

// standing orders owners of one value by how much they want it.
func (o Owner) standing() int {
	switch {
	case o.otherApplier():
		return 2
	case o.Operation == string(metav1.ManagedFieldsOperationApply) && ClassOf(o.Manager) != Released:
		return 1
	}
	return 0
}

// elements returns all list elements that anybody owns something of, ours first.
func (n node) elements() []fieldpath.PathElement {
	seen := fieldpath.MakePathElementSet(8)
	var all []fieldpath.PathElement
	add := func(pe fieldpath.PathElement) {
		if !seen.Has(pe) {
			seen.Insert(pe)
			all = append(all, pe)
		}
	}
	if n.own != nil {
		n.own.Members.Iterate(add)
		n.own.Children.Iterate(add)
	}
	for _, c := range n.foreign {
		c.set.Members.Iterate(add)
		c.set.Children.Iterate(add)
	}
	return all
}

// match gives each declared item its element: by value in a set, by key in a list with keys. Items that carry all keys
// choose first, so that one which relies on a defaulted key cannot take another's element, and then what comes first
// among elements; an item that fits none gets a key made of its own fields where the others' keys tell which those are,
// else its index.
func (n node) match(list []any) []fieldpath.PathElement {
	elements := n.elements()
	out := make([]fieldpath.PathElement, len(list))
	found := make([]bool, len(list))
	used := make([]bool, len(elements))
	for _, fits := range []func(any, fieldpath.PathElement) bool{fitsExactly, fitsDefaults, n.mayFit} {
		for i, item := range list {
			for j, pe := range elements {
				if !found[i] && !used[j] && fits(item, pe) {
					out[i], found[i], used[j] = pe, true, true
				}
			}
		}
	}
	for i, item := range list {
		if !found[i] {
			out[i] = unmatched(item, i, elements)
		}
	}
	return out
}

// mayFit reports whether pe can stand for item where that leaves keys to defaults which are not known. What only others
// have does not, where the default is known to be another.
func (n node) mayFit(item any, pe fieldpath.PathElement) bool {
	return fits(item, pe, func(name string, v value.Value) bool {
		d, known := knownDefaults[name]
		return !known || n.isOwn(pe) || value.Equals(value.NewValueInterface(d), v)
	})
}

func fitsExactly(item any, pe fieldpath.PathElement) bool { return fits(item, pe, nil) }

// knownDefaults are the list keys of built-in kinds that have a default (k8s.io/api/core/v1: ServicePort.protocol and
// ContainerPort.protocol).
var knownDefaults = map[string]any{"protocol": "TCP"}

func fitsDefaults(item any, pe fieldpath.PathElement) bool {
	return fits(item, pe, func(name string, v value.Value) bool {
		d, ok := knownDefaults[name]
		return ok && value.Equals(value.NewValueInterface(d), v)
	})
}

// fits reports whether pe can stand for item; absent decides about a key that the item does not carry.
func fits(item any, pe fieldpath.PathElement, absent func(string, value.Value) bool) bool {
	switch {
	case pe.Value != nil:
		return value.Equals(value.NewValueInterface(item), *pe.Value)
	case pe.Key != nil:
		m, ok := item.(map[string]any)
		if !ok {
			return false
		}
		carried := 0
		for _, k := range *pe.Key {
			v, ok := m[k.Name]
			switch {
			case ok && value.Equals(value.NewValueInterface(v), k.Value):
				carried++
			case ok, absent == nil, !absent(k.Name, k.Value):
				return false
			}
		}
		return carried > 0
	}
	return false
}

func unmatched(item any, i int, elements []fieldpath.PathElement) fieldpath.PathElement {
	for _, pe := range elements {
		switch m, isMap := item.(map[string]any); {
		case pe.Value != nil && !isMap:
			return fieldpath.ValueElement(value.NewValueInterface(item))
		case pe.Key != nil && isMap:
			var keys []value.Field
			for _, k := range *pe.Key {
				if v, ok := m[k.Name]; ok {
					keys = append(keys, value.Field{Name: k.Name, Value: value.NewValueInterface(v)})
				}
			}
			if len(keys) > 0 {
				return fieldpath.KeyElement(keys...)
			}
		}
	}
	return fieldpath.IndexElement(i)
}
