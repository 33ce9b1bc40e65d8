package sync

import (
	"bytes"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// isNothing reports whether metadata cannot tell whether a declared value is there: an empty list is listed among the
// fields of its owner only when it is atomic, and null declares nothing, nor does a map of nothing but nulls.
func isNothing(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, x := range v {
			if x != nil {
				return false
			}
		}
		return len(v) > 0
	}
	return v == nil
}

// valueAt returns what a JSON pointer leads to.
func valueAt(v any, pointer []string) any {
	for _, element := range pointer {
		switch x := v.(type) {
		case map[string]any:
			v = x[element]
		case []any:
			i, _ := strconv.Atoi(element)
			v = x[i]
		}
	}
	return v
}

// content is an object less what every write changes.
func content(u *unstructured.Unstructured) []byte {
	u = u.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	normalizeLists(u.Object)
	return asJSON(u.Object)
}

// normalizeLists takes out empty lists, since whether one is there means nothing, and orders the others: who owns an
// item says nothing of its place, and the order of an atomic list is its owner's as the list is.
func normalizeLists(v any) {
	switch x := v.(type) {
	case map[string]any:
		for k, child := range x {
			if isNothing(child) {
				delete(x, k)
			}
			normalizeLists(child)
		}
	case []any:
		for _, child := range x {
			normalizeLists(child)
		}
		slices.SortFunc(x, func(a, b any) int { return bytes.Compare(asJSON(a), asJSON(b)) })
	}
}

// pointerOf returns the JSON pointer to a declared field, as far as it is declared. applied is what applying gives: an item
// that leaves a key to its default is found by it.
func pointerOf(v any, p fieldpath.Path, applied *fieldpath.Set) (pointer []string) {
	for n, pe := range p {
		switch x := v.(type) {
		case map[string]any:
			if pe.FieldName == nil || x[*pe.FieldName] == nil {
				return pointer
			}
			v, pointer = x[*pe.FieldName], append(pointer, *pe.FieldName)
		case []any:
			i := slices.IndexFunc(x, func(item any) bool { return isItem(item, pe) })
			if i < 0 && applied.Has(p[:n+1]) {
				i = slices.IndexFunc(x, func(item any) bool { return mayBecomeItem(item, pe) })
			}
			if i < 0 {
				return pointer
			}
			v, pointer = x[i], append(pointer, strconv.Itoa(i))
		}
	}
	return pointer
}

// wayTo returns the JSON pointer to a field, in config as far as it is declared, and then by names up to a list.
func wayTo(config any, p fieldpath.Path, applied *fieldpath.Set) []string {
	pointer := pointerOf(config, p, applied)
	for _, pe := range p[len(pointer):] {
		if pe.FieldName == nil {
			break
		}
		pointer = append(pointer, *pe.FieldName)
	}
	return pointer
}

func same(u *unstructured.Unstructured, want any, p fieldpath.Path) bool {
	got, _ := at(u.Object, p)
	return bytes.Equal(asJSON(got), asJSON(want))
}

// at returns the value of a field of a stored object.
func at(v any, p fieldpath.Path) (any, bool) {
	for _, pe := range p {
		switch x := v.(type) {
		case map[string]any:
			if pe.FieldName == nil {
				return nil, false
			}
			next, ok := x[*pe.FieldName]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i := slices.IndexFunc(x, func(item any) bool { return isItem(item, pe) })
			if i < 0 {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func isItem(item any, pe fieldpath.PathElement) bool {
	if pe.Value != nil {
		return value.Equals(value.NewValueInterface(item), *pe.Value)
	}
	m, ok := item.(map[string]any)
	if pe.Key == nil || !ok {
		return false
	}
	for _, k := range *pe.Key {
		if !value.Equals(value.NewValueInterface(m[k.Name]), k.Value) {
			return false
		}
	}
	return true
}

// mayBecomeItem reports whether a declared item has no other keys than pe.
func mayBecomeItem(item any, pe fieldpath.PathElement) bool {
	m, ok := item.(map[string]any)
	if pe.Key == nil || !ok {
		return false
	}
	return !slices.ContainsFunc(*pe.Key, func(k value.Field) bool {
		v, there := m[k.Name]
		return there && !value.Equals(value.NewValueInterface(v), k.Value)
	})
}
