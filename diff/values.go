package diff

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// NoFields stands in Applied.Fields for an object whose API server keeps no managed fields, as some aggregated ones
// do. Of such an object only the values can be compared.
const NoFields = "none"

// Unmanaged reports whether o was applied by us and has no managed fields at all.
func (o Observed) Unmanaged() bool {
	return o.Exists && o.Applied.Fields == NoFields && o.Fields == "" && len(o.Managed) == 0
}

// Holds reports whether live has every value that config declares: a field that config leaves out may be anything, a
// list has to be of the same length, and a number may be written as a quantity. Neither argument is changed.
func Holds(live, config map[string]any) bool { return holdsValue(live, config) }

func holdsValue(live, want any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		have, _ := live.(map[string]any)
		for k, v := range want {
			if !holdsValue(have[k], v) {
				return false
			}
		}
		return true
	case []any:
		have, _ := live.([]any)
		if len(have) != len(want) {
			return false
		}
		for i := range want {
			if !holdsValue(have[i], want[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(live, want) || sameQuantity(live, want)
}

func sameQuantity(a, b any) bool {
	x, okX := a.(string)
	y, okY := b.(string)
	if !okX || !okY {
		return false
	}
	p, errP := resource.ParseQuantity(x)
	q, errQ := resource.ParseQuantity(y)
	return errP == nil && errQ == nil && p.Cmp(q) == 0
}
