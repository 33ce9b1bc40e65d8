package source

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trueup/trueup/testdata/gitserver"
)

// repositoryOf1000 has 1,000 Applications in 10,000 files, every tenth a kustomization over a shared base.
func repositoryOf1000() map[string]string {
	files := map[string]string{
		"base/kustomization.yaml": "resources: [a.yaml]\n",
		"base/a.yaml":             configMap("a", "1"),
	}
	for app := range 1000 {
		dir := fmt.Sprintf("apps/team-%d/app-%d", app/50, app)
		for i := range 10 {
			files[fmt.Sprintf("%s/part-%d.yaml", dir, i)] = configMap(fmt.Sprintf("part-%d", i), "1")
		}
		if app%10 == 0 {
			files[dir+"/kustomization.yaml"] = "resources: [../../../base, part-0.yaml]\nnamePrefix: p-\n"
		}
	}
	return files
}

func appDirs() []string {
	var dirs []string
	for app := range 1000 {
		dirs = append(dirs, fmt.Sprintf("apps/team-%d/app-%d", app/50, app))
	}
	return dirs
}

// memory renders only what has changed, as an agent does.
type memory map[string]struct {
	rendered  *Rendered
	footprint *Footprint
}

func (m memory) render(ctx context.Context, tree *Tree, dir string, opts Options) (rendered *Rendered, hit bool, err error) {
	key := fmt.Sprint(dir, opts)
	if have, ok := m[key]; ok && have.footprint.Holds(ctx, tree) {
		return have.rendered, true, nil
	}
	if rendered, err = Render(ctx, tree, dir, opts); err != nil {
		return nil, false, err
	}
	have := m[key]
	have.rendered, have.footprint = rendered, NewFootprint(tree, rendered.Inputs)
	m[key] = have
	return rendered, false, nil
}

func TestACommitRendersOnlyWhatItTouches(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	cache := memory{}
	renderAll := func(tree *Tree) (rendered []string) {
		t.Helper()
		for _, dir := range appDirs() {
			_, hit, err := cache.render(t.Context(), tree, dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !hit {
				rendered = append(rendered, dir)
			}
		}
		return rendered
	}
	if got := renderAll(commitTo(t, r, repo, repositoryOf1000())); len(got) != 1000 {
		t.Fatalf("%d renders at first, want 1000", len(got))
	}
	var kustomized []string
	for app := 0; app < 1000; app += 10 {
		kustomized = append(kustomized, appDirs()[app])
	}
	for _, step := range []struct {
		name   string
		change map[string]string
		want   []string
	}{
		{"a file of one application", map[string]string{"apps/team-3/app-155/part-1.yaml": configMap("part-1", "2")}, []string{"apps/team-3/app-155"}},
		{"a file beside all of them", map[string]string{"README.md": "x"}, nil},
		{"a file that a folder leaves out by its name", map[string]string{"apps/team-0/app-1/README.md": "x"}, []string{"apps/team-0/app-1"}},
		{"a file that a kustomization does not name", map[string]string{"apps/team-0/app-0/README.md": "x", "apps/team-0/app-0/part-1.yaml": "x"}, nil},
		{"a folder below, where recurse is off", map[string]string{"apps/team-0/app-2/below/x.yaml": configMap("x", "1"), "apps/team-0/app-3/a.yaml": configMap("a", "1")}, []string{"apps/team-0/app-2", "apps/team-0/app-3"}},
		{"a file in that folder", map[string]string{"apps/team-0/app-2/below/x.yaml": configMap("x", "2")}, nil},
		{"the base of every tenth", map[string]string{"base/a.yaml": configMap("a", "2")}, kustomized},
		{"a kustomization where there was none", map[string]string{"apps/team-1/app-51/kustomization.yaml": "resources: [part-0.yaml]\n"}, []string{"apps/team-1/app-51"}},
	} {
		got := renderAll(commitTo(t, r, repo, step.change))
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: renders (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestAFootprintHoldsOnlyWhereARenderGivesTheSame changes a repository at random and compares what was kept with a render.
func TestAFootprintHoldsOnlyWhereARenderGivesTheSame(t *testing.T) {
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	random := rand.New(rand.NewPCG(7, 7))
	cache := memory{}
	dirs := []string{"a", "b", "a/sub", "k", "k/over"}
	names := []string{"x.yaml", "y.yaml", "kustomization.yaml", "sub", "link.yaml"}
	contents := map[string][]string{
		"x.yaml":             {configMap("x", "1"), configMap("x", "2"), "# nothing\n", "broken: [\n", "-> ../b/y.yaml"},
		"y.yaml":             {configMap("y", "1"), configMap("y", "2"), "-> ../a/x.yaml"},
		"kustomization.yaml": {"resources: [x.yaml]\n", "resources: [x.yaml, y.yaml]\n", "namePrefix: p-\nresources: [../b]\n", "configMapGenerator: [{name: g, files: [y.yaml]}]\n"},
		"sub":                {"a file\n", "-> ../b"},
		"link.yaml":          {"-> x.yaml", "-> ../b/x.yaml", "-> nothing"},
	}
	for _, d := range dirs {
		repo.Commit(map[string]string{d + "/x.yaml": configMap("x", "1"), "b/y.yaml": configMap("y", "1")}, "start")
	}
	hits, misses := 0, 0
	for range 50 {
		dir, name := dirs[random.IntN(len(dirs))], names[random.IntN(len(names))]
		change := gitserver.Change{Path: path.Join(dir, name)}
		options := contents[name]
		if i := random.IntN(len(options) + 1); i == len(options) {
			change.Delete = true
		} else {
			content, link := strings.CutPrefix(options[i], "-> ")
			change.Content, change.Symlink = content, link
		}
		commit := repo.CommitTo(gitserver.DefaultBranch, "change", change)
		if _, err := r.Resolve(t.Context(), repo.FileURL(), Auth{}, commit, 0); err != nil {
			t.Fatal(err)
		}
		tree, err := r.Tree(t.Context(), repo.FileURL(), commit)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			for _, opts := range []Options{{}, {Directory: Directory{Recurse: true}}} {
				want, wantErr := Render(t.Context(), tree, dir, opts)
				got, hit, err := cache.render(t.Context(), tree, dir, opts)
				if (err == nil) != (wantErr == nil) {
					t.Fatalf("%s: cached %v, rendered %v", dir, err, wantErr)
				}
				if err != nil {
					continue
				}
				if hit {
					hits++
				} else {
					misses++
				}
				if diff := cmp.Diff(yamlOf(t, want), yamlOf(t, got)); diff != "" {
					t.Fatalf("%s after changing %+v, hit %t (-render +cache):\n%s", dir, change, hit, diff)
				}
				if diff := cmp.Diff(want.Inputs, got.Inputs); diff != "" && !hit {
					t.Fatalf("%s: two renders of the same have other inputs:\n%s", dir, diff)
				}
			}
		}
	}
	if hits < 50 || misses < 20 {
		t.Errorf("%d hits and %d misses: the changes tell little", hits, misses)
	}
}

func BenchmarkFootprint(b *testing.B) {
	repo := gitserver.New(b, b.TempDir(), gitserver.Options{})
	b.Cleanup(repo.Stop)
	r := NewRepositories(b.TempDir(), RepositoriesOptions{})
	before := commitTo(b, r, repo, repositoryOf1000())
	after := commitTo(b, r, repo, map[string]string{"apps/team-3/app-155/part-1.yaml": configMap("part-1", "2")})
	for name, dir := range map[string]string{"plain": "apps/team-19/app-999", "kustomize": "apps/team-19/app-990", "plain beside the change": "apps/team-3/app-156"} {
		b.Run(name, func(b *testing.B) {
			cache := memory{}
			if _, _, err := cache.render(b.Context(), before, dir, Options{}); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, hit, err := cache.render(b.Context(), after, dir, Options{}); err != nil || !hit {
					b.Fatal(hit, err)
				}
			}
		})
	}
	b.Run("1000 applications after a commit", func(b *testing.B) {
		cache := memory{}
		dirs := appDirs()
		renderAll := func(tree *Tree) {
			for _, dir := range dirs {
				if _, _, err := cache.render(b.Context(), tree, dir, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		}
		renderAll(before)
		trees := []*Tree{after, before}
		for i := 0; b.Loop(); i++ {
			renderAll(trees[i%2])
		}
	})
}
