package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stopTimeout bounds how long a component may take to stop by itself before it is killed. The API server
// stops serving at once, but can linger for a minute after that.
const stopTimeout = 5 * time.Second

// component is one program of the control plane. It can be stopped and started again with the same
// arguments. It is not safe for concurrent use; cluster serializes what is done to it.
type component struct {
	name    string
	program string
	args    []string
	log     string // path of the file that takes both outputs, through all restarts
	home    string // HOME, so that no configuration of the user's is read
	janitor *janitor
	stopped bool // on purpose

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	err    error         // how it ended; read only after exited is closed
}

// start runs the program. It returns at once; readiness is for the caller to find out.
func (c *component) start() error {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", c.name, err)
	}
	defer log.Close()
	cmd := exec.Command(c.program, c.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = c.home
	cmd.Env = []string{"HOME=" + c.home, "TMPDIR=" + c.home, "PATH=" + os.Getenv("PATH"), "KWOK_WORKDIR=" + filepath.Join(c.home, ".kwok")}
	// A group of its own keeps Ctrl-C away from it: the launcher decides when it ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", c.name, err)
	}
	c.janitor.watch(cmd.Process.Pid)
	exited := make(chan struct{})
	c.cmd, c.exited, c.err = cmd, exited, nil
	go func() {
		c.err = cmd.Wait()
		c.janitor.unwatch(cmd.Process.Pid)
		close(exited)
	}()
	return nil
}

func (c *component) running() bool {
	if c.cmd == nil {
		return false
	}
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// stop ends the process and waits for its end: with SIGTERM, and SIGKILL after stopTimeout.
func (c *component) stop() error {
	if err := c.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.exited:
		return nil
	case <-time.After(stopTimeout):
		return c.kill()
	}
}

// kill ends the process with SIGKILL and waits for its end.
func (c *component) kill() error {
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-c.exited
	return nil
}

func (c *component) signal(sig syscall.Signal) error {
	if !c.running() {
		return fmt.Errorf("stopping %s: it is not running", c.name)
	}
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", c.name, err)
	}
	return nil
}

// failure says how an ended component ended, and shows the end of its log.
func (c *component) failure() error {
	how := "exit status 0"
	if c.err != nil {
		how = c.err.Error()
	}
	return fmt.Errorf("%s ended: %s\n%s", c.name, how, c.logTail())
}

// logTail returns the last lines of the log, indented, under a line that says what they are.
func (c *component) logTail() string {
	const lines, limit = 20, 16 << 10
	data, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	if len(data) > limit {
		data = data[len(data)-limit:]
	}
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return "Its log is empty."
	}
	all := strings.Split(string(data), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "The end of its log:\n  " + strings.Join(all, "\n  ")
}
