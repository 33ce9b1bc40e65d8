// Package sandbox runs a renderer on what a repository holds in a child process, where an endless loop or allocation
// hurts nobody: Go can stop a process, and no goroutine. The child is this very program, started again; it runs nothing
// but the renderer that it was started for, and reads no file but through its parent. Start reading at Run.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	gosync "sync"
	"time"
)

// A Worker renders a request to an answer, in the child. Both are the caller's to encode. The text of its error reaches
// the caller of Run; one that Files returned keeps only its text, and that it wraps fs.ErrNotExist.
type Worker func(request []byte, files Files) ([]byte, error)

// Files is all that a Worker may read. What the methods return, which names they take, and what they refuse is up to the
// caller of Run. They must not be called concurrently.
type Files interface {
	// ReadFile returns the content of a file. The error wraps fs.ErrNotExist where there is none.
	ReadFile(name string) ([]byte, error)
	// ReadDir returns the names in a folder, those of folders with a slash at their end. The error wraps fs.ErrNotExist
	// where there is none.
	ReadDir(name string) ([]string, error)
}

// tools are what a Worker is given besides the request.
type tools struct {
	Files
	at func(place string)
}

// At says which file a Worker is at work on, so that the error of a Worker that is stopped can name it. It does nothing
// if files did not come from Run.
func At(files Files, place string) {
	if t, ok := files.(tools); ok {
		t.at(place)
	}
}

// Limits bound what one Run may cost. A zero field takes the default.
type Limits struct {
	Time   time.Duration // from the start of the child; 20 seconds by default. The time on a processor is limited to twice that
	Memory int64         // of the child, in bytes, mapped program aside; 256 MiB by default
	Output int64         // bytes of the answer; 64 MiB by default
}

func (l Limits) complete() Limits {
	if l.Time == 0 {
		l.Time = 20 * time.Second
	}
	if l.Memory == 0 {
		l.Memory = 256 << 20
	}
	if l.Output == 0 {
		l.Output = 64 << 20
	}
	return l
}

// cpu is how much time on a processor a child may use: two run its goroutines and collect its garbage. It is the second
// line, for a parent that does not get to stop it.
func (l Limits) cpu() time.Duration { return (2*l.Time + time.Second).Truncate(time.Second) }

// ErrLimit says that a Worker was stopped because it took more than it may. It is wrapped in what says which limit, and
// at which file.
var ErrLimit = errors.New("the renderer was stopped")

// Children is how many children are at work at once: together they must fit into what the agent's container may use.
const Children = 2

var (
	workers = map[string]Worker{}
	slots   = make(chan struct{}, Children)
	hooked  bool // Main was called, so a child would not run what this program does otherwise
)

// Register gives a Worker the name by which Run starts it. It is for variables and init functions of packages, and
// panics if the name is taken.
func Register(name string, w Worker) {
	if _, taken := workers[name]; taken {
		panic("sandbox: two workers are called " + name)
	}
	workers[name] = w
}

// childArgument is the first argument of a child. No verb of the command line is called so.
const childArgument = "__render"

// Main is to be called first by main, and by TestMain in a package whose tests render. In a child it does the child's
// work and does not return.
func Main() {
	hooked = true
	if len(os.Args) == 5 && os.Args[1] == childArgument {
		memory, err := strconv.ParseInt(os.Args[3], 10, 64)
		cpu, err2 := time.ParseDuration(os.Args[4])
		if err != nil || err2 != nil {
			os.Exit(exitProtocol)
		}
		os.Exit(child(os.Args[2], memory, cpu))
	}
}

// Run has the Worker of that name answer the request in a child process, and returns its answer. It blocks until the
// answer is there, a limit is reached or ctx ends, and then the child is gone; before, it waits for its turn, as only a
// few children run at once. files is called from one goroutine at a time.
func Run(ctx context.Context, name string, request []byte, files Files, limits Limits) ([]byte, error) {
	if !hooked {
		return nil, errors.New("starting the renderer: this program does not call sandbox.Main first")
	}
	if _, ok := workers[name]; !ok {
		return nil, fmt.Errorf("starting the renderer: there is none called %q", name)
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	limits = limits.complete()
	timed, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	c, err := start(timed, name, limits)
	if err != nil {
		return nil, fmt.Errorf("starting the renderer: %w", err)
	}
	ended := false
	defer func() {
		if !ended { // a panic of files leaves no child behind
			c.close()
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	}()
	answer, err := c.converse(request, files)
	ended = true
	return c.finish(ctx, timed, answer, err)
}

// A parent is the parent's view of one child.
type parent struct {
	cmd    *exec.Cmd
	conn   conn
	close  func()
	stderr *tail
	limits Limits
	at     string // the file that the child said it is at work on
}

func start(ctx context.Context, name string, limits Limits) (*parent, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, childArgument, name, strconv.FormatInt(limits.Memory, 10), limits.cpu().String())
	cmd.Dir = "/"
	cmd.Env = []string{"TZ=UTC", "GOMAXPROCS=2", "GOTRACEBACK=none"}
	if runtime.GOOS == "windows" {
		cmd.Dir = ""
		cmd.Env = append(cmd.Env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"))
	}
	cmd.WaitDelay = time.Second
	p := &parent{cmd: cmd, stderr: &tail{}, limits: limits}
	cmd.Stderr = p.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.conn, p.close = newConn(out, in), func() { in.Close() }
	return p, cmd.Start()
}

// executable returns the path of this program. On Linux it is the one that runs even where its file has been replaced.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// converse sends the request and serves the child until it has answered.
func (p *parent) converse(request []byte, files Files) ([]byte, error) {
	if err := p.conn.send(opRequest, request); err != nil {
		return nil, err
	}
	for {
		op, payload, err := p.conn.receive(func(o op) int64 { return o.limit(p.limits.Output) })
		if err != nil {
			return nil, err
		}
		switch op {
		case opAnswer:
			return payload, nil
		case opError:
			return nil, workerError(payload)
		case opAt:
			p.at = string(payload)
		case opReadFile:
			content, err := files.ReadFile(string(payload))
			err = p.conn.sendResult(content, err)
			if err != nil {
				return nil, err
			}
		case opReadDir:
			names, err := files.ReadDir(string(payload))
			if err := p.conn.sendResult(joinNames(names), err); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("the renderer sent an unknown message %q", op)
		}
	}
}

// finish ends the child and returns what Run returns.
func (p *parent) finish(ctx, timed context.Context, answer []byte, err error) ([]byte, error) {
	p.close()
	var told workerError
	if err != nil && !errors.As(err, &told) && !errors.Is(err, errOutput) {
		// A child that has died has closed its end first: give it the moment until its exit code is there, and no more.
		timer := time.AfterFunc(200*time.Millisecond, func() { _ = p.cmd.Process.Kill() })
		defer timer.Stop()
	} else {
		_ = p.cmd.Process.Kill() // it has nothing more to say
	}
	waitErr := p.cmd.Wait()
	switch {
	case err == nil || errors.As(err, &told):
		return answer, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case timed.Err() != nil:
		return nil, p.stopped("it did not end within %s", p.limits.Time)
	case errors.Is(err, errOutput):
		return nil, p.stopped("its output is larger than %d MiB", p.limits.Output>>20)
	}
	return nil, p.died(err, waitErr)
}

func (p *parent) stopped(format string, args ...any) error {
	return fmt.Errorf("%w%s: %s", ErrLimit, p.where(), fmt.Sprintf(format, args...))
}

func (p *parent) where() string {
	if p.at == "" {
		return ""
	}
	return " at " + p.at
}

// died says why a child ended without an answer.
func (p *parent) died(err, waitErr error) error {
	var exit *exec.ExitError
	if !errors.As(waitErr, &exit) {
		return fmt.Errorf("talking with the renderer%s: %w", p.where(), err)
	}
	fatal := p.stderr.fatal()
	switch {
	case exit.ExitCode() == exitMemory, fatal == fatalMemory:
		return p.stopped("it took more than %d MiB of memory", p.limits.Memory>>20)
	case exit.ExitCode() == exitOutput:
		return p.stopped("its output is larger than %d MiB", p.limits.Output>>20)
	case fatal == fatalStack:
		return p.stopped("it recurses too deeply")
	case exit.UserTime()+exit.SystemTime() >= p.limits.cpu():
		return p.stopped("it took more than %s on a processor", p.limits.cpu())
	case exit.ExitCode() == -1:
		return p.stopped("it was ended from outside (%s), as the system does where memory is short", exit.ProcessState)
	}
	return fmt.Errorf("the renderer died%s: %s %s", p.where(), exit.ProcessState, fatal)
}

// tail keeps the beginning of what a child writes to its standard error: Go's runtime says there why it died. It is never
// shown, since what a repository holds may be in it.
type tail struct {
	mu   gosync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[:min(len(b), 16<<10-len(t.text))]...)
	return len(b), nil
}
