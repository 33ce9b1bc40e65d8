package health

import (
	"strconv"
	"strings"
)

// fields is an object, or a part of one, read without ever failing: what is absent or of another type reads as zero.
type fields map[string]any

func asFields(v any) fields {
	m, _ := v.(map[string]any)
	return m
}

func (f fields) at(path ...string) fields {
	for _, key := range path {
		f = asFields(f[key])
	}
	return f
}

func (f fields) has(key string) bool { return f[key] != nil }

func (f fields) str(key string) string {
	s, _ := f[key].(string)
	return s
}

func (f fields) bool(key string) bool {
	b, _ := f[key].(bool)
	return b
}

func (f fields) list(key string) []any {
	l, _ := f[key].([]any)
	return l
}

// num returns the number at key, and zero where there is none.
func (f fields) num(key string) int64 {
	n, _ := toInt(f[key])
	return n
}

// numOr returns the number at key, and fallback where there is none.
func (f fields) numOr(key string, fallback int64) int64 {
	if n, ok := toInt(f[key]); ok {
		return n
	}
	return fallback
}

// toInt reads a number as any decoder may leave it; Argo Rollouts writes its observedGeneration as a string.
func toInt(v any) (int64, bool) {
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

// condition is one entry of status.conditions.
type condition struct {
	kind, status, reason, message string
}

// asCondition reads an entry; it is valid only with a type and a status: Argo CD's Application lists errors without one.
func asCondition(v any) (condition, bool) {
	f := asFields(v)
	c := condition{kind: f.str("type"), status: f.str("status"), reason: f.str("reason"), message: f.str("message")}
	return c, c.kind != "" && c.status != ""
}

// condition returns the condition of that type from the status f; where there is none, its status is "".
func (f fields) condition(kind string) condition {
	for _, v := range f.list("conditions") {
		if c, ok := asCondition(v); ok && c.kind == kind {
			return c
		}
	}
	return condition{}
}

func (c condition) isTrue() bool  { return c.status == "True" }
func (c condition) isFalse() bool { return c.status == "False" }

// text returns what the condition says, for people.
func (c condition) text() string {
	switch {
	case c.message != "":
		return strings.TrimSpace(c.message)
	case c.reason != "":
		return c.kind + " is " + c.status + ": " + c.reason
	}
	return c.kind + " is " + c.status
}

// reasonOr returns the condition's reason, and fallback where it gives none.
func (c condition) reasonOr(fallback string) string {
	if c.reason != "" {
		return c.reason
	}
	return fallback
}
