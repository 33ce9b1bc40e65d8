package fields

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadsWithoutFailing(t *testing.T) {
	m := Map{
		"text": "x", "yes": true, "int": int64(3), "float": 4.0, "digits": "5", "list": []any{1}, "null": nil,
		"deep": map[string]any{"er": map[string]any{"text": "y"}},
	}
	for sentence, test := range map[string]struct{ want, got any }{
		"a string":                            {"x", m.Str("text")},
		"a string of another type":            {"", m.Str("yes")},
		"a bool":                              {true, m.Bool("yes")},
		"a bool of another type":              {false, m.Bool("text")},
		"an integer":                          {int64(3), m.Num("int")},
		"a float":                             {int64(4), m.Num("float")},
		"a number in a string":                {int64(5), m.Num("digits")},
		"a number of another type":            {int64(0), m.Num("text")},
		"a number that is not there":          {int64(7), m.NumOr("none", 7)},
		"a number that is there":              {int64(3), m.NumOr("int", 7)},
		"a list":                              {[]any{1}, m.List("list")},
		"a list of another type":              {0, len(m.List("text"))},
		"a path":                              {"y", m.At("deep", "er").Str("text")},
		"a path through another type":         {"", m.At("text", "er").Str("text")},
		"a dotted path":                       {any("y"), m.Dig("deep.er.text")},
		"a dotted path to nothing":            {any(nil), m.Dig("deep.none.text")},
		"what is there":                       {true, m.Has("text")},
		"what is null":                        {false, m.Has("null")},
		"what is not there, of no map at all": {"", Of(nil).Str("text")},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

func TestBounds(t *testing.T) {
	long := make([]any, 2*MaxItems)
	for i := range long {
		long[i] = map[string]any{"type": "T", "status": "True", "message": strings.Repeat("ä", MaxMessage)}
	}
	m := Map{"conditions": long}
	if got := len(m.List("conditions")); got != MaxItems {
		t.Errorf("want %d items, got %d", MaxItems, got)
	}
	if got := len(m.Conditions()); got != MaxConditions {
		t.Errorf("want %d conditions, got %d", MaxConditions, got)
	}
	if got := m.Condition("T").Message; got != strings.Repeat("ä", MaxMessage/2) {
		t.Errorf("want %d bytes, got %d", MaxMessage, len(got))
	}
	if got := Clip("aä", 2); got != "a" {
		t.Errorf("want no half character, got %q", got)
	}
}

func TestCondition(t *testing.T) {
	m := Map{"conditions": []any{
		"x", map[string]any{"type": "Error"}, map[string]any{"status": "True"},
		map[string]any{"type": "Ready", "status": "False", "reason": "Why", "message": " because ", "severity": "Info"},
		map[string]any{"type": "Bare", "status": "True"}, map[string]any{"type": "Reasoned", "status": "Unknown", "reason": "Why"},
	}}
	if diff := cmp.Diff(Condition{"Ready", "False", "Why", " because ", "Info"}, m.Condition("Ready")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := m.Condition("Error"); got != (Condition{}) || got.IsFalse() || got.IsTrue() {
		t.Errorf("want an entry without a status to be no condition, got %+v", got)
	}
	for kind, want := range map[string]string{"Ready": "because", "Bare": "Bare is True", "Reasoned": "Reasoned is Unknown: Why"} {
		if got := m.Condition(kind).Text(); got != want {
			t.Errorf("%s: want %q, got %q", kind, want, got)
		}
	}
	if got := m.Condition("Bare").ReasonOr("Other"); got != "Other" {
		t.Errorf("want the fallback, got %q", got)
	}
}
