package source

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Substitute replaces ${name} in what was rendered, as Flux's postBuild does: in the YAML of each object, so that a value
// may become a number or a boolean. Objects with the label or annotation of SubstituteAnnotation are left as they are.
type Substitute struct {
	Variables map[string]string // nil switches it off; with none set, only defaults are put in
	Secret    map[string]bool   // names of variables whose values nobody may see
	Strict    bool              // a variable that is not set and has no default is an error, not empty
}

// IsVariableName reports whether a variable may be called so.
func IsVariableName(name string) bool {
	for i := range len(name) {
		if !isNameByte(name[i], i) {
			return false
		}
	}
	return name != ""
}

// SubstituteAnnotation is Flux's: with the value "disabled" it keeps an object from being changed.
const SubstituteAnnotation = "kustomize.toolkit.fluxcd.io/substitute"

// apply replaces the variables in objects, and returns what secret ones have become in them.
func (s Substitute) apply(objects []Object) (secrets []string, err error) {
	if s.Variables == nil {
		return nil, nil
	}
	run := &substitution{Substitute: s, secrets: map[string]bool{}}
	err = run.apply(objects)
	return slices.Sorted(maps.Keys(run.secrets)), err
}

// substitution is one run of a Substitute.
type substitution struct {
	Substitute
	secrets map[string]bool // what secret variables were replaced by
	cost    int             // so far: see maxSubstitution
}

// maxSubstitution bounds the cost of one run, in bytes that are written: a few characters in a file can stand for a large
// value, or for one that is compared with a pattern at every place.
const maxSubstitution = 64 << 20

func (s *substitution) spend(cost int) error {
	if s.cost += cost; s.cost > maxSubstitution {
		return fmt.Errorf("variables make the result too large, or take too long to replace: the limit of one render is %d MiB", maxSubstitution>>20)
	}
	return nil
}

func (s *substitution) apply(objects []Object) error {
	for i, o := range objects {
		if o.GetLabels()[SubstituteAnnotation] == "disabled" || o.GetAnnotations()[SubstituteAnnotation] == "disabled" {
			continue
		}
		u, err := s.object(o.Unstructured)
		if err != nil {
			return fmt.Errorf("substituting variables in %s %s (%s): %w", o.GetKind(), o.GetName(), o.Place(), err)
		}
		objects[i].Unstructured = u
	}
	return nil
}

// object returns u with its variables replaced. Values may be secret: no error repeats them.
func (s *substitution) object(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(string(text), "${") {
		return u, nil
	}
	expanded, err := s.expand(string(text), 0)
	if err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSONStrict([]byte(expanded))
	if err != nil {
		return nil, errors.New("the result is no YAML: quote the variable, or its value")
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(raw); err != nil || out.GetKind() == "" || out.GetName() == "" {
		return nil, errors.New("the result is no Kubernetes object")
	}
	return out, nil
}

// maxNesting bounds defaults with variables in them with defaults with variables in them.
const maxNesting = 8

// expand replaces the variables in text. $${ stands for ${.
func (s *substitution) expand(text string, depth int) (string, error) {
	if depth > maxNesting {
		return "", fmt.Errorf("variables are nested more than %d deep", maxNesting)
	}
	var out strings.Builder
	for {
		if out.Len() > maxFileBytes {
			return "", fmt.Errorf("the result has more than %d MiB", maxFileBytes>>20)
		}
		i := strings.Index(text, "${")
		if i < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if i > 0 && text[i-1] == '$' {
			out.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		out.WriteString(text[:i])
		end := closingBrace(text[i+2:])
		if end < 0 {
			return "", errors.New("a ${ has no closing brace: write $${ where it is no variable")
		}
		value, err := s.variable(text[i+2:i+2+end], depth)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = text[i+2+end+1:]
	}
}

// closingBrace returns where the brace is that closes an expression, with others inside of it, -1 if nowhere.
func closingBrace(text string) int {
	for i, depth := 0, 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "${"):
			if depth++; depth > maxNesting {
				return -1
			}
			i++
		case text[i] == '}' && depth > 0:
			depth--
		case text[i] == '}':
			return i
		}
	}
	return -1
}

// variable returns the value of an expression: a name and what to do with its value.
func (s *substitution) variable(expression string, depth int) (string, error) {
	rest, length := strings.CutPrefix(expression, "#")
	n := 0
	for n < len(rest) && isNameByte(rest[n], n) {
		n++
	}
	name, operation := rest[:n], rest[n:]
	if name == "" || (length && operation != "") {
		return "", fmt.Errorf("${%s} is no variable: write $${ to keep it as it is", abbreviate(expression))
	}
	value, set := s.Variables[name]
	if err := s.spend(operationCost(value, operation)); err != nil {
		return "", err
	}
	if length {
		return strconv.Itoa(len([]rune(value))), nil
	}
	for _, op := range []string{":-", ":=", "-", "="} {
		if word, ok := strings.CutPrefix(operation, op); ok {
			if set && (value != "" || op[0] != ':') {
				return s.used(name, value), nil
			}
			return s.expand(word, depth+1)
		}
	}
	if !set && s.Strict {
		return "", fmt.Errorf("variable %s is not set", name)
	}
	out, ok := operate(value, operation)
	if !ok {
		return "", fmt.Errorf("${%s}: %q is no operation on a variable", name, abbreviate(operation))
	}
	return s.used(name, out), nil
}

// used notes what a secret variable is replaced by.
func (s *substitution) used(name, text string) string {
	if s.Secret[name] && text != "" {
		s.secrets[text] = true
	}
	return text
}

func isNameByte(c byte, at int) bool {
	letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	return letter || (at > 0 && '0' <= c && c <= '9')
}

func abbreviate(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// operationCost returns what operate costs, about the bytes that it writes.
func operationCost(value, operation string) int {
	if operation == "" {
		return len(value)
	}
	switch n := len(value) + 1; operation[0] {
	case '#', '%':
		return n + n*(n+len(operation))/16 // every part of the value is tried; that costs less than to write it
	case '/':
		from, to, _ := strings.Cut(strings.TrimLeft(operation[1:], "/#%"), "/")
		return n + n/max(1, len(from))*len(to)
	default:
		return n
	}
}

// operate does what an expression asks to do with a value, as a shell does.
func operate(value, operation string) (string, bool) {
	if operation == "" {
		return value, true
	}
	first, rest := "", value
	if r := []rune(value); len(r) > 0 {
		first, rest = string(r[0]), string(r[1:])
	}
	switch operation {
	case "^":
		return strings.ToUpper(first) + rest, true
	case "^^":
		return strings.ToUpper(value), true
	case ",":
		return strings.ToLower(first) + rest, true
	case ",,":
		return strings.ToLower(value), true
	}
	switch operation[0] {
	case ':':
		return substring(value, operation[1:])
	case '#', '%':
		return trimPattern(value, operation), true
	case '/':
		return replacePattern(value, operation[1:])
	}
	return "", false
}

// substring reads offset and offset:length.
func substring(value, bounds string) (string, bool) {
	r := []rune(value)
	from, count, limited := strings.Cut(bounds, ":")
	start, err := strconv.Atoi(strings.TrimSpace(from))
	if err != nil {
		return "", false
	}
	if start < 0 {
		start = max(0, len(r)+start)
	}
	r = r[min(start, len(r)):]
	if limited {
		n, err := strconv.Atoi(strings.TrimSpace(count))
		if err != nil || n < 0 {
			return "", false
		}
		r = r[:min(n, len(r))]
	}
	return string(r), true
}

// trimPattern takes the shortest (# and %) or longest (## and %%) match of a pattern off the beginning or the end.
func trimPattern(value, operation string) string {
	side, pattern := operation[0], operation[1:]
	pattern, longest := strings.CutPrefix(pattern, string(side))
	var cuts []int // between characters
	for at := range value {
		cuts = append(cuts, at)
	}
	cuts = append(cuts, len(value))
	if longest == (side == '#') {
		slices.Reverse(cuts)
	}
	for _, at := range cuts {
		part, rest := value[:at], value[at:]
		if side == '%' {
			part, rest = rest, part
		}
		if ok, err := path.Match(pattern, part); err == nil && ok {
			return rest
		}
	}
	return value
}

// replacePattern replaces the first match of a text; //: all, /#: at the beginning, /%: at the end.
func replacePattern(value, operation string) (string, bool) {
	mode := byte(0)
	if operation != "" && strings.IndexByte("/#%", operation[0]) >= 0 {
		mode, operation = operation[0], operation[1:]
	}
	from, to, _ := strings.Cut(operation, "/")
	if from == "" {
		return "", false
	}
	switch mode {
	case '/':
		return strings.ReplaceAll(value, from, to), true
	case '#':
		if rest, ok := strings.CutPrefix(value, from); ok {
			return to + rest, true
		}
		return value, true
	case '%':
		if rest, ok := strings.CutSuffix(value, from); ok {
			return rest + to, true
		}
		return value, true
	}
	return strings.Replace(value, from, to, 1), true
}
