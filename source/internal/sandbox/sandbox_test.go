package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

var sink [][]byte

var _ = func() (none struct{}) {
	Register("echo", func(request []byte, _ Files) ([]byte, error) { return request, nil })
	Register("cat", func(request []byte, files Files) ([]byte, error) {
		var out bytes.Buffer
		names, err := files.ReadDir(string(request))
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			content, err := files.ReadFile(n)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				fmt.Fprintf(&out, "%s is missing\n", n)
			case err != nil:
				fmt.Fprintf(&out, "%v\n", err)
			default:
				fmt.Fprintf(&out, "%s=%s\n", n, content)
			}
		}
		return out.Bytes(), nil
	})
	Register("print", func([]byte, Files) ([]byte, error) {
		fmt.Println("this is no message")
		return []byte("done"), nil
	})
	Register("fail", func([]byte, Files) ([]byte, error) { return nil, errors.New("the third line is wrong") })
	Register("fail at length", func([]byte, Files) ([]byte, error) { return nil, errors.New(strings.Repeat("é", 2<<20)) })
	Register("ask at length", func(_ []byte, files Files) ([]byte, error) {
		At(files, strings.Repeat("x", 2<<20))
		_, err := files.ReadFile(strings.Repeat("x", 2<<20))
		return nil, err
	})
	Register("panic", func([]byte, Files) ([]byte, error) { panic("at the disco") })
	Register("die", func([]byte, Files) ([]byte, error) {
		go func() { panic("a goroutine with s3cret") }()
		select {}
	})
	Register("loop", func(_ []byte, files Files) ([]byte, error) {
		At(files, "templates/loop.yaml")
		for i := 0; ; i++ {
			if i < 0 {
				return nil, nil
			}
		}
	})
	Register("allocate", func(_ []byte, files Files) ([]byte, error) {
		At(files, "templates/repeat.yaml")
		for {
			sink = append(sink, bytes.Repeat([]byte("x"), 1<<20))
		}
	})
	Register("allocate at once", func([]byte, Files) ([]byte, error) {
		sink = append(sink, bytes.Repeat([]byte("x"), 20<<30))
		return nil, nil
	})
	Register("recurse", func([]byte, Files) ([]byte, error) {
		var f func(int) int
		f = func(i int) int { return f(i+1) + 1 }
		return []byte{byte(f(0))}, nil
	})
	Register("large", func([]byte, Files) ([]byte, error) { return make([]byte, 2<<20), nil })
	Register("look", func([]byte, Files) ([]byte, error) { return look(), nil })
	return
}()

// look says what of the outside a worker can reach.
func look() []byte {
	var out bytes.Buffer
	if _, err := os.ReadFile("/etc/passwd"); err == nil {
		fmt.Fprintln(&out, "reads files")
	}
	if err := os.WriteFile(os.TempDir()+"/sandbox-was-here", []byte("x"), 0o600); err == nil {
		fmt.Fprintln(&out, "writes files")
	}
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close()
		fmt.Fprintln(&out, "listens")
	}
	for _, e := range os.Environ() {
		if strings.Contains(e, "SANDBOX_SECRET") {
			fmt.Fprintln(&out, "sees the environment")
		}
	}
	return out.Bytes()
}

type mapFiles map[string]string

func (m mapFiles) ReadFile(name string) ([]byte, error) {
	if name == "link" {
		return nil, errors.New("link is a symbolic link that leaves the repository")
	}
	content, ok := m[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

func (m mapFiles) ReadDir(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	if name != "chart" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []string{"a", "link", "none", "z"}, nil
}

func run(t *testing.T, name, request string, limits Limits) (string, error) {
	t.Helper()
	answer, err := Run(t.Context(), name, []byte(request), mapFiles{"a": "1", "z": strings.Repeat("z", 100_000)}, limits)
	return string(answer), err
}

func TestWorkerAnswers(t *testing.T) {
	large := strings.Repeat("0123456789", 1_000_000)
	for sentence, c := range map[string]struct{ worker, request, want string }{
		"a request comes back":                {"echo", "hello", "hello"},
		"an empty request too":                {"echo", "", ""},
		"a large request too":                 {"echo", large, large},
		"files are the parent's":              {"cat", "chart", "a=1\nlink is a symbolic link that leaves the repository\nnone is missing\nz=" + strings.Repeat("z", 100_000) + "\n"},
		"an empty folder has no names":        {"cat", "", ""},
		"what a library prints is no message": {"print", "", "done"},
	} {
		got, err := run(t, c.worker, c.request, Limits{})
		if err != nil {
			t.Errorf("%s: %v", sentence, err)
		} else if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: -want +got:\n%.500s", sentence, d)
		}
	}
}

func TestWorkerIsStopped(t *testing.T) {
	for sentence, c := range map[string]struct {
		worker string
		limits Limits
		want   string
	}{
		"one that loops":             {"loop", Limits{Time: 300 * time.Millisecond}, "the renderer was stopped at templates/loop.yaml: it did not end within 300ms"},
		"one that allocates":         {"allocate", Limits{Memory: 64 << 20}, "the renderer was stopped at templates/repeat.yaml: it took more than 64 MiB of memory"},
		"one that allocates at once": {"allocate at once", Limits{}, "the renderer was stopped: it took more than 256 MiB of memory"},
		"one that recurses":          {"recurse", Limits{}, "the renderer was stopped: it recurses too deeply"},
		"one that says too much":     {"large", Limits{Output: 1 << 20}, "the renderer was stopped: its output is larger than 1 MiB"},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := run(t, c.worker, "", c.limits)
			if !errors.Is(err, ErrLimit) || err.Error() != c.want {
				t.Errorf("want %q, got %q", c.want, err)
			}
		})
	}
}

func TestWorkerFails(t *testing.T) {
	for worker, want := range map[string]string{
		"fail":  "the third line is wrong",
		"panic": "the renderer panicked on its content: at the disco",
		"die":   "the renderer died: exit status 2 ",
		// What an error has in it is kept for long, and is written into logs.
		"fail at length": strings.Repeat("é", maxText/4-2) + " … " + strings.Repeat("é", maxText/4-2),
		"ask at length":  "the name of a file is too long",
		"none":           `starting the renderer: there is none called "none"`,
	} {
		_, err := run(t, worker, "", Limits{})
		if err == nil || err.Error() != want || errors.Is(err, ErrLimit) {
			t.Errorf("%s: want %q, got %q", worker, want, err)
		}
	}
	if _, err := run(t, "cat", "elsewhere", Limits{}); err == nil || err.Error() != "open elsewhere: file does not exist" {
		t.Errorf("the parent's error should come back, got %v", err)
	}
}

func TestContextEndsWorker(t *testing.T) {
	cause := errors.New("the Application was deleted")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
	start := time.Now()
	if _, err := Run(ctx, "loop", nil, mapFiles{}, Limits{}); !errors.Is(err, cause) {
		t.Errorf("want the cause, got %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestWorkersTakeTurns has some loop while others wait, and one that gives up waiting.
func TestWorkersTakeTurns(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg gosync.WaitGroup
	for range Children {
		wg.Go(func() { _, _ = Run(ctx, "loop", nil, mapFiles{}, Limits{}) })
	}
	for len(slots) < Children {
		runtime.Gosched()
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Run(short, "echo", nil, mapFiles{}, Limits{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting should end with the context, got %v", err)
	}
	stop()
	wg.Wait()
	if got, err := run(t, "echo", "my turn", Limits{}); got != "my turn" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestWorkerReachesNothing(t *testing.T) {
	t.Setenv("SANDBOX_SECRET", "x")
	got, err := run(t, "look", "", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		if strings.Contains(got, "environment") {
			t.Errorf("a worker %s", got)
		}
		return
	}
	if got != "" {
		t.Errorf("a worker should reach nothing, it %s", got)
	}
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if _, err := Run(b.Context(), "echo", []byte("x"), mapFiles{}, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
