package diff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Policy decides about the fields it selects; an empty selector matches everything.
type Policy struct {
	Group                 *string // nil matches every group, "" the core group
	Kind, Name, Namespace string
	Managers              []string
	Paths                 []PathPattern
	// Select, where it is set, tells the paths from the declared configuration, which it must not change.
	Select  func(config map[string]any) []PathPattern
	Verdict Verdict
	// Source names where a person finds the policy: spec.fieldPolicies[0].
	Source string
}

// selected returns the policies with their paths in config.
func selected(policies []Policy, config map[string]any) []Policy {
	if !slices.ContainsFunc(policies, func(p Policy) bool { return p.Select != nil }) {
		return policies
	}
	out := make([]Policy, 0, len(policies))
	for _, p := range policies {
		if p.Select != nil {
			if p.Paths = append(slices.Clip(p.Paths), p.Select(config)...); len(p.Paths) == 0 {
				continue // it is about nothing here, while a policy without paths is about everything
			}
		}
		out = append(out, p)
	}
	return out
}

// PointerPattern selects the field at a JSON pointer, given by its parts, and all below it.
func PointerPattern(parts ...string) PathPattern { return PathPattern{elements: parts, pointer: true} }

// MatchesObject reports whether the policy is about any field of id.
func (p Policy) MatchesObject(id ID) bool {
	return (p.Group == nil || glob(*p.Group, id.Group) && (*p.Group != "" || id.Group == "")) &&
		glob(p.Kind, id.Kind) && glob(p.Name, id.Name) && glob(p.Namespace, id.Namespace)
}

// Matches reports whether the policy decides about l, a loss of id.
func (p Policy) Matches(id ID, l Loss) bool {
	return p.MatchesObject(id) && p.matchesManager(l.Owner) &&
		(len(p.Paths) == 0 || slices.ContainsFunc(p.Paths, func(pp PathPattern) bool { return pp.matches(l) }))
}

func (p Policy) matchesManager(o Owner) bool {
	return len(p.Managers) == 0 || o.Manager != "" && slices.ContainsFunc(p.Managers, func(m string) bool { return glob(m, o.Manager) })
}

// PathPattern selects a field and all below it.
type PathPattern struct {
	elements []string // elements as managed fields write them, or parts of a JSON pointer
	pointer  bool
	text     string // as it was written: names with dots in them cannot be cut into elements
}

// ParsePath reads a path as managed fields write it (.spec.containers[name="web"].image) or a JSON pointer
// (/spec/containers/0/image). * stands for one element. It returns an error that says what is wrong with s.
func ParsePath(s string) (PathPattern, error) {
	switch {
	case strings.HasPrefix(s, "/"):
		parts := strings.Split(s[1:], "/")
		for i := range parts {
			parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
		}
		return PathPattern{elements: parts, pointer: true}, nil
	case strings.HasPrefix(s, "."), strings.HasPrefix(s, "["):
		parts, err := splitPath(s)
		return PathPattern{elements: parts, text: s}, err
	}
	return PathPattern{}, fmt.Errorf("path %q: must begin with . (.spec.replicas) or / (/spec/replicas)", s)
}

// splitPath cuts at the dots and brackets that are not inside quotes.
func splitPath(s string) ([]string, error) {
	var parts []string
	for s != "" {
		switch s[0] {
		case '.':
			n := strings.IndexAny(s[1:], ".[")
			if n < 0 {
				n = len(s) - 1
			}
			if n == 0 {
				return nil, fmt.Errorf("path: an empty element before %q", s)
			}
			parts = append(parts, s[1:1+n])
			s = s[1+n:]
		case '[':
			n := closing(s)
			if n < 0 {
				return nil, fmt.Errorf("path: no closing bracket in %q", s)
			}
			parts = append(parts, canonicalElement(s[:n+1]))
			s = s[n+1:]
		default:
			return nil, fmt.Errorf("path: expected . or [ before %q", s)
		}
	}
	return parts, nil
}

func closing(s string) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ']' && !quoted:
			return i
		}
	}
	return -1
}

// canonicalElement writes a key as fieldpath does: its fields in order, values as JSON.
func canonicalElement(s string) string {
	inner := s[1 : len(s)-1]
	if inner == "*" || !strings.Contains(inner, "=") || strings.HasPrefix(inner, "=") {
		return "[" + inner + "]"
	}
	var fields value.FieldList
	for _, kv := range strings.Split(inner, ",") {
		name, raw, _ := strings.Cut(kv, "=")
		v, err := value.FromJSON([]byte(raw))
		if err != nil {
			v = value.NewValueInterface(raw)
		}
		fields = append(fields, value.Field{Name: strings.TrimSpace(name), Value: v})
	}
	fields.Sort()
	return fieldpath.KeyElement(fields...).String()
}

func (pp PathPattern) matches(l Loss) bool {
	if pp.pointer {
		return matchElements(pp.elements, l.Pointer)
	}
	elements := make([]string, len(l.Path))
	for i, pe := range l.Path {
		if l.Path[:i+1].String() == pp.text {
			return true
		}
		elements[i] = strings.TrimPrefix(pe.String(), ".")
	}
	return matchElements(pp.elements, elements)
}

func matchElements(pattern, elements []string) bool {
	for i := range min(len(pattern), len(elements)) {
		if pattern[i] != "*" && pattern[i] != "[*]" && pattern[i] != elements[i] {
			return false
		}
		if pattern[i] == "[*]" && !strings.HasPrefix(elements[i], "[") && !isIndex(elements[i]) {
			return false
		}
	}
	return len(pattern) <= len(elements)
}

func isIndex(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}
