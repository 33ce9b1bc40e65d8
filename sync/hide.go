package sync

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/source/mask"
)

// Hide takes out of an object, as it is and as it would be, what the Application's variables have from Secrets. Where
// the one changes, the other may have the value before, so it is hidden with it. Either may be nil; both are changed.
func (c Change) Hide(live, next *unstructured.Unstructured) {
	if c.mask == nil {
		return
	}
	var before, after any
	if live != nil {
		before = live.Object
	}
	if next != nil {
		after = next.Object
	}
	hide(c.mask, before, after)
}

// hide works in place, from the outside in.
func hide(m *mask.Mask, before, after any) {
	switch next := after.(type) {
	case map[string]any:
		was, _ := before.(map[string]any)
		for key := range next {
			next[key], was = leaf(m, was, key, next[key])
		}
		for key, value := range was {
			if _, both := next[key]; !both {
				was[key] = own(m, value)
			}
		}
	case []any:
		was, _ := before.([]any)
		for i, item := range next {
			twin := twinOf(item, i, was)
			if twin < 0 {
				next[i] = own(m, item)
				continue
			}
			pair := map[string]any{"": was[twin]}
			next[i], pair = leaf(m, pair, "", item)
			was[twin] = pair[""]
		}
		for i := range was {
			was[i] = own(m, was[i])
		}
	default:
		own(m, before) // in place, where it is a map or a list
	}
}

// leaf hides a value of next, and with it what was there before. It returns the value, and before.
func leaf(m *mask.Mask, before map[string]any, key string, value any) (any, map[string]any) {
	text, ok := value.(string)
	if !ok {
		hide(m, before[key], value)
		return value, before
	}
	shown := m.Text(text)
	if old, had := before[key].(string); had && shown != text {
		if old != text {
			before[key], shown = mask.Hidden+" (before)", shown+" (after)"
		} else {
			before[key] = shown
		}
	} else if had {
		before[key] = m.Text(old)
	}
	return shown, before
}

// own hides what a value itself has, and returns it.
func own(m *mask.Mask, value any) any {
	switch v := value.(type) {
	case string:
		return m.Text(v)
	case map[string]any:
		for key := range v {
			v[key] = own(m, v[key])
		}
	case []any:
		for i := range v {
			v[i] = own(m, v[i])
		}
	}
	return value
}

// twinOf returns where an item of a list was before: by its name, or else at the same place; -1 if nowhere.
func twinOf(item any, at int, was []any) int {
	name := func(v any) any {
		m, _ := v.(map[string]any)
		return m["name"]
	}
	if want := name(item); want != nil {
		for i, old := range was {
			if name(old) == want {
				return i
			}
		}
		return -1
	}
	if at < len(was) {
		return at
	}
	return -1
}
