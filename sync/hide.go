package sync

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	c.mask.hide(before, after)
}

// hide works in place, from the outside in.
func (m *mask) hide(before, after any) {
	switch next := after.(type) {
	case map[string]any:
		was, _ := before.(map[string]any)
		for key := range next {
			next[key], was = m.leaf(was, key, next[key])
		}
		for key, value := range was {
			if _, both := next[key]; !both {
				was[key] = m.own(value)
			}
		}
	case []any:
		was, _ := before.([]any)
		for i, item := range next {
			twin := twinOf(item, i, was)
			if twin < 0 {
				next[i] = m.own(item)
				continue
			}
			pair := map[string]any{"": was[twin]}
			next[i], pair = m.leaf(pair, "", item)
			was[twin] = pair[""]
		}
		for i := range was {
			was[i] = m.own(was[i])
		}
	default:
		m.own(before) // in place, where it is a map or a list
	}
}

// leaf hides a value of next, and with it what was there before. It returns the value, and before.
func (m *mask) leaf(before map[string]any, key string, value any) (any, map[string]any) {
	text, ok := value.(string)
	if !ok {
		m.hide(before[key], value)
		return value, before
	}
	shown := m.text(text)
	if old, had := before[key].(string); had && shown != text {
		if old != text {
			before[key], shown = masked+" (before)", shown+" (after)"
		} else {
			before[key] = shown
		}
	} else if had {
		before[key] = m.text(old)
	}
	return shown, before
}

// own hides what a value itself has, and returns it.
func (m *mask) own(value any) any {
	switch v := value.(type) {
	case string:
		return m.text(v)
	case map[string]any:
		for key := range v {
			v[key] = m.own(v[key])
		}
	case []any:
		for i := range v {
			v[i] = m.own(v[i])
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
