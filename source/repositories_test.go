package source

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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

func TestACommitThatNoBranchReaches(t *testing.T) {
	for allowed, want := range map[string]string{"true": "", "false": "does not exist: it has main"} {
		repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
		first := repo.Commit(map[string]string{"a.yaml": "1"}, "first")
		lost := repo.Commit(map[string]string{"a.yaml": "2"}, "second")
		repo.ForcePush("main", first)
		repo.Config("uploadpack.allowAnySHA1InWant", allowed)
		r := NewRepositories(t.TempDir(), RepositoriesOptions{})
		revision, err := r.Resolve(t.Context(), repo.URL(), Auth{}, lost, 0)
		switch {
		case want == "" && (err != nil || revision.Commit != lost):
			t.Errorf("a server that shows it: got %v, %v", revision, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("a server that does not show it: got %v, %v", revision, err)
		}
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
