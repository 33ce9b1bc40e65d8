package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trueup/trueup/testdata/gitserver"
)

func TestAServerThatStallsOrCutsOff(t *testing.T) {
	stall := func(suffix string) func(http.Handler) http.Handler {
		return func(git http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if !strings.HasSuffix(req.URL.Path, suffix) {
					git.ServeHTTP(w, req)
					return
				}
				io.Copy(io.Discard, req.Body)
				<-req.Context().Done()
			})
		}
	}
	cut := func(git http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasSuffix(req.URL.Path, "git-upload-pack") {
				w = &cuttingWriter{ResponseWriter: w, left: 3000}
			}
			git.ServeHTTP(w, req)
		})
	}
	for name, tc := range map[string]struct {
		middleware func(http.Handler) http.Handler
		opts       RepositoriesOptions
		want       string
	}{
		"stalls at the references": {stall("info/refs"), RepositoriesOptions{Timeout: 200 * time.Millisecond}, "no answer within 200ms"},
		"stalls at the objects":    {stall("git-upload-pack"), RepositoriesOptions{Timeout: 200 * time.Millisecond}, "no answer within 200ms"},
		"cuts the objects off":     {cut, RepositoriesOptions{}, ""},
		"sends too much":           {nil, RepositoriesOptions{MaxBytes: 3000}, "the server sends more than"},
	} {
		t.Run(name, func(t *testing.T) {
			repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
			noise := make([]byte, 50_000)
			for i, random := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
				noise[i] = byte(random.Uint32())
			}
			repo.Commit(map[string]string{"a.yaml": "1", "noise": string(noise)}, "first")
			repo.Intercept(tc.middleware)
			dir := t.TempDir()
			_, err := NewRepositories(dir, tc.opts).Resolve(t.Context(), repo.URL(), Auth{}, "main", 0)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("Resolve = %v, want %q", err, tc.want)
			}
			repo.Intercept(nil)
			if got := readFile(t, NewRepositories(dir, RepositoriesOptions{}), repo.URL(), Auth{}, "main", "a.yaml"); got != "1" {
				t.Errorf("afterwards a.yaml = %q, want 1", got)
			}
		})
	}
}

func TestAServerThatLies(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	commit := repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	other := repo.CommitTo("other", "other", gitserver.Change{Path: "a.yaml", Content: "2"})
	for name, tc := range map[string]struct {
		path, from, to string
	}{
		"about a branch":           {"info/refs", commit, strings.Repeat("b", 40)},
		"by sending another pack":  {"git-upload-pack", "PACK", "KCAP"},
		"by sending another thing": {"git-upload-pack", "NAK\n", "LIE\n"},
	} {
		t.Run(name, func(t *testing.T) {
			repo.Intercept(func(git http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if !strings.HasSuffix(req.URL.Path, tc.path) {
						git.ServeHTTP(w, req)
						return
					}
					answer := httptest.NewRecorder()
					git.ServeHTTP(answer, req)
					io.WriteString(w, strings.ReplaceAll(answer.Body.String(), tc.from, tc.to))
				})
			})
			dir := t.TempDir()
			r := NewRepositories(dir, RepositoriesOptions{Timeout: 5 * time.Second})
			if rev, err := r.Resolve(t.Context(), repo.URL(), Auth{}, "main", 0); err == nil {
				t.Errorf("Resolve = %v", rev)
			}
			repo.Intercept(nil)
			for revision, want := range map[string]string{"main": "1", other: "2"} {
				if got := readFile(t, r, repo.URL(), Auth{}, revision, "a.yaml"); got != want {
					t.Errorf("once it is honest, a.yaml of %s = %q, want %q", revision, got, want)
				}
			}
		})
	}
}

func TestAnSSHServerThatSaysNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{SSH: true})
	auth := Auth{Identity: repo.Identity(), KnownHosts: repo.KnownHosts()}
	r := NewRepositories(t.TempDir(), RepositoriesOptions{Timeout: 200 * time.Millisecond})
	_, err = r.Resolve(t.Context(), "ssh://git@"+l.Addr().String()+"/repo.git", auth, "main", 0)
	if err == nil || !strings.Contains(err.Error(), "no answer within 200ms") {
		t.Errorf("Resolve = %v, want that there is no answer", err)
	}
}

type cuttingWriter struct {
	http.ResponseWriter
	left int
}

func (w *cuttingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(p)
}

func TestACancelledContextEndsResolve(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	asked := make(chan struct{})
	repo.Intercept(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			close(asked)
			<-req.Context().Done()
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := NewRepositories(t.TempDir(), RepositoriesOptions{}).Resolve(ctx, repo.URL(), Auth{}, "main", 0)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Resolve = %v, want context.Canceled", err)
	}
}

func TestSHA256RepositoriesAreRefused(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{SSH: true, SHA256: true})
	repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	for _, url := range []string{repo.URL(), repo.SSHURL(), repo.FileURL()} {
		_, err := NewRepositories(t.TempDir(), RepositoriesOptions{}).Resolve(t.Context(), url,
			Auth{Identity: repo.Identity(), KnownHosts: repo.KnownHosts()}, "main", 0)
		if !errors.Is(err, errSHA256) {
			t.Errorf("%s: %v, want that SHA-256 is not supported", url, err)
		}
	}
}

func TestManyReferencesDoNotHurt(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	commit := repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	packed := []byte("# pack-refs with: peeled fully-peeled sorted\n")
	for i := range 100_000 {
		packed = fmt.Appendf(packed, "%s refs/heads/b/%06d\n", commit, i)
	}
	if err := os.WriteFile(filepath.Join(repo.Dir(), "packed-refs"), packed, 0o644); err != nil {
		t.Fatal(err)
	}
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	if got := readFile(t, r, repo.URL(), Auth{}, "b/077777", "a.yaml"); got != "1" {
		t.Errorf("a.yaml = %q", got)
	}
	_, err := r.Resolve(t.Context(), repo.URL(), Auth{}, "nope", time.Hour)
	if err == nil || len(err.Error()) > 500 || !strings.Contains(err.Error(), "more") {
		t.Errorf("error = %v, want a short one", err)
	}
}
