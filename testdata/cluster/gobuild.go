package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// goBuild is one program to compile.
type goBuild struct {
	name, pkg, ldflags string
}

// run compiles the program into target. The same Go build cache serves every later build.
func (b goBuild) run(ctx context.Context, out io.Writer, source, target string) error {
	show := newProgress(out, b.name)
	defer show.end()
	show.update("reading its source; modules that are missing are downloaded")
	deps, err := goOutput(ctx, source, "list", "-deps", b.pkg)
	if err != nil {
		return fmt.Errorf("building %s: %w", b.name, err)
	}
	total := strings.Count(deps, "\n")
	cmd := goCommand(ctx, source, "build", "-v", "-ldflags", b.ldflags, "-o", target, b.pkg)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("building %s: %w", b.name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("building %s: %w", b.name, err)
	}
	var said []string
	compiled := 0
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, " ") { // go build -v prints a package's path alone
			said = append(said, line)
			continue
		}
		compiled++
		show.update(fmt.Sprintf("%d of %d packages compiled, now after %s", compiled, total, line))
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("building %s: %w\n  %s", b.name, err, strings.Join(said[max(0, len(said)-20):], "\n  "))
	}
	show.update("done")
	return nil
}

// goOutput runs the go command in dir and returns what it prints.
func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := goCommand(ctx, dir, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return "", fmt.Errorf("running go %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("running go %s: %w", strings.Join(args, " "), errors.Join(ctx.Err(), err))
	}
	return string(out), nil
}

func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	return cmd
}

// progress shows one line at a time: rewritten in place on a terminal, now and then elsewhere.
type progress struct {
	out      io.Writer
	name     string
	terminal bool
	started  time.Time
	lines    chan string
	ended    chan struct{}
}

// quietInterval is how often a line appears where output is not a terminal.
const quietInterval = 15 * time.Second

func newProgress(out io.Writer, name string) *progress {
	p := &progress{out: out, name: name, started: time.Now(), lines: make(chan string), ended: make(chan struct{})}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	go p.run()
	return p
}

func (p *progress) update(line string) { p.lines <- line }

// end shows the last line and waits until it is written.
func (p *progress) end() {
	close(p.lines)
	<-p.ended
}

func (p *progress) run() {
	defer close(p.ended)
	interval := quietInterval
	if p.terminal {
		interval = time.Second / 5
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	last := ""
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.print(last)
				if p.terminal {
					fmt.Fprintln(p.out)
				}
				return
			}
			last = line
		case <-tick.C:
			p.print(last)
		}
	}
}

func (p *progress) print(line string) {
	line = fmt.Sprintf("  %s, %s: %s", p.name, time.Since(p.started).Round(time.Second), line)
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	const width = 100
	fmt.Fprintf(p.out, "\r%-*.*s", width, width, line)
}
