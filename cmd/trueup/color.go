package main

import (
	"io"
	"os"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// style is an ANSI attribute; empty is plain.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// palette colours text, or leaves it as it is.
type palette bool

// palette returns the colours for w, as --color, NO_COLOR and the kind of w say.
func (c *cli) palette(w io.Writer) palette {
	switch c.color {
	case "always":
		return true
	case "never":
		return false
	}
	return palette(isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

func (p palette) paint(s style, text string) string {
	if !p || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

func syncStyle(code v1alpha1.SyncCode) style {
	switch code {
	case v1alpha1.Synced:
		return green
	case v1alpha1.OutOfSync:
		return yellow
	}
	return dim
}

func healthStyle(code string) style {
	switch health.Code(code) {
	case health.Healthy:
		return green
	case health.Progressing, health.Suspended:
		return cyan
	case health.Missing:
		return yellow
	case health.Degraded:
		return red
	}
	return dim
}
