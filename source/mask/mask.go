// Package mask takes the texts of Secrets out of whatever else is told.
package mask

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Mask hides texts that came from Secrets, wherever the API server or a library repeats them. nil hides nothing. It may
// be used concurrently.
type Mask struct {
	long  *strings.Replacer
	short *regexp.Regexp // hides whole words only: a value of one digit would else be everywhere
	marks *regexp.Regexp // hides what has no letter or digit only where it stands alone: as slashes are in all paths
}

// Hidden is what stands in the place of a text.
const Hidden = "***"

// shortSecret is the length below which a value is hidden as a word only.
const shortSecret = 4

const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

// New returns a mask of the texts; those of less than four letters are hidden as whole words only, and blanks, which tell
// nothing, not at all.
func New(texts []string) *Mask {
	var long, short, marks []string
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		for _, form := range forms(text) {
			switch {
			case len(form) >= shortSecret:
				long = append(long, form)
			case strings.Trim(form, letters) == "":
				short = append(short, regexp.QuoteMeta(form))
			case !strings.ContainsFunc(form, func(r rune) bool { return r > '~' || strings.ContainsRune(letters, r) }):
				marks = append(marks, regexp.QuoteMeta(form))
			default:
				long = append(long, form)
			}
		}
	}
	if len(long)+len(short)+len(marks) == 0 {
		return nil
	}
	m := &Mask{}
	// The longest first: one may be a part of another.
	slices.SortFunc(long, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, text := range slices.Compact(long) {
		pairs = append(pairs, text, Hidden)
	}
	m.long = strings.NewReplacer(pairs...)
	if len(short) > 0 {
		m.short = regexp.MustCompile(`\b(?:` + strings.Join(short, "|") + `)\b`)
	}
	if len(marks) > 0 {
		m.marks = regexp.MustCompile("(^|[\\s\"'`])(?:" + strings.Join(marks, "|") + ")($|[\\s\"'`])")
	}
	return m
}

// forms are the ways in which a text is written in messages: as it is, quoted by Go, in JSON, as a Secret has it, and in
// one line.
func forms(text string) []string {
	if text == "" {
		return nil
	}
	list := []string{text, strings.Trim(strconv.Quote(text), `"`), base64.StdEncoding.EncodeToString([]byte(text))}
	if raw, err := json.Marshal(text); err == nil {
		list = append(list, strings.Trim(string(raw), `"`))
	}
	if trimmed := strings.TrimSpace(text); trimmed != text {
		list = append(list, forms(trimmed)...)
	}
	if line := strings.Join(strings.Fields(text), " "); line != text {
		list = append(list, line)
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// Text returns s without what is hidden.
func (m *Mask) Text(s string) string {
	if m == nil || s == "" {
		return s
	}
	s = m.long.Replace(s)
	if m.short != nil {
		s = m.short.ReplaceAllString(s, Hidden)
	}
	if m.marks != nil {
		// Twice: of two side by side, the first takes what the second begins with.
		s = m.marks.ReplaceAllString(s, "${1}"+Hidden+"${2}")
		s = m.marks.ReplaceAllString(s, "${1}"+Hidden+"${2}")
	}
	return s
}

// Error returns err with a message in which nothing is that is to be hidden. What it is made of is still there to ask.
func (m *Mask) Error(err error) error {
	if m == nil || err == nil {
		return err
	}
	text := err.Error()
	if hidden := m.Text(text); hidden != text {
		return maskedError{err, hidden}
	}
	return err
}

type maskedError struct {
	error
	text string
}

func (e maskedError) Error() string { return e.text }
func (e maskedError) Unwrap() error { return e.error }
