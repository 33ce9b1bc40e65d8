package kubetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// launcher is the process that owns a cluster. It speaks JSON lines: see control.go in testdata/cluster.
type launcher struct {
	cmd    *exec.Cmd
	events *json.Decoder

	mu    sync.Mutex // held from a command to its answer
	stdin io.WriteCloser
}

// command names the component that is to be stopped, killed or started.
type command struct {
	Stop  string `json:"stop,omitempty"`
	Kill  string `json:"kill,omitempty"`
	Start string `json:"start,omitempty"`
}

type readyEvent struct {
	Kubeconfig string `json:"kubeconfig"`
	Kubectl    string `json:"kubectl"`
	AuditLog   string `json:"auditLog"`
}

type event struct {
	Ready *readyEvent `json:"ready"`
	Done  *command    `json:"done"`
	Error string      `json:"error"`
	Died  string      `json:"died"`
}

// launch starts the launcher in dir and waits until its cluster is up.
func launch(ctx context.Context, dir string, opts Options) (*launcher, *readyEvent, error) {
	cmd := exec.CommandContext(ctx, "go", "run", ".", "--stdin", "--nodes", strconv.Itoa(opts.Nodes))
	cmd.Dir = dir
	said := &tail{}
	// Through a pipe of this process, for go test waits for whoever holds its own standard error.
	cmd.Stderr = io.MultiWriter(said, opts.Log)
	// Ctrl-C is for this process to handle; closing standard input ends the cluster.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Cancel = stdin.Close
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	l := &launcher{cmd: cmd, events: json.NewDecoder(stdout), stdin: stdin}
	first, err := l.next()
	if err == nil && first.Ready == nil {
		err = errors.New("the launcher's first word is not that the cluster is ready")
	}
	if err != nil {
		l.stop()
		return nil, nil, fmt.Errorf("%w\n%s", err, said)
	}
	return l, first.Ready, nil
}

// next returns the launcher's next word; an end without one is an error.
func (l *launcher) next() (event, error) {
	var e event
	err := l.events.Decode(&e)
	switch {
	case errors.Is(err, io.EOF):
		return e, errors.New("the launcher has ended")
	case err != nil:
		return e, fmt.Errorf("reading the launcher's answer: %w", err)
	case e.Died != "":
		return e, errors.New(e.Died)
	case e.Error != "":
		return e, errors.New(e.Error)
	}
	return e, nil
}

func (l *launcher) command(cmd command) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := json.NewEncoder(l.stdin).Encode(cmd); err != nil {
		return fmt.Errorf("commanding the launcher: %w", err)
	}
	_, err := l.next()
	return err
}

// stop ends the cluster and waits for its end.
func (l *launcher) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stdin.Close()
	l.cmd.Wait() // its exit status says nothing that its words have not said
}

// tail keeps the last of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const limit = 8 << 10
	t.data = append(t.data, p...)
	t.data = t.data[max(0, len(t.data)-limit):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}
