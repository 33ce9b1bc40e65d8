package diff

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Blame tells who wrote the places of a stored object.
type Blame struct {
	owners map[string]Owner // by JSON pointer
	ours   map[string]bool
}

// NewBlame reads who wrote what from the managed fields of live; manager is our own.
// It returns an error when an entry is not well-formed, and changes nothing.
func NewBlame(live *unstructured.Unstructured, entries []metav1.ManagedFieldsEntry, manager string) (Blame, error) {
	f, err := ParseFields(entries, manager)
	if err != nil {
		return Blame{}, fmt.Errorf("reading who wrote %s %s: %w", live.GetKind(), live.GetName(), err)
	}
	b := Blame{owners: map[string]Owner{}, ours: map[string]bool{}}
	each := func(set *fieldpath.Set, note func(place string)) {
		for p := range set.All() {
			if pointer := locate(live.Object, p); pointer != nil {
				note(place(pointer))
			}
		}
	}
	for _, c := range f.foreign {
		each(c.set, func(at string) {
			if have, ok := b.owners[at]; !ok || c.owner.Time.After(have.Time) {
				b.owners[at] = c.owner
			}
		})
	}
	if f.own != nil {
		each(f.own, func(at string) { b.ours[at] = true })
	}
	return b, nil
}

// Of returns who else wrote the place that pointer leads to, or else the nearest one around it that has an owner; ok is
// false where it is ours, or nobody is known to have written it.
func (b Blame) Of(pointer []string) (owner Owner, ok bool) {
	for n := len(pointer); n > 0; n-- {
		at := place(pointer[:n])
		if b.ours[at] {
			return Owner{}, false
		}
		if owner, ok := b.owners[at]; ok {
			return owner, true
		}
	}
	return Owner{}, false
}

// place writes a JSON pointer as one string; no element has the separator in it.
func place(pointer []string) string { return strings.Join(pointer, "\x00") }
