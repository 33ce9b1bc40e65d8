package sync

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/source"
)

// A chart may make a password or a certificate up in each render. What it made up when the object was created stays:
// such values are no part of the object's digest, and what is live is applied in their place.

// randomPaths returns where a rendered object has such values, in the object as it is applied.
func randomPaths(o source.Object) [][]string {
	var paths [][]string
	for _, pointer := range o.Random {
		parts := strings.Split(pointer, "/")[1:]
		for i := range parts {
			parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
		}
		if len(parts) == 0 {
			return nil // there is nothing to recognize it by
		}
		if o.GetKind() == "Secret" && parts[0] == "stringData" {
			parts[0] = "data"
		}
		paths = append(paths, parts)
	}
	return paths
}

// withoutRandom returns a copy of a configuration that is the same whatever the chart made up.
func withoutRandom(config map[string]any, paths [][]string) map[string]any {
	out := (&unstructured.Unstructured{Object: config}).DeepCopy().Object
	for _, path := range paths {
		replace(out, out, path, func(any) any { return "random" })
	}
	return out
}

// keepRandom puts what is live into a configuration where it has values that the chart made up. What is not live stays.
func (d *Desired) keepRandom(config map[string]any, live *unstructured.Unstructured) {
	for _, path := range d.random {
		replace(config, live.Object, path, func(v any) any { return v })
	}
}

// replace puts what change makes of the value at a path in from there in to, if both have one. Items of lists are found
// by their name, if they have one, as others may have put items between.
func replace(to, from any, path []string, change func(any) any) {
	first, last := path[0], len(path) == 1
	switch to := to.(type) {
	case map[string]any:
		fromMap, _ := from.(map[string]any)
		if value, there := fromMap[first]; there && last {
			to[first] = change(value)
		} else if there {
			replace(to[first], value, path[1:], change)
		}
	case []any:
		i, err := strconv.Atoi(first)
		if err != nil || i >= len(to) {
			return
		}
		if value, there := sameItem(to[i], i, from); there && last {
			to[i] = change(value)
		} else if there {
			replace(to[i], value, path[1:], change)
		}
	}
}

func sameItem(item any, i int, from any) (any, bool) {
	list, _ := from.([]any)
	if m, ok := item.(map[string]any); ok && m["name"] != nil {
		at := slices.IndexFunc(list, func(other any) bool {
			o, ok := other.(map[string]any)
			return ok && o["name"] == m["name"]
		})
		if at < 0 {
			return nil, false
		}
		return list[at], true
	}
	if i >= len(list) {
		return nil, false
	}
	return list[i], true
}
