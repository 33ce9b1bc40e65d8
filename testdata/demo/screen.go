package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// width is how many columns the demo keeps to.
const width = 100

// screen writes for people; in colours on a terminal only.
type screen struct {
	out   io.Writer
	color bool
}

func newScreen(f *os.File) screen {
	return screen{f, term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// ANSI attributes.
const (
	bold  = "1"
	dim   = "2"
	green = "32"
	cyan  = "36"
)

func (s screen) paint(attribute, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + attribute + "m" + text + "\x1b[0m"
}

func (s screen) title(text string) {
	rule := strings.Repeat("─", max(0, width-4-utf8.RuneCountInString(text)))
	fmt.Fprintf(s.out, "\n%s\n", s.paint(bold, "── "+text+" "+rule))
}

func (s screen) say(text string) { fmt.Fprintln(s.out, strings.TrimRight(text, "\n")) }

// command writes a command line, continued on the next where it is long.
func (s screen) command(text string) {
	fmt.Fprintf(s.out, "\n%s\n", s.paint(cyan, strings.Join(wrap("$ "+text, width-2, 4), " \\\n    ")))
}

func (s screen) seen(what string, after time.Duration) {
	fmt.Fprintf(s.out, "%s %s %s\n", s.paint(green, "✔"), what, s.paint(dim, fmt.Sprintf("(%.1f s)", after.Seconds())))
}

// words in the output of commands that are worth a colour.
var words = regexp.MustCompile(`\b(Synced|Healthy|Succeeded|OutOfSync|Degraded|Failed|Enforce|Yield|Hold)\b|^[+-].*`)

// output writes what a command printed: indented, and long lines wrapped. Of the lines it writes those that match the
// regular expression only, if there is one.
func (s screen) output(text, only string) {
	selected := regexp.MustCompile(only)
	left := false
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if !selected.MatchString(line) {
			left = true
			continue
		}
		for i, part := range wrap(line, width-2, 2) {
			part = words.ReplaceAllStringFunc(part, func(word string) string { return s.paint(wordColor(word), word) })
			fmt.Fprintln(s.out, strings.TrimRight("  "+strings.Repeat("  ", min(i, 1))+part, " "))
		}
	}
	if left {
		fmt.Fprintln(s.out, s.paint(dim, "  …"))
	}
}

func wordColor(word string) string {
	switch {
	case word == "OutOfSync" || word == "Enforce" || word == "Yield" || word == "Hold":
		return "33"
	case word == "Degraded" || word == "Failed" || word[0] == '-':
		return "31"
	}
	return green
}

// wrap breaks a line at spaces, or within a word that is too long. All parts but the first are shorter by hang.
func wrap(line string, width, hang int) []string {
	var parts []string
	for rest := []rune(line); ; width, hang = width-hang, 0 {
		if len(rest) <= width {
			return append(parts, string(rest))
		}
		at := width
		for i := width; i > width/2; i-- {
			if rest[i] == ' ' {
				at = i
				break
			}
		}
		parts = append(parts, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
}
