package diff

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Restore returns live as it will be once c is put right: without what people's tools added, what does not go together
// with Git and what Git no longer declares, and with config's value in each field that is not left to others. It is for
// where the API server cannot tell by a dry-run; a new item of a list that says what it is only by its owners comes last.
// live has its managed fields, and manager is our own. No argument is changed.
func (c Comparison) Restore(config map[string]any, live *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	fields, err := ParseFields(live.GetManagedFields(), manager)
	if err != nil {
		return nil, fmt.Errorf("reading who wrote %s %s: %w", live.GetKind(), live.GetName(), err)
	}
	out := live.DeepCopy()
	for _, e := range c.Extras {
		remove(out, e.Path)
	}
	for _, p := range fields.surplus(config) {
		if !fields.keeps(p) && !isKey(p) && !slices.ContainsFunc(c.Release, p.Equals) {
			remove(out, fields.goesWith(config, p))
		}
	}
	overlay(out.Object, c.Apply(config), fields.top())
	return out, nil
}

// keeps reports whether p stays when our part of it goes, since somebody else owns it too: a list item itself, of a field
// also something below it.
func (f Fields) keeps(p fieldpath.Path) bool {
	return slices.ContainsFunc(f.foreign, func(c claim) bool { return owns(c.set, p) })
}

// isShared reports whether somebody else owns p or something below it.
func (f Fields) isShared(p fieldpath.Path) bool {
	return slices.ContainsFunc(f.foreign, func(c claim) bool { return touches(c.set, p) })
}

// goesWith returns the topmost field that goes when p does, of which we own nothing else, nor does anybody: with a
// volume's source its defaults go.
func (f Fields) goesWith(config map[string]any, p fieldpath.Path) fieldpath.Path {
	for n := len(p) - 1; n > 0 && !f.declared(config, p[:n]) && !f.isShared(p[:n]); n-- {
		p = p[:n]
	}
	return p
}

// isKey reports whether p is a key of a list item, which a default brings back.
func isKey(p fieldpath.Path) bool {
	if len(p) < 2 || p[len(p)-2].Key == nil || p[len(p)-1].FieldName == nil {
		return false
	}
	return slices.ContainsFunc(*p[len(p)-2].Key, func(k value.Field) bool { return k.Name == *p[len(p)-1].FieldName })
}

func remove(from *unstructured.Unstructured, p fieldpath.Path) {
	if pointer := locate(from.Object, p); pointer != nil {
		if v, keep := without(from.Object, pointer); keep {
			from.Object = v.(map[string]any)
		}
	}
}

// locate returns the JSON pointer to a field of a stored object, nil where it is not there.
func locate(object map[string]any, p fieldpath.Path) []string {
	var v any = object
	var pointer []string
	for _, pe := range p {
		switch x := v.(type) {
		case map[string]any:
			if pe.FieldName == nil || x[*pe.FieldName] == nil {
				return nil
			}
			v, pointer = x[*pe.FieldName], append(pointer, *pe.FieldName)
		case []any:
			i := slices.IndexFunc(x, func(item any) bool { return fitsExactly(item, pe) })
			if i < 0 {
				return nil
			}
			v, pointer = x[i], append(pointer, strconv.Itoa(i))
		default:
			return nil
		}
	}
	return pointer
}

// overlay writes config over to, as server-side apply merges: what is a list with keys, a set or an atomic value shows in
// what is owned below it.
func overlay(to, config map[string]any, n node) {
	for name, want := range config {
		pe := fieldpath.FieldNameElement(name)
		switch want := want.(type) {
		case nil:
			continue
		case map[string]any:
			if have, ok := to[name].(map[string]any); ok && !n.isWhole(pe) {
				overlay(have, want, n.descend(pe))
				continue
			}
		case []any:
			have, _ := to[name].([]any)
			to[name] = overlayList(have, want, n.descend(pe))
			continue
		}
		to[name] = runtime.DeepCopyJSONValue(want)
	}
}

func overlayList(to, config []any, n node) []any {
	if len(n.elements()) == 0 {
		return runtime.DeepCopyJSONValue(config).([]any)
	}
	for i, pe := range n.match(config) {
		at := slices.IndexFunc(to, func(item any) bool { return fitsExactly(item, pe) })
		if at < 0 {
			to = append(to, runtime.DeepCopyJSONValue(config[i]))
			continue
		}
		have, isMap := to[at].(map[string]any)
		if want, ok := config[i].(map[string]any); ok && isMap {
			overlay(have, want, n.descend(pe))
		}
	}
	return to
}

// isWhole reports whether somebody owns the map at pe as one value.
func (n node) isWhole(pe fieldpath.PathElement) bool {
	member := n.own != nil && n.own.Members.Has(pe)
	sub := n.descend(pe)
	for _, c := range n.foreign {
		member = member || c.set.Members.Has(pe)
	}
	return member && sub.own == nil && len(sub.foreign) == 0
}

func at(v any, element string) any {
	switch v := v.(type) {
	case map[string]any:
		return v[element]
	case []any:
		if i, err := strconv.Atoi(element); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}
