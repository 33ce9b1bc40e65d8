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
	gosync "sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trueup/trueup/testdata/gitserver"
)

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  key: %q\n", name, value)
}

// readFile resolves a revision and returns a file of it.
func readFile(t *testing.T, r *Repositories, url string, auth Auth, revision, file string) string {
	t.Helper()
	rev, err := r.Resolve(t.Context(), url, auth, revision, 0)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := r.Tree(t.Context(), url, rev.Commit)
	if err != nil {
		t.Fatal(err)
	}
	content, err := tree.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestResolveKnowsEveryWayToNameARevision(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{SSH: true})
	first := repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	repo.Tag("v1.0.0", first)
	second := repo.Commit(map[string]string{"a.yaml": "2"}, "second")
	repo.AnnotatedTag("v1.4.0", second, "annotated")
	annotated := repo.Git("rev-parse", "refs/tags/v1.4.0")
	third := repo.Commit(map[string]string{"a.yaml": "3"}, "third")
	repo.Tag("v2.0.0-rc.1", third)
	repo.Tag("not-a-version", third)
	feature := repo.CommitTo("team/feature", "feature", gitserver.Change{Path: "b.yaml", Content: "b"})

	transports := map[string]struct {
		url  string
		auth Auth
	}{
		"http": {repo.URL(), Auth{}},
		"ssh":  {repo.SSHURL(), Auth{Identity: repo.Identity(), KnownHosts: repo.KnownHosts()}},
		"file": {repo.FileURL(), Auth{}},
	}
	revisions := map[string]struct {
		revision string
		want     Revision
	}{
		"the default branch":                       {"", Revision{Commit: third, Ref: "refs/heads/main"}},
		"HEAD":                                     {"HEAD", Revision{Commit: third, Ref: "refs/heads/main"}},
		"a branch":                                 {"main", Revision{Commit: third, Ref: "refs/heads/main"}},
		"a branch with a slash":                    {"team/feature", Revision{Commit: feature, Ref: "refs/heads/team/feature"}},
		"a full reference":                         {"refs/heads/main", Revision{Commit: third, Ref: "refs/heads/main"}},
		"a tag":                                    {"v1.0.0", Revision{Commit: first, Ref: "refs/tags/v1.0.0"}},
		"an annotated tag is its commit":           {"v1.4.0", Revision{Commit: second, Ref: "refs/tags/v1.4.0", Tag: annotated}},
		"a range is its highest tag":               {"1.x", Revision{Commit: second, Ref: "refs/tags/v1.4.0", Tag: annotated}},
		"a range with two ends":                    {">=1.0.0 <1.4.0", Revision{Commit: first, Ref: "refs/tags/v1.0.0"}},
		"a range leaves pre-releases out":          {">=1.0.0", Revision{Commit: second, Ref: "refs/tags/v1.4.0", Tag: annotated}},
		"a range that asks for pre-releases":       {">=2.0.0-0", Revision{Commit: third, Ref: "refs/tags/v2.0.0-rc.1"}},
		"a full commit that nothing points to":     {second, Revision{Commit: second, Ref: ""}},
		"a short commit that a tag points to":      {first[:7], Revision{Commit: first, Ref: "refs/tags/v1.0.0"}},
		"a short commit with an odd number digits": {first[:9], Revision{Commit: first, Ref: "refs/tags/v1.0.0"}},
	}
	for transport, via := range transports {
		for name, tc := range revisions {
			t.Run(transport+": "+name, func(t *testing.T) {
				r := NewRepositories(t.TempDir(), RepositoriesOptions{})
				got, err := r.Resolve(t.Context(), via.url, via.auth, tc.revision, 0)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("revision (-want +got):\n%s", diff)
				}
				if _, err := r.Tree(t.Context(), via.url, got.Commit); err != nil {
					t.Errorf("the commit is not there: %v", err)
				}
			})
		}
	}
}

func TestResolveFindsCommitsInHistory(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{SSH: true})
	old := repo.Commit(map[string]string{"a.yaml": "old"}, "old")
	for i := range 5 {
		repo.Commit(map[string]string{"a.yaml": fmt.Sprint(i)}, "newer")
	}
	for _, anySHA := range []string{"true", "false"} {
		repo.Config("uploadpack.allowAnySHA1InWant", anySHA)
		for name, via := range map[string]struct {
			url  string
			auth Auth
		}{
			"http": {repo.URL(), Auth{}},
			"ssh":  {repo.SSHURL(), Auth{Identity: repo.Identity(), KnownHosts: repo.KnownHosts()}},
			"file": {repo.FileURL(), Auth{}},
		} {
			for _, revision := range []string{old, old[:12]} {
				t.Run(fmt.Sprintf("%s, any commit %s, %d digits", name, anySHA, len(revision)), func(t *testing.T) {
					r := NewRepositories(t.TempDir(), RepositoriesOptions{})
					readFile(t, r, via.url, via.auth, "main", "a.yaml") // a shallow clone is there before
					if got := readFile(t, r, via.url, via.auth, revision, "a.yaml"); got != "old" {
						t.Errorf("a.yaml = %q, want %q", got, "old")
					}
					repo.Commit(map[string]string{"b.yaml": revision}, "after")
					if got := readFile(t, r, via.url, via.auth, "main", "b.yaml"); got != revision {
						t.Errorf("b.yaml = %q: the clone does not go on after its history was fetched", got)
					}
				})
			}
		}
	}
}

func TestResolveAsksAndFetchesNoMoreThanItMust(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := NewRepositories(t.TempDir(), RepositoriesOptions{Clock: clock})
	resolve := func(revision string) Revision {
		t.Helper()
		rev, err := r.Resolve(t.Context(), repo.URL(), Auth{}, revision, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	expect := func(when string, wantRefs, wantPacks int) {
		t.Helper()
		got := repo.Requests()
		if got.Refs != wantRefs || got.Packs != wantPacks {
			t.Errorf("%s: %d requests for references and %d for objects, want %d and %d", when, got.Refs, got.Packs, wantRefs, wantPacks)
		}
	}
	rev := resolve("main")
	expect("first time", 2, 1)
	resolve("main")
	resolve("HEAD")
	resolve(rev.Commit)
	expect("within maxAge", 2, 1)
	clock.SetTime(clock.Now().Add(time.Minute))
	resolve("main")
	expect("nothing new", 3, 1)
	repo.Commit(map[string]string{"a.yaml": "2"}, "second")
	clock.SetTime(clock.Now().Add(time.Minute))
	if resolve("main") == rev {
		t.Error("the new commit is not seen")
	}
	expect("a new commit", 5, 2)
}

func TestResolveSharesOneConversation(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	release := make(chan struct{})
	repo.Intercept(func(git http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			<-release
			git.ServeHTTP(w, req)
		})
	})
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	var wg gosync.WaitGroup
	started := make(chan struct{}, 50)
	for range 50 {
		wg.Go(func() {
			started <- struct{}{}
			if _, err := r.Resolve(t.Context(), repo.URL(), Auth{}, "main", time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
	for range 50 {
		<-started
	}
	close(release)
	wg.Wait()
	if got := repo.Requests(); got.Refs != 2 || got.Packs != 1 {
		t.Errorf("50 callers made %d requests for references and %d for objects, want 2 and 1", got.Refs, got.Packs)
	}
}

func TestResolveTakesNoAnswerFromBeforeItWasAsked(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	answered, release := make(chan struct{}), make(chan struct{})
	var once gosync.Once
	repo.Intercept(func(git http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			answer := httptest.NewRecorder()
			git.ServeHTTP(answer, req)
			once.Do(func() {
				close(answered)
				<-release
			})
			for key, values := range answer.Header() {
				w.Header()[key] = values
			}
			w.WriteHeader(answer.Code)
			w.Write(answer.Body.Bytes())
		})
	})
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	var wg gosync.WaitGroup
	wg.Go(func() {
		if _, err := r.Resolve(t.Context(), repo.URL(), Auth{}, "main", 0); err != nil {
			t.Error(err)
		}
	})
	<-answered
	pushed := repo.Commit(map[string]string{"a.yaml": "2"}, "second")
	for range 10 {
		wg.Go(func() {
			rev, err := r.Resolve(t.Context(), repo.URL(), Auth{}, "main", 0)
			if err != nil || rev.Commit != pushed {
				t.Errorf("Resolve after the push = %v, %v, want %s", rev, err, pushed)
			}
		})
	}
	close(release)
	wg.Wait()
}

func TestResolveFollowsWhatGitDoes(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	first := repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	second := repo.Commit(map[string]string{"a.yaml": "2"}, "second")
	repo.Tag("v1", first)
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	steps := []struct {
		name     string
		do       func()
		revision string
		want     string
	}{
		{"a shallow clone", func() {}, "main", "2"},
		{"a force-push to an older commit", func() { repo.ForcePush("main", first) }, "main", "1"},
		{"and back", func() { repo.ForcePush("main", second) }, "main", "2"},
		{"a commit after both", func() { repo.Commit(map[string]string{"a.yaml": "3"}, "third") }, "main", "3"},
		{"a tag", func() {}, "v1", "1"},
		{"a tag that moved", func() { repo.Tag("v1", second) }, "v1", "2"},
		{"a tag that became annotated", func() { repo.AnnotatedTag("v1", first, "x") }, "v1", "1"},
		{"a branch", func() { repo.Branch("team", first) }, "team", "1"},
		{"a branch below the name of a deleted one", func() {
			repo.DeleteBranch("team")
			repo.Branch("team/a", second)
		}, "team/a", "2"},
		{"a default branch renamed", func() {
			repo.Branch("trunk", first)
			repo.SetHead("trunk")
			repo.DeleteBranch("main")
		}, "HEAD", "1"},
	}
	for _, step := range steps {
		step.do()
		if got := readFile(t, r, repo.URL(), Auth{}, step.revision, "a.yaml"); got != step.want {
			t.Errorf("%s: a.yaml = %q, want %q", step.name, got, step.want)
		}
	}
}

func TestTreeNeedsNoServer(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	commit := repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	dir := t.TempDir()
	r := NewRepositories(dir, RepositoriesOptions{})
	readFile(t, r, repo.URL(), Auth{}, "main", "a.yaml")
	repo.Stop()

	for name, r := range map[string]*Repositories{"same process": r, "after a restart": NewRepositories(dir, RepositoriesOptions{})} {
		tree, err := r.Tree(t.Context(), repo.URL(), commit)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if content, err := tree.ReadFile("a.yaml"); err != nil || string(content) != "1" {
			t.Errorf("%s: a.yaml = %q, %v", name, content, err)
		}
		_, err = r.Resolve(t.Context(), repo.URL(), Auth{}, "main", 0)
		if err == nil || !strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("%s: Resolve = %v, want that the server cannot be reached", name, err)
		}
		_, err = r.Tree(t.Context(), repo.URL(), strings.Repeat("a", 40))
		if !errors.Is(err, ErrNotFetched) {
			t.Errorf("%s: an unknown commit: %v, want ErrNotFetched", name, err)
		}
	}
	repo.Start()
	second := repo.Commit(map[string]string{"a.yaml": "2"}, "second")
	if rev, err := r.Resolve(t.Context(), repo.URL(), Auth{}, "main", 0); err != nil || rev.Commit != second {
		t.Errorf("after the outage: %v, %v, want %s", rev, err, second)
	}
}

func TestADamagedCloneIsMadeAnew(t *testing.T) {
	damages := map[string]func(t *testing.T, clone string){
		"the folder is gone": func(t *testing.T, clone string) {
			if err := os.RemoveAll(clone); err != nil {
				t.Fatal(err)
			}
		},
		"packs are cut off":   damageFiles("*.pack", func(b []byte) []byte { return b[:len(b)/3] }),
		"packs are garbage":   damageFiles("*.pack", func(b []byte) []byte { return []byte(strings.Repeat("x", len(b))) }),
		"indexes are cut off": damageFiles("*.idx", func(b []byte) []byte { return b[:len(b)/2] }),
		"indexes are empty":   damageFiles("*.idx", func([]byte) []byte { return nil }),
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
			commit := repo.Commit(map[string]string{"dir/a.yaml": configMap("a", "1")}, "first")
			dir := t.TempDir()
			readFile(t, NewRepositories(dir, RepositoriesOptions{}), repo.URL(), Auth{}, "main", "dir/a.yaml")
			clones, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(clones) != 1 {
				t.Fatalf("clones: %v, %v", clones, err)
			}
			damage(t, clones[0])

			r := NewRepositories(dir, RepositoriesOptions{})
			if tree, err := r.Tree(t.Context(), repo.URL(), commit); err == nil {
				_, err = tree.ReadFile("dir/a.yaml")
				if !errors.Is(err, ErrNotFetched) {
					t.Errorf("reading a damaged clone: %v, want ErrNotFetched", err)
				}
			} else if !errors.Is(err, ErrNotFetched) {
				t.Errorf("opening a commit of a damaged clone: %v, want ErrNotFetched", err)
			}
			if got := readFile(t, r, repo.URL(), Auth{}, "main", "dir/a.yaml"); got != configMap("a", "1") {
				t.Errorf("dir/a.yaml = %q", got)
			}
		})
	}
}

func damageFiles(pattern string, change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, clone string) {
		files, err := filepath.Glob(filepath.Join(clone, "objects", "pack", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("files to damage: %v, %v", files, err)
		}
		for _, f := range files {
			content, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(f, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f, change(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestACloneDoesNotGrowForEver(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	stable := repo.Commit(map[string]string{"a.yaml": "stable"}, "first")
	repo.Branch("stable", stable)
	dir := t.TempDir()
	r := NewRepositories(dir, RepositoriesOptions{})
	readFile(t, r, repo.URL(), Auth{}, "stable", "a.yaml")
	most := 0
	for i := range 2*maxPacks + 5 {
		repo.Commit(map[string]string{"a.yaml": fmt.Sprint(i)}, "more")
		if got := readFile(t, r, repo.URL(), Auth{}, "main", "a.yaml"); got != fmt.Sprint(i) {
			t.Fatalf("a.yaml = %q, want %d", got, i)
		}
		if i%10 == 0 {
			readFile(t, r, repo.URL(), Auth{}, "stable", "a.yaml")
		}
		packs, err := filepath.Glob(filepath.Join(dir, "*", "objects", "pack", "*.pack"))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(packs))
	}
	if most > maxPacks || most < maxPacks/2 {
		t.Errorf("there were up to %d packs, want up to %d", most, maxPacks)
	}
	clones, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(clones) != 1 {
		t.Errorf("folders: %v, %v, want one", clones, err)
	}
}

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

func BenchmarkPoll(b *testing.B) {
	repo := gitserver.New(b, b.TempDir(), gitserver.Options{})
	b.Cleanup(repo.Stop)
	repo.Commit(repositoryOf1000(), "first")
	r := NewRepositories(b.TempDir(), RepositoriesOptions{})
	resolve := func() {
		if _, err := r.Resolve(b.Context(), repo.URL(), Auth{}, "main", 0); err != nil {
			b.Fatal(err)
		}
	}
	resolve()
	measure := func(b *testing.B, before func(i int)) {
		start, n := repo.Requests(), 0
		for b.Loop() {
			before(n)
			resolve()
			n++
		}
		end := repo.Requests()
		b.ReportMetric(float64(end.Refs-start.Refs+end.Packs-start.Packs)/float64(n), "requests/op")
		b.ReportMetric(float64(end.Bytes-start.Bytes)/float64(n), "bytes/op")
	}
	b.Run("nothing new", func(b *testing.B) { measure(b, func(int) {}) })
	b.Run("a commit of one file", func(b *testing.B) {
		measure(b, func(i int) {
			b.StopTimer()
			repo.Commit(map[string]string{"apps/team-3/app-155/part-1.yaml": configMap("part-1", fmt.Sprint("v", i))}, "change")
			b.StartTimer()
		})
	})
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

func TestRevisionsThatAreNotThere(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	empty := gitserver.New(t, t.TempDir(), gitserver.Options{})
	c := repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	repo.Branch("release", c)
	repo.Tag("v1.0.0", c)
	repo.Tag("not-a-commit", repo.Git("rev-parse", c+":a.yaml"))
	for name, tc := range map[string]struct{ url, revision, want string }{
		"a branch":           {repo.URL(), "mian", `branch or tag "mian" does not exist: it has main`},
		"a range":            {repo.URL(), ">=2.0.0", `no tag is in the version range ">=2.0.0"`},
		"a commit":           {repo.URL(), strings.Repeat("a", 40), "commit " + strings.Repeat("a", 40) + " does not exist"},
		"a short commit":     {repo.URL(), "abcdef12", "commit abcdef12 does not exist"},
		"a tag of a file":    {repo.URL(), "not-a-commit", "is no commit"},
		"anything, in empty": {empty.URL(), "main", "the repository is empty: push a commit to it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewRepositories(t.TempDir(), RepositoriesOptions{}).Resolve(t.Context(), tc.url, Auth{}, tc.revision, 0)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Resolve = %v, want %q", err, tc.want)
			}
		})
	}
}
