package source

import (
	"fmt"
	"regexp"
	"strings"
)

// A glob is a pattern as Argo CD's directory.include and directory.exclude have it: * and ? match any character, slashes
// too; [a-z] and [!a-z] one of a set; {a,b} either; a backslash takes the next character as it is.
type glob struct{ re *regexp.Regexp }

func newGlob(pattern string) (glob, error) {
	if pattern == "" {
		return glob{}, nil
	}
	var re strings.Builder
	braces := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			re.WriteString(".*")
		case '?':
			re.WriteString(".")
		case '{':
			braces++
			re.WriteString("(?:")
		case '}':
			if braces--; braces < 0 {
				return glob{}, fmt.Errorf("%q: %w", pattern, errGlob)
			}
			re.WriteString(")")
		case ',':
			if braces > 0 {
				re.WriteString("|")
			} else {
				re.WriteString(",")
			}
		case '[':
			end := strings.IndexByte(pattern[i:], ']')
			if end < 2 {
				return glob{}, fmt.Errorf("%q: %w", pattern, errGlob)
			}
			re.WriteString(class(pattern[i+1 : i+end]))
			i += end
		case '\\':
			if i++; i == len(pattern) {
				return glob{}, fmt.Errorf("%q ends with a backslash", pattern)
			}
			re.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		default:
			re.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	if braces != 0 {
		return glob{}, fmt.Errorf("%q: %w", pattern, errGlob)
	}
	compiled, err := regexp.Compile(`(?s)\A(?:` + re.String() + `)\z`)
	if err != nil {
		return glob{}, fmt.Errorf("%q is no pattern", pattern)
	}
	return glob{compiled}, nil
}

func class(set string) string {
	negated := ""
	if set[0] == '!' || set[0] == '^' {
		negated, set = "^", set[1:]
	}
	return "[" + negated + strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`).Replace(set) + "]"
}

func (g glob) set() bool { return g.re != nil }

func (g glob) match(name string) bool { return g.re.MatchString(name) }
