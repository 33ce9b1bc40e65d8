package health

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds on what is looked at, far beyond what the kinds themselves allow, so that no object takes more than a millisecond.
const (
	maxItems      = 1000 // of a list; the longest that counts are the endpoints of an EndpointSlice
	maxConditions = 32
	maxParents    = 32
	maxWord       = 256  // bytes of a reason or a phase
	maxMessage    = 1024 // bytes of a message
)

// clip returns the first n bytes of s, less what would be half a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

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

func (f fields) list(key string) []any { return asList(f[key]) }

func asList(v any) []any {
	l, _ := v.([]any)
	return l[:min(len(l), maxItems)]
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
	kind, status, reason, message, severity string
}

// asCondition reads an entry; it is valid only with a type and a status: Argo CD's Application lists errors without one.
func asCondition(f fields) (condition, bool) {
	c := condition{
		kind: clip(f.str("type"), maxWord), status: clip(f.str("status"), maxWord), reason: clip(f.str("reason"), maxWord),
		message: clip(f.str("message"), maxMessage), severity: f.str("severity"),
	}
	return c, c.kind != "" && c.status != ""
}

func (f fields) conditions() []any {
	l := f.list("conditions")
	return l[:min(len(l), maxConditions)]
}

// condition returns the condition of that type from the status f; where there is none, its status is "".
func (f fields) condition(kind string) condition {
	for _, v := range f.conditions() {
		if f := asFields(v); f.str("type") == kind {
			if c, ok := asCondition(f); ok {
				return c
			}
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
