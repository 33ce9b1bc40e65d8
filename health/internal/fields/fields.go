// Package fields reads parts of an unstructured object without copying, and without ever failing.
// Start at Map.
package fields

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds on what is looked at, far beyond what the kinds themselves allow, so that no object takes more than a millisecond.
const (
	MaxItems      = 1000 // of a list; the longest that counts are the endpoints of an EndpointSlice
	MaxConditions = 32
	MaxParents    = 32
	MaxWord       = 256  // bytes of a reason or a phase
	MaxMessage    = 1024 // bytes of a message
)

// Clip returns the first n bytes of s, less what would be half a character.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Map is an object, or a part of one, read without ever failing: what is absent or of another type reads as zero.
type Map map[string]any

// Of returns v where it is an object, and an empty one otherwise.
func Of(v any) Map {
	m, _ := v.(map[string]any)
	return m
}

// At returns the object at a path.
func (f Map) At(path ...string) Map {
	for _, key := range path {
		f = Of(f[key])
	}
	return f
}

// Dig returns what is at a dotted path, or nil.
func (f Map) Dig(path string) any {
	for {
		key, rest, more := strings.Cut(path, ".")
		if !more {
			return f[key]
		}
		f, path = f.At(key), rest
	}
}

// Has reports whether there is anything but null at key.
func (f Map) Has(key string) bool { return f[key] != nil }

// Str returns the string at key, and "" where there is none.
func (f Map) Str(key string) string {
	s, _ := f[key].(string)
	return s
}

// Bool returns the bool at key, and false where there is none.
func (f Map) Bool(key string) bool {
	b, _ := f[key].(bool)
	return b
}

// List returns the first MaxItems of the list at key.
func (f Map) List(key string) []any { return List(f[key]) }

// List returns the first MaxItems of v where it is a list.
func List(v any) []any {
	l, _ := v.([]any)
	return l[:min(len(l), MaxItems)]
}

// Num returns the number at key, and zero where there is none.
func (f Map) Num(key string) int64 {
	n, _ := Int(f[key])
	return n
}

// NumOr returns the number at key, and fallback where there is none.
func (f Map) NumOr(key string, fallback int64) int64 {
	if n, ok := Int(f[key]); ok {
		return n
	}
	return fallback
}

// Int reads a number as any decoder may leave it; Argo Rollouts writes its observedGeneration as a string.
func Int(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case string:
		i, err := strconv.ParseInt(n, 10, 64)
		return i, err == nil
	}
	return 0, false
}

// Condition is one entry of status.conditions.
type Condition struct {
	Kind, Status, Reason, Message, Severity string
}

// ConditionOf reads an entry; it is valid only with a type and a status: Argo CD's Application lists errors without one.
func ConditionOf(f Map) (Condition, bool) {
	c := Condition{
		Kind: Clip(f.Str("type"), MaxWord), Status: Clip(f.Str("status"), MaxWord), Reason: Clip(f.Str("reason"), MaxWord),
		Message: Clip(f.Str("message"), MaxMessage), Severity: f.Str("severity"),
	}
	return c, c.Kind != "" && c.Status != ""
}

// Conditions returns the first MaxConditions entries of the status f.
func (f Map) Conditions() []any {
	l := f.List("conditions")
	return l[:min(len(l), MaxConditions)]
}

// Condition returns the condition of that type from the status f; where there is none, its status is "".
func (f Map) Condition(kind string) Condition {
	for _, v := range f.Conditions() {
		if f := Of(v); f.Str("type") == kind {
			if c, ok := ConditionOf(f); ok {
				return c
			}
		}
	}
	return Condition{}
}

// IsTrue reports whether the condition is True.
func (c Condition) IsTrue() bool { return c.Status == "True" }

// IsFalse reports whether the condition is False; an absent one is not.
func (c Condition) IsFalse() bool { return c.Status == "False" }

// Text returns what the condition says, for people.
func (c Condition) Text() string {
	switch {
	case c.Message != "":
		return strings.TrimSpace(c.Message)
	case c.Reason != "":
		return c.Kind + " is " + c.Status + ": " + c.Reason
	}
	return c.Kind + " is " + c.Status
}

// ReasonOr returns the condition's reason, and fallback where it gives none.
func (c Condition) ReasonOr(fallback string) string {
	if c.Reason != "" {
		return c.Reason
	}
	return fallback
}
