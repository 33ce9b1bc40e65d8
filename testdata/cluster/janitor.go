package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// janitorCommand is the first argument that turns this program into the janitor.
const janitorCommand = "__janitor"

// janitor is a second process that cleans up when the launcher is gone, however it went: it reads the
// launcher's process ids from a pipe, and when the pipe closes it kills those that are left and removes
// the cluster's folder. Unlike Linux's signal for the death of a parent, it works on every Unix and also
// removes what is on disk, keys and tokens among it.
type janitor struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	pipe io.WriteCloser
}

func startJanitor(dir string) (*janitor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.Command(self, janitorCommand, dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // outlives the terminal and its Ctrl-C
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the janitor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the janitor: %w", err)
	}
	return &janitor{cmd: cmd, pipe: pipe}, nil
}

// watch puts a process into the janitor's care.
func (j *janitor) watch(pid int) { j.tell(pid) }

// unwatch takes an ended process out of it, before the system gives its id to another.
func (j *janitor) unwatch(pid int) { j.tell(-pid) }

func (j *janitor) tell(pid int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintln(j.pipe, pid) // a janitor that is gone has no use for it
}

// dismiss makes the janitor clean up now, and waits until it has.
func (j *janitor) dismiss() {
	j.mu.Lock()
	j.pipe.Close()
	j.mu.Unlock()
	j.cmd.Wait()
}

// runJanitor is the janitor's main function.
func runJanitor(pipe io.Reader, dir string) {
	left := map[int]bool{}
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		pid, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		switch {
		case err != nil:
		case pid > 0:
			left[pid] = true
		default:
			delete(left, -pid)
		}
	}
	for pid := range left {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	// A dying process may still write into the folder while it is being emptied.
	for range 100 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(pollInterval)
	}
}
