package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// launcherVariable makes the test binary be the launcher.
const launcherVariable = "TRUEUP_CLUSTER_TEST_LAUNCHER"

func TestMain(m *testing.M) {
	if os.Getenv(launcherVariable) != "" {
		main()
		os.Exit(0)
	}
	if _, err := findBinaries(context.Background(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// launcher is a launcher in a process of its own, with a temporary folder of its own.
type launcher struct {
	*exec.Cmd
	temp   string       // its TMPDIR
	stderr bytes.Buffer // complete after Wait
	stdin  io.WriteCloser
	events *json.Decoder
	ready  readyEvent
}

// newLauncher prepares a launcher; environment is added to this process's.
func newLauncher(t *testing.T, environment []string, args ...string) *launcher {
	t.Helper()
	l := &launcher{Cmd: exec.Command(os.Args[0], args...), temp: t.TempDir()}
	l.Env = append(append(os.Environ(), launcherVariable+"=1", "TMPDIR="+l.temp), environment...)
	l.Stderr = &l.stderr
	return l
}

// start returns when the cluster of a launcher with --stdin is up.
func (l *launcher) start(t *testing.T) *launcher {
	t.Helper()
	stdin, err := l.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := l.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		l.Wait()
	})
	l.stdin, l.events = stdin, json.NewDecoder(stdout)
	first := l.next(t)
	if first.Ready == nil {
		t.Fatalf("the first event is %+v, want ready", first)
	}
	l.ready = *first.Ready
	return l
}

// startLauncher returns a launcher whose cluster is up.
func startLauncher(t *testing.T, args ...string) *launcher {
	t.Helper()
	return newLauncher(t, nil, append([]string{"--stdin"}, args...)...).start(t)
}

// next returns the launcher's next event.
func (l *launcher) next(t *testing.T) event {
	t.Helper()
	var e event
	if err := l.events.Decode(&e); err != nil {
		l.Wait()
		t.Fatalf("reading the launcher's events: %v\n%s", err, l.stderr.String())
	}
	return e
}

// tell sends a command and returns the answer.
func (l *launcher) tell(t *testing.T, command string) event {
	t.Helper()
	if _, err := fmt.Fprintln(l.stdin, command); err != nil {
		t.Fatal(err)
	}
	return l.next(t)
}

// tryKubectl runs kubectl and returns what it prints.
func (l *launcher) tryKubectl(stdin string, args ...string) (string, error) {
	cmd := exec.Command(l.ready.Kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.ready.Kubeconfig, "HOME="+l.temp)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func (l *launcher) kubectl(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := l.tryKubectl(stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// expectNothingLeft fails the test unless the components end and their folder goes away.
func (l *launcher) expectNothingLeft(t *testing.T) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		for name, pid := range l.ready.Processes {
			if runs(pid) {
				return fmt.Errorf("%s still runs as process %d", name, pid)
			}
		}
		left, err := filepath.Glob(filepath.Join(l.temp, "trueup-cluster-*"))
		if err != nil || len(left) > 0 {
			return fmt.Errorf("%v is still there (%v)", left, err)
		}
		return nil
	})
}

// runs tells whether a process runs. One that has ended and whose parent has not asked for its exit
// status yet does not run, though it can still be signalled.
func runs(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

func eventually(t *testing.T, timeout time.Duration, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return
		}
		if !sleep(ctx, pollInterval) {
			t.Fatalf("after %s: %v", timeout, err)
		}
	}
}
