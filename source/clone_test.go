package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trueup/trueup/testdata/gitserver"
)

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

func TestPruneRemovesClonesThatNobodyUses(t *testing.T) {
	used := gitserver.New(t, t.TempDir(), gitserver.Options{})
	unused := gitserver.New(t, t.TempDir(), gitserver.Options{})
	for _, repo := range []*gitserver.Repository{used, unused} {
		repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	}
	dir := t.TempDir()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := NewRepositories(dir, RepositoriesOptions{Clock: clock})
	prune := func(r *Repositories, want int) {
		t.Helper()
		if got, err := r.Prune(24 * time.Hour); err != nil || got != want {
			t.Errorf("Prune = %d, %v, want %d", got, err, want)
		}
	}
	prune(r, 0)
	readFile(t, r, used.URL(), Auth{}, "main", "a.yaml")
	readFile(t, r, unused.URL(), Auth{}, "main", "a.yaml")
	prune(r, 0)
	for range 20 {
		clock.SetTime(clock.Now().Add(2 * time.Hour))
		readFile(t, r, used.URL(), Auth{}, "main", "a.yaml")
	}
	// Another process finds on disk what was used when.
	prune(NewRepositories(dir, RepositoriesOptions{Clock: clock}), 1)
	prune(r, 0)
	used.Stop()
	readTree(t, r, used)
	if got := readFile(t, r, unused.URL(), Auth{}, "main", "a.yaml"); got != "1" {
		t.Errorf("what was removed is not fetched again: a.yaml = %q", got)
	}
}

func readTree(t *testing.T, r *Repositories, repo *gitserver.Repository) {
	t.Helper()
	tree, err := r.Tree(t.Context(), repo.URL(), repo.Rev("main"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.ReadFile("a.yaml"); err != nil {
		t.Error(err)
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
