package diff

import (
	"slices"
	"strconv"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// pointer returns where config declares the field p, which is one of f's; ok is false where it does not.
func (f Fields) pointer(config map[string]any, p fieldpath.Path) (_ []string, ok bool) {
	pointer, _, _ := f.find(config, p)
	if len(pointer) < len(p) {
		return nil, false
	}
	return pointer, true
}

// way returns the JSON pointer to p, one of f's: through config as far as that declares it, and from there by the names of
// fields, up to a list whose items have no place in config.
func (f Fields) way(config map[string]any, p fieldpath.Path) []string {
	pointer, _, _ := f.find(config, p)
	for _, pe := range p[len(pointer):] {
		if pe.FieldName == nil {
			break
		}
		pointer = append(pointer, *pe.FieldName)
	}
	return pointer
}

// declared reports whether config has something at p, or may have: then the field is a loss, not an extra.
func (f Fields) declared(config map[string]any, p fieldpath.Path) bool {
	pointer, v, unsure := f.find(config, p)
	if len(pointer) == len(p) || unsure {
		return true
	}
	switch v.(type) {
	case map[string]any:
		return p[len(pointer)].FieldName == nil // the declared value is of another shape: it counts as lost as a whole
	case []any:
		return false
	}
	return v != nil
}

// find follows p through config as far as that goes, and returns the way and what is there; unsure says that the way leads
// through a list item of which only the API server can tell whether it is the declared one.
func (f Fields) find(config map[string]any, p fieldpath.Path) (pointer []string, v any, unsure bool) {
	v = config
	node := f.top()
	for _, pe := range p {
		switch at := v.(type) {
		case map[string]any:
			if pe.FieldName == nil {
				return pointer, v, unsure
			}
			next, ok := at[*pe.FieldName]
			if !ok {
				return pointer, v, unsure
			}
			v, pointer = next, append(pointer, *pe.FieldName)
		case []any:
			i := slices.IndexFunc(node.match(at), pe.Equals)
			if i < 0 {
				return pointer, v, unsure
			}
			unsure = unsure || node.unsure(at[i], pe)
			v, pointer = at[i], append(pointer, strconv.Itoa(i))
		default:
			return pointer, v, unsure
		}
		node = node.descend(pe)
	}
	return pointer, v, unsure
}
