package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	gosync "sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// step is one part of the story.
type step struct {
	title string
	tell  string
	do    func(context.Context, *stage) error
	see   []sight
	show  []command
}

// sight is something that must come true.
type sight struct {
	what string
	look look
}

// command is run and shown. only, a regular expression, selects lines of its output; "" shows all.
type command struct{ line, only string }

// tell plays the steps. The error of one that does not happen names it.
func (s *stage) tell(ctx context.Context, steps []step) error {
	started := time.Now()
	for i, step := range steps {
		s.title(fmt.Sprintf("%d/%d  %s", i+1, len(steps), step.title))
		s.say(step.tell)
		if err := s.play(ctx, step); err != nil {
			return fmt.Errorf("step %d, %q, did not happen: %w", i+1, step.title, err)
		}
	}
	s.say("")
	s.seen("That was the story", time.Since(started))
	return nil
}

func (s *stage) play(ctx context.Context, step step) error {
	if err := step.do(ctx, s); err != nil {
		return err
	}
	started := time.Now()
	s.say("")
	for _, sight := range step.see {
		detail, err := s.until(ctx, sight.look)
		if err != nil {
			status, _ := s.sh(ctx, "trueup status shop") //nolint:errcheck // it only tells more about the error that there is
			return fmt.Errorf("waiting for this: %s: %w\n\n%s\nThe end of the agent's log:\n%s", sight.what, err, status, s.agentLog(10))
		}
		s.seen(sight.what+detail, time.Since(started))
	}
	for _, c := range step.show {
		if err := s.show(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// until looks until there is no error, the agent has ended, or patience has.
func (s *stage) until(ctx context.Context, look look) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		detail, err := look(ctx, s)
		if err == nil {
			return detail, nil
		}
		if ctx.Err() == nil || last == nil { // later ones say no more than that the time is over
			last = err
		}
		if err := s.checkAgent(); err != nil {
			return "", err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", last
		}
	}
}

// edit replaces a text in a file of the repository; without any text it removes the file.
type edit struct{ path, old, new string }

// commit makes a commit in the clone, pushes and shows it.
func (s *stage) commit(ctx context.Context, message string, edits ...edit) error {
	for _, e := range edits {
		name := s.path("shop", e.path)
		if e.old == "" {
			if err := os.Remove(name); err != nil {
				return err
			}
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.Count(string(data), e.old) != 1 {
			return fmt.Errorf("editing %s: %q is not there once", e.path, e.old)
		}
		if err := os.WriteFile(name, []byte(strings.Replace(string(data), e.old, e.new, 1)), 0o644); err != nil {
			return err
		}
	}
	line := "git commit --quiet -am '" + message + "' && git push --quiet"
	s.command(line)
	out, err := s.sh(ctx, line+" && git show --format=%h --unified=0 --no-renames")
	if err == nil {
		s.output(changedLines(out), "")
	}
	return err
}

// changedLines makes a diff short: the commit, and of each file its name and what changed.
func changedLines(diff string) string {
	lines := strings.Split(diff, "\n")
	short := []string{"commit " + lines[0]}
	for _, line := range lines[1:] {
		name, isFile := strings.CutPrefix(line, "diff --git a/")
		switch {
		case isFile:
			short = append(short, strings.Fields(name)[0])
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		case strings.HasPrefix(line, "deleted file"):
			short[len(short)-1] = "deleted " + short[len(short)-1]
		case strings.HasPrefix(line, "-"), strings.HasPrefix(line, "+"):
			if !strings.HasPrefix(short[len(short)-1], "deleted ") {
				short = append(short, line)
			}
		}
	}
	return strings.Join(short, "\n")
}

func (s *stage) head(ctx context.Context) (string, error) {
	out, err := s.sh(ctx, "git rev-parse HEAD")
	return strings.TrimSpace(out), err
}

func (s *stage) application(ctx context.Context, name string) (*v1alpha1.Application, error) {
	return s.Applications("trueup").Get(ctx, name, metav1.GetOptions{})
}

// film is what a field of a Deployment went through since the filming began.
type film struct {
	mu     gosync.Mutex
	frames []frame
}

type frame struct {
	value string
	at    time.Time
}

// shoot begins to film a field of a Deployment of the shop. The film starts with the value that there is.
func (s *stage) shoot(ctx context.Context, deployment string, field func(*appsv1.Deployment) string) (*film, error) {
	w, err := s.Kube.AppsV1().Deployments("shop").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + deployment})
	if err != nil {
		return nil, err
	}
	f := &film{}
	go func() {
		for event := range w.ResultChan() { // until ctx ends
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				f.add(field(d))
			}
		}
	}()
	_, err = s.until(ctx, func(context.Context, *stage) (string, error) {
		if len(f.seen()) == 0 {
			return "", errors.New("the watch has not begun")
		}
		return "", nil
	})
	return f, err
}

func (f *film) add(value string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.frames); n == 0 || f.frames[n-1].value != value {
		f.frames = append(f.frames, frame{value, time.Now()})
	}
}

func (f *film) seen() []frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frames[:len(f.frames):len(f.frames)]
}

// healed returns after what time the first change was undone; it is an error as long as it was not.
func (f *film) healed() (string, error) {
	frames := f.seen()
	if len(frames) < 3 || frames[2].value != frames[0].value {
		return "", fmt.Errorf("seen so far: %v", frames)
	}
	return fmt.Sprintf(" %d ms after the edit", frames[2].at.Sub(frames[1].at).Milliseconds()), nil
}
