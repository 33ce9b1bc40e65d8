package diff

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Restore returns live as it will be once c is put right: without what people's tools added, and with config's value in
// each enforced field. It is for showing only, where a dry-run cannot tell. Neither argument is changed.
func Restore(live *unstructured.Unstructured, config map[string]any, c Comparison) *unstructured.Unstructured {
	out := live.DeepCopy()
	for _, e := range c.Extras {
		if pointer := locate(out.Object, e.Path); pointer != nil {
			if v, keep := without(out.Object, pointer); keep {
				out.Object = v.(map[string]any)
			}
		}
	}
	for _, l := range c.Losses {
		if l.Verdict == Enforce {
			restore(out.Object, config, l.Path, l.Pointer)
		}
	}
	return out
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

// restore sets the field at path to what config has at pointer. A list item that is not there is added whole.
func restore(to any, config any, path fieldpath.Path, pointer []string) {
	for i, pe := range path {
		config = at(config, pointer[i])
		last := i == len(path)-1
		switch parent := to.(type) {
		case map[string]any:
			if child, ok := parent[pointer[i]]; last || !ok || !container(child) {
				parent[pointer[i]] = config
				return
			}
			if list, ok := parent[pointer[i]].([]any); ok && !holds(list, path[i+1]) {
				parent[pointer[i]] = append(slices.Clip(list), at(config, pointer[i+1]))
				return
			}
			to = parent[pointer[i]]
		case []any:
			n := slices.IndexFunc(parent, func(item any) bool { return fitsExactly(item, pe) })
			if n < 0 {
				return
			}
			if last {
				parent[n] = config
				return
			}
			to = parent[n]
		default:
			return
		}
	}
}

func holds(list []any, pe fieldpath.PathElement) bool {
	return slices.ContainsFunc(list, func(item any) bool { return fitsExactly(item, pe) })
}

func container(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
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
