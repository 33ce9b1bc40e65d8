package sync

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// A mask hides texts that came from Secrets, wherever the API server or a library repeats them. nil hides nothing.
type mask struct {
	long  *strings.Replacer
	short *regexp.Regexp // hides whole words only: a value of one digit would else be everywhere
}

const masked = "***"

// shortSecret is the length below which a value is hidden as a word only.
const shortSecret = 4

func newMask(texts []string) *mask {
	var long, short []string
	for _, text := range texts {
		for _, form := range forms(text) {
			if len(form) < shortSecret && strings.Trim(form, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" {
				short = append(short, regexp.QuoteMeta(form))
			} else {
				long = append(long, form)
			}
		}
	}
	if len(long)+len(short) == 0 {
		return nil
	}
	m := &mask{}
	// The longest first: one may be a part of another.
	slices.SortFunc(long, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, text := range slices.Compact(long) {
		pairs = append(pairs, text, masked)
	}
	m.long = strings.NewReplacer(pairs...)
	if len(short) > 0 {
		m.short = regexp.MustCompile(`\b(?:` + strings.Join(short, "|") + `)\b`)
	}
	return m
}

// forms are the ways in which a text is written in messages: as it is, quoted by Go, in JSON, and as a Secret has it.
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
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

func (m *mask) text(s string) string {
	if m == nil || s == "" {
		return s
	}
	s = m.long.Replace(s)
	if m.short != nil {
		s = m.short.ReplaceAllString(s, masked)
	}
	return s
}

// error returns err with a message in which nothing is that is to be hidden. What it is made of is still there to ask.
func (m *mask) error(err error) error {
	if m == nil || err == nil {
		return err
	}
	text := err.Error()
	if hidden := m.text(text); hidden != text {
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

// status hides what the messages of a status repeat.
func (m *mask) status(s *v1alpha1.ApplicationStatus) {
	if m == nil {
		return
	}
	hide := func(texts ...*string) {
		for _, t := range texts {
			*t = m.text(*t)
		}
	}
	hide(&s.Health.Message)
	for i := range s.Conditions {
		hide(&s.Conditions[i].Message)
	}
	for i := range s.Resources {
		hide(&s.Resources[i].Message)
	}
	for i := range s.Drift {
		hide(&s.Drift[i].Reason)
	}
	for i := range s.History {
		hide(&s.History[i].Message)
	}
	if s.OperationState != nil {
		hide(&s.OperationState.Message)
	}
	if s.LastRequest != nil {
		hide(&s.LastRequest.Message)
	}
}
