package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trueup/trueup/testdata/gitserver"
)

func gitmodules(pathsAndURLs ...string) gitserver.Change {
	var b strings.Builder
	for i := 0; i < len(pathsAndURLs); i += 2 {
		fmt.Fprintf(&b, "[submodule %q]\n\tpath = %s\n\turl = %s\n", pathsAndURLs[i], pathsAndURLs[i], pathsAndURLs[i+1])
	}
	return gitserver.Change{Path: ".gitmodules", Content: b.String()}
}

func TestSubmodules(t *testing.T) {
	inner := gitserver.New(t, t.TempDir(), gitserver.Options{})
	innermost := inner.Commit(map[string]string{"i.yaml": configMap("i", "1")}, "first")
	lib := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "pw"})
	lib.CommitTo("main", "first", gitserver.Change{Path: "base/kustomization.yaml", Content: "resources: [l.yaml]"},
		gitserver.Change{Path: "base/l.yaml", Content: configMap("l", "1")})
	pinned := lib.CommitTo("main", "inner", gitserver.Change{Path: "inner", Content: innermost, Gitlink: true}, gitmodules("inner", inner.URL()))
	lib.CommitTo("main", "later", gitserver.Change{Path: "base/l.yaml", Content: configMap("l", "2")})

	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	commit := repo.CommitTo("main", "first",
		gitserver.Change{Path: "vendor/lib", Content: pinned, Gitlink: true}, gitmodules("vendor/lib", lib.URL(), "gone", "https://gone.invalid/x/y"),
		gitserver.Change{Path: "app/kustomization.yaml", Content: "resources: [../vendor/lib/base]\nnamePrefix: p-\n"},
		gitserver.Change{Path: "vendor/own.yaml", Content: configMap("own", "1")})

	var asked []string
	credentials := func(_ context.Context, url string) (Auth, error) {
		asked = append(asked, url)
		if url == lib.URL() {
			return Auth{Username: "ada", Password: "pw"}, nil
		}
		return Auth{}, nil
	}
	dir := t.TempDir()
	r := NewRepositories(dir, RepositoriesOptions{}).WithSubmodules(credentials)
	if _, err := r.Resolve(t.Context(), repo.URL(), Auth{}, "main", 0); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{lib.URL(), inner.URL()}, asked); diff != "" {
		t.Errorf("credentials asked for (-want +got):\n%s", diff)
	}
	for _, server := range []*gitserver.Repository{repo, lib, inner} {
		server.Stop()
	}
	for name, tc := range map[string]struct {
		dir  string
		opts Options
		want []string
	}{
		"a base in a submodule":               {"app", Options{}, []string{"ConfigMap/p-l@app/kustomization.yaml"}},
		"a path in a submodule":               {"vendor/lib/base", Options{}, []string{"ConfigMap/l@vendor/lib/base/kustomization.yaml"}},
		"a submodule in a submodule":          {"vendor/lib/inner", Options{}, []string{"ConfigMap/i@vendor/lib/inner/i.yaml:1"}},
		"submodules are folders to recursion": {"vendor", Options{Directory: Directory{Recurse: true, Exclude: "*kustomization.yaml"}}, []string{"ConfigMap/l@vendor/lib/base/l.yaml:1", "ConfigMap/i@vendor/lib/inner/i.yaml:1", "ConfigMap/own@vendor/own.yaml:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := r.Tree(t.Context(), repo.URL(), commit)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Render(t.Context(), tree, tc.dir, tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, places(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	t.Run("submodules that are off", func(t *testing.T) {
		tree, err := NewRepositories(dir, RepositoriesOptions{}).Tree(t.Context(), repo.URL(), commit)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Render(t.Context(), tree, "vendor", Options{Directory: Directory{Recurse: true}})
		if err != nil || len(got.Objects) != 1 {
			t.Fatalf("Render = %v, %v", got, err)
		}
		if diff := cmp.Diff([]string{"vendor/lib is left out: it is a submodule, and submodules are not fetched"}, got.Warnings); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestSubmodulesThatAreRefused(t *testing.T) {
	other := gitserver.New(t, t.TempDir(), gitserver.Options{})
	commit := other.Commit(map[string]string{"a.yaml": "1"}, "first")
	loop := gitserver.New(t, t.TempDir(), gitserver.Options{})
	self := loop.Commit(map[string]string{"a.yaml": "1"}, "first")
	for range 10 {
		self = loop.CommitTo("main", "again", gitserver.Change{Path: "self", Content: self, Gitlink: true}, gitmodules("self", "../repo.git"))
	}
	for name, tc := range map[string]struct{ url, commit, want string }{
		"a folder of this machine":   {other.FileURL(), commit, "submodule sub: a repository must not name folders of this machine"},
		"a program":                  {"ext::sh -c id", commit, "has no scheme"},
		"a commit that is not there": {other.URL(), strings.Repeat("1", 40), "submodule sub"},
		"a host that is not allowed": {"https://internal.invalid/a/b", commit, "submodule sub: not allowed"},
		"nested without end":         {loop.URL(), self, "nested more than 5 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
			repo.CommitTo("main", "first", gitserver.Change{Path: "sub", Content: tc.commit, Gitlink: true}, gitmodules("sub", tc.url))
			r := NewRepositories(t.TempDir(), RepositoriesOptions{}).WithSubmodules(func(_ context.Context, url string) (Auth, error) {
				if strings.Contains(url, "internal") {
					return Auth{}, errors.New("not allowed")
				}
				return Auth{}, nil
			})
			_, err := r.Resolve(t.Context(), repo.URL(), Auth{}, "main", 0)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Resolve = %v, want %q", err, tc.want)
			}
		})
	}
}
