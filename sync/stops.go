package sync

import (
	"errors"
	"slices"
	"time"

	"github.com/trueup/trueup/source"
)

// stops remembers that renders of some commits had to be stopped, each at the cost of many others: they are tried again
// ever later, as the machine may have been busy.
type stops struct {
	commits []string
	err     error
	until   time.Time
	wait    time.Duration
}

const (
	firstStop = 5 * time.Minute
	longStop  = 6 * time.Hour
)

// hold reports whether the commits are not to be rendered yet.
func (s stops) hold(commits []string, now time.Time) bool {
	return len(s.commits) > 0 && slices.Equal(s.commits, commits) && now.Before(s.until)
}

// after returns what to remember of a render that failed.
func (s stops) after(err error, commits []string, now time.Time) stops {
	if !errors.Is(err, source.ErrLimit) {
		return stops{}
	}
	wait := firstStop
	if slices.Equal(s.commits, commits) {
		wait = min(2*s.wait, longStop)
	}
	return stops{commits: commits, err: err, until: now.Add(wait), wait: wait}
}
