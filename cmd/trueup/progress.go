package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// progress shows how an Application gets on: on a terminal a few lines in place of those before, elsewhere one line for
// each change.
type progress struct {
	out      io.Writer
	terminal bool
	width    int // of the terminal; 0 is unknown
	last     string
	lines    int // that stand on the terminal
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, terminal: isTerminal(out)}
	if f, ok := out.(*os.File); ok && p.terminal {
		p.width, _, _ = term.GetSize(int(f.Fd())) // 0 where it cannot be told
	}
	return p
}

// show shows one Application: head in words, then what is waited for.
func (p *progress) show(app *v1alpha1.Application, head string, waiting bool) {
	text := fmt.Sprintf("%s/%s: %s", app.Namespace, app.Name, head)
	var list []string
	if waiting {
		text += appliedWords(app.Status.Objects)
		list = waitedFor(app)
	}
	if p.terminal {
		p.redraw(append([]string{text}, list...))
		return
	}
	if len(list) > 0 {
		text += "; waiting for " + list[0]
		if more := len(list) - 1 + app.Status.ResourcesOmitted; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
	}
	if text != p.last {
		p.last = text
		fmt.Fprintln(p.out, text)
	}
}

// redraw writes lines over those that stand there.
func (p *progress) redraw(lines []string) {
	const shown = 8
	if more := len(lines) - shown; more > 0 {
		lines = append(lines[:shown:shown], fmt.Sprintf("and %d more", more))
	}
	for i, line := range lines { // one that wraps would take two lines
		if runes := []rune(line); p.width > 3 && len(runes) > p.width-3 {
			lines[i] = string(runes[:p.width-4]) + "…"
		}
	}
	text := strings.Join(lines, "\n  ")
	if text == p.last {
		return
	}
	p.last = text
	if p.lines > 0 {
		fmt.Fprintf(p.out, "\x1b[%dA\r\x1b[J", p.lines)
	}
	p.lines = len(lines)
	fmt.Fprintln(p.out, text)
}

// appliedWords says how many objects are applied and healthy, once that is known.
func appliedWords(n v1alpha1.ObjectCounts) string {
	if n.Total == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of %s applied, %d healthy", n.Synced, words.Count(n.Total, "object"), n.Healthy)
}

// waitedFor has one line for each object that is not Synced and Healthy.
func waitedFor(app *v1alpha1.Application) []string {
	var list []string
	for _, r := range app.Status.Resources {
		words := cmp.Or(r.Health, string(health.Unknown))
		if r.Sync != v1alpha1.Synced {
			words = string(r.Sync)
		}
		list = append(list, strings.Join(nonEmpty(objectName(r.ObjectReference), words, reasonWords(r)), ": "))
	}
	return list
}
