package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trueup/trueup/testdata/kubetest"
)

// demo is a run of the built program, with a temporary folder of its own.
type demo struct {
	cmd  *exec.Cmd
	temp string

	mu  sync.Mutex
	buf bytes.Buffer
}

func (d *demo) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.buf.Write(p)
}

func (d *demo) output() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.buf.String()
}

func start(t *testing.T, args ...string) *demo {
	t.Helper()
	program := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the demo: %v\n%s", err, out)
	}
	d := &demo{temp: t.TempDir(), cmd: exec.Command(program, args...)}
	d.cmd.Env = append(os.Environ(), "TMPDIR="+d.temp)
	d.cmd.Stdout, d.cmd.Stderr = d, d
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			d.cmd.Process.Kill()
			d.cmd.Wait()
		}
	})
	return d
}

// finish waits for the end, and checks the exit code and that nothing is left behind.
func (d *demo) finish(t *testing.T, code int) {
	t.Helper()
	timer := time.AfterFunc(5*time.Minute, func() { d.cmd.Process.Kill() })
	defer timer.Stop()
	d.cmd.Wait() //nolint:errcheck // the exit code tells
	if got := d.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	left, err := os.ReadDir(d.temp)
	if err != nil {
		t.Error(err)
	}
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), "trueup-") {
			t.Errorf("%s is left behind", entry.Name())
		}
	}
	if t.Failed() {
		t.Log(d.output())
	}
}

func (d *demo) waitFor(t *testing.T, text string) {
	t.Helper()
	kubetest.Eventually(t, 3*time.Minute, func() error {
		if out := d.output(); !strings.Contains(out, text) {
			return fmt.Errorf("%q is missing in:\n%s", text, out)
		}
		return nil
	})
}

func TestTheStoryHappens(t *testing.T) {
	d := start(t)
	d.finish(t, 0)
	out := d.output()
	for _, want := range []string{
		"✔ the Application is Synced and Healthy: 14 objects",
		"✔ web runs 1.5.0 in every pod",
		`.spec.template.spec.containers[name="web"].image ← kubectl-set`,
		"-        image: registry.example.com/shop/web:debug",
		"+        image: registry.example.com/shop/web:1.5.0",
		"The exit code is 1.",
		"✔ checkout has its replicas back",
		".spec.replicas: changed by kubectl (scale)",
		".spec.replicas ← kube-controller-manager (scale)",
		"✔ replicas was never below 5",
		"automated  2 pruned",
		"base/checkout.yaml:17:",
		"✔ the Service is there again",
		"✔ web runs 1.7.0 in every pod",
		"✔ That was the story",
		"What to try next",
	} {
		if !strings.Contains(oneLine(out), oneLine(want)) {
			t.Errorf("%q is missing", want)
		}
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
			t.Errorf("%d columns, want at most %d: %s", n, width, line)
		}
		if strings.Contains(line, "\x1b") {
			t.Errorf("a colour, though this is no terminal: %q", line)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// oneLine undoes the wrapping of long lines.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestCtrlCClearsTheStage(t *testing.T) {
	d := start(t)
	d.waitFor(t, "kubectl apply -f ../application.yaml")
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	d.finish(t, 130)
}

// Whoever ends what was to stay up has seen nothing go wrong, and make says nothing either.
func TestCtrlCEndsMakeWithoutAnError(t *testing.T) {
	repo := t.TempDir()
	manifest := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\n")
	if err := os.WriteFile(filepath.Join(repo, "greeting.yaml"), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "-m", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	d := &demo{temp: t.TempDir(), cmd: exec.Command("make", "-C", "../..", "demo", "REPO="+repo)}
	d.cmd.Env = append(os.Environ(), "TMPDIR="+d.temp)
	d.cmd.Stdout, d.cmd.Stderr = d, d
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all := -d.cmd.Process.Pid
	t.Cleanup(func() { syscall.Kill(all, syscall.SIGTERM) }) //nolint:errcheck // it has ended, or else it is to
	d.waitFor(t, "Staying up until Ctrl-C")
	if err := syscall.Kill(all, syscall.SIGINT); err != nil { // as a terminal does it
		t.Fatal(err)
	}
	d.finish(t, -1) // make itself dies of the signal
	if out := d.output(); strings.Contains(out, "***") {
		t.Errorf("make says that something went wrong:\n%s", out)
	}
}

// A step that does not happen ends the story with its name, and does not let the next one begin.
func TestFailingStepIsNamed(t *testing.T) {
	s := &stage{screen: screen{out: t.Output()}, patience: 50 * time.Millisecond}
	s.work, s.dir = t.TempDir(), t.TempDir()
	never := func(context.Context, *stage) (string, error) { return "", errors.New("it is raining") }
	nothing := func(context.Context, *stage) error { return nil }
	err := s.tell(t.Context(), []step{
		{title: "The sun shines", do: nothing, see: []sight{{"the sky is blue", never}}},
		{title: "Flowers grow", do: func(context.Context, *stage) error { t.Error("the story went on"); return nil }},
	})
	for _, want := range []string{`step 1, "The sun shines"`, "the sky is blue", "it is raining"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestWrongCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"--dir x":      "--dir says something only together with --repo",
		"shop":         `unexpected "shop"`,
		"--no-such-it": "flag provided but not defined",
	} {
		var errOut bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), os.Stdout, &errOut); code != 2 || !strings.Contains(errOut.String(), want) {
			t.Errorf("demo %s: exit code %d and %q, want 2 and %q", args, code, &errOut, want)
		}
	}
}
