package main

import (
	"bufio"
	"bytes"
	"context"
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

// run compiles the program into target and shows on out how far it is.
func (b goBuild) run(ctx context.Context, out io.Writer, source, target string) error {
	show := newProgress(out, b.name)
	defer show.end()
	if err := b.compile(ctx, source, target, show.update); err != nil {
		return fmt.Errorf("building %s: %w", b.name, err)
	}
	show.update("done")
	return nil
}

// compile passes a line about every module and package to say. The same Go build cache serves every
// later build, so what an interrupted one has compiled is not lost.
func (b goBuild) compile(ctx context.Context, source, target string, say func(line string)) error {
	say("reading the source")
	downloads := 0
	deps, err := runGo(ctx, source, func(line string) {
		if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
			downloads++
			say(fmt.Sprintf("%d modules downloaded, now %s", downloads, module))
		}
	}, "list", "-deps", b.pkg)
	if err != nil {
		return err
	}
	compiled, total := 0, strings.Count(deps, "\n")
	_, err = runGo(ctx, source, func(line string) {
		if strings.Contains(line, " ") { // go build -v prints a package's path alone
			return
		}
		compiled++
		say(fmt.Sprintf("compiled %d of at most %d packages, now %s", compiled, total, line))
	}, "build", "-v", "-ldflags", b.ldflags, "-o", target, b.pkg)
	return err
}

// runGo runs the go command in dir, passes what it says on standard error to each, line by line, and
// returns what it prints on standard output. An error shows the end of what it said.
func runGo(ctx context.Context, dir string, each func(line string), args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it removes its temporary files
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", fmt.Errorf("running go %s: %w", args[0], err)
	}
	var said []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said = append(said, lines.Text())
		each(lines.Text())
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", fmt.Errorf("running go %s: %w\n  %s", args[0], err, strings.Join(said[max(0, len(said)-20):], "\n  "))
	}
	return stdout.String(), nil
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
