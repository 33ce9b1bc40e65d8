package diff

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Handover returns the fields to apply as the manager that keeps released values alive: those of Release, and those that
// it has from before, which it would let go if it no longer applied them; none where nothing is to be released.
// It returns an error when entries are not well-formed.
func (c Comparison) Handover(entries []metav1.ManagedFieldsEntry) ([]fieldpath.Path, error) {
	if len(c.Release) == 0 {
		return nil, nil
	}
	paths := slices.Clone(c.Release)
	for _, e := range entries {
		if ClassOf(e.Manager) != Released || e.FieldsV1 == nil {
			continue
		}
		set, err := fieldsOf(&e)
		if err != nil {
			return nil, err
		}
		for p := range set.Leaves().All() {
			back := func(l DecidedLoss) bool {
				return l.Verdict == Enforce && (l.Path.Equals(p) || isBelow(l.Path, p))
			}
			if !slices.ContainsFunc(c.Losses, back) {
				paths = append(paths, p.Copy())
			}
		}
	}
	return paths, nil
}

// Extract returns a configuration that declares only the given fields, each with the value it has in live, which is
// not changed. Fields that live does not have are left out. The items of lists are in live's order: server-side apply puts
// them in the order in which they are applied, and another order of a pod's variables is another pod.
func Extract(live *unstructured.Unstructured, paths []fieldpath.Path) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	paths = slices.Clone(paths)
	slices.SortStableFunc(paths, func(a, b fieldpath.Path) int {
		return comparePointers(locate(live.Object, a), locate(live.Object, b))
	})
	for _, p := range paths {
		extract(live.Object, out.Object, p)
	}
	out.SetAPIVersion(live.GetAPIVersion())
	out.SetKind(live.GetKind())
	out.SetName(live.GetName())
	if ns := live.GetNamespace(); ns != "" {
		out.SetNamespace(ns)
	}
	return out
}

// extract copies the field p of from into to, and the keys of the list items on the way.
func extract(from, to map[string]any, p fieldpath.Path) {
	name := p[0].FieldName
	if name == nil {
		return
	}
	v, ok := from[*name]
	if !ok {
		return
	}
	if len(p) == 1 {
		to[*name] = v
		return
	}
	switch v := v.(type) {
	case map[string]any:
		child, _ := to[*name].(map[string]any)
		if child == nil {
			child = map[string]any{}
		}
		extract(v, child, p[1:])
		to[*name] = child
	case []any:
		items, _ := to[*name].([]any)
		to[*name] = extractItem(v, items, p[1:])
	}
}

func extractItem(from, to []any, p fieldpath.Path) []any {
	i := slices.IndexFunc(from, func(item any) bool { return fitsExactly(item, p[0]) })
	if i < 0 {
		return to
	}
	m, isMap := from[i].(map[string]any)
	have := slices.IndexFunc(to, func(item any) bool { return fitsExactly(item, p[0]) })
	switch {
	case have < 0 && (!isMap || p[0].Key == nil):
		return append(to, from[i])
	case have < 0:
		child := map[string]any{}
		for _, k := range *p[0].Key {
			child[k.Name] = m[k.Name]
		}
		have, to = len(to), append(to, child)
	}
	if child, ok := to[have].(map[string]any); ok && len(p) > 1 {
		extract(m, child, p[1:])
	}
	return to
}
