package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trueup/trueup/testdata/gitserver"
)

// writeFiles makes a folder with files. A content that starts with "-> " is a symbolic link.
func writeFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, file)
		} else {
			err = os.WriteFile(file, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// commitTree commits files and returns them as a Tree, from a clone.
func commitTree(t testing.TB, files map[string]string) *Tree {
	t.Helper()
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	t.Cleanup(repo.Stop)
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	return commitTo(t, r, repo, files)
}

func commitTo(t testing.TB, r *Repositories, repo *gitserver.Repository, files map[string]string) *Tree {
	t.Helper()
	var changes []gitserver.Change
	for name, content := range files {
		target, link := strings.CutPrefix(content, "-> ")
		if link {
			content = target
		}
		changes = append(changes, gitserver.Change{Path: name, Content: content, Symlink: link})
	}
	commit := repo.CommitTo(gitserver.DefaultBranch, "files", changes...)
	if _, err := r.Resolve(t.Context(), repo.FileURL(), Auth{}, commit, 0); err != nil {
		t.Fatal(err)
	}
	tree, err := r.Tree(t.Context(), repo.FileURL(), commit)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// places returns kind/name@file:line of each object.
func places(r *Rendered) []string {
	var out []string
	for _, o := range r.Objects {
		out = append(out, o.GetKind()+"/"+o.GetName()+"@"+o.Place())
	}
	return out
}

func TestRenderAFolderOfManifests(t *testing.T) {
	files := map[string]string{
		"app/b.yaml":           configMap("b", "1") + "---\n" + configMap("c", "1"),
		"app/a.yml":            configMap("a", "1"),
		"app/d.json":           `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"}}`,
		"app/README.md":        "# kind: x",
		"app/values.yaml":      "x: 1\n",
		"app/comments.yaml":    "# nothing\n",
		"app/link.yaml":        "-> ../common/s.yaml",
		"app/sub/e.yaml":       configMap("e", "1"),
		"app/sub/deep/f.yaml":  configMap("f", "1"),
		"app/sub/no.yaml.tmpl": "{{",
		"common/s.yaml":        configMap("s", "1"),
		"common/dir":           "-> ../app/sub",
		"empty/README.md":      "nothing",
		"comments/a.yaml":      "# nothing\n---\n# here\n",
		"list/a.yaml":          "apiVersion: v1\nkind: List\nitems: []\n",
		"values/values.yaml":   "x: 1\n",
	}
	flat := []string{"ConfigMap/a@app/a.yml:1", "ConfigMap/b@app/b.yaml:1", "ConfigMap/c@app/b.yaml:8", "ConfigMap/d@app/d.json:1", "ConfigMap/s@app/link.yaml:1"}
	sub := []string{"ConfigMap/f@app/sub/deep/f.yaml:1", "ConfigMap/e@app/sub/e.yaml:1"}
	for name, tc := range map[string]struct {
		dir   string
		opts  Directory
		want  []string
		empty string
	}{
		"the files of one folder":        {dir: "app", want: flat},
		"with the folders below":         {dir: "app", opts: Directory{Recurse: true}, want: append(slices.Clone(flat), sub...)},
		"a path with dots":               {dir: "./app/../app/", want: flat},
		"through a link to a folder":     {dir: "common/dir", want: []string{"ConfigMap/e@common/dir/e.yaml:1"}},
		"include":                        {dir: "app", opts: Directory{Include: "*.yml"}, want: flat[:1]},
		"include of several":             {dir: "app", opts: Directory{Include: "{a,b}.y*ml"}, want: flat[:3]},
		"exclude":                        {dir: "app", opts: Directory{Exclude: "[b-z]*"}, want: flat[:1]},
		"exclude wins":                   {dir: "app", opts: Directory{Include: "*", Exclude: "{b,d,link}*"}, want: flat[:1]},
		"a pattern matches slashes":      {dir: "app", opts: Directory{Recurse: true, Include: "sub*"}, want: sub},
		"a pattern matches the path":     {dir: "app", opts: Directory{Recurse: true, Include: "sub/e.yaml"}, want: sub[1:]},
		"a folder without manifests":     {dir: "empty", empty: "empty has no YAML, JSON or Jsonnet files; set directory.recurse"},
		"a folder of comments":           {dir: "comments", empty: "none of the 1 YAML, JSON and Jsonnet files in comments is a Kubernetes manifest"},
		"an empty list":                  {dir: "list", empty: "the manifests in list have no objects in them"},
		"a folder of other YAML":         {dir: "values", empty: "none of the 1 YAML, JSON and Jsonnet files in values is a Kubernetes manifest"},
		"a pattern that matches nothing": {dir: "app", opts: Directory{Include: "zzz"}, empty: "no YAML, JSON or Jsonnet file in app passes directory.include"},
		"no files below":                 {dir: "empty", opts: Directory{Recurse: true}, empty: "empty has no YAML, JSON or Jsonnet files"},
	} {
		for where, render := range map[string]func() (*Rendered, error){
			"from a commit": func() (*Rendered, error) {
				return Render(t.Context(), commitTree(t, files), tc.dir, Options{Directory: tc.opts})
			},
			"from a disk": func() (*Rendered, error) {
				return RenderDir(t.Context(), writeFiles(t, files), tc.dir, Options{Directory: tc.opts})
			},
		} {
			t.Run(name+", "+where, func(t *testing.T) {
				got, err := render()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, places(got)); diff != "" {
					t.Errorf("objects (-want +got):\n%s", diff)
				}
				if !strings.Contains(got.Empty, tc.empty) || (tc.empty == "") != (got.Empty == "") {
					t.Errorf("Empty = %q, want %q", got.Empty, tc.empty)
				}
				if got.Kind != KindDirectory {
					t.Errorf("Kind = %q", got.Kind)
				}
			})
		}
	}
}

func TestIgnoreFiles(t *testing.T) {
	files := map[string]string{
		".sourceignore":        "# comment\n/app/secret.yaml\n*.tmpl.yaml\r\nci/\n",
		"app/.sourceignore":    "/own.yaml\n!kept.tmpl.yaml\n",
		"app/secret.yaml":      "broken: [",
		"app/a.tmpl.yaml":      "{{ broken",
		"app/kept.tmpl.yaml":   configMap("kept", "1"),
		"app/own.yaml":         configMap("own", "1"),
		"app/sub/own.yaml":     configMap("sub", "1"),
		"app/sub/ci/x.yaml":    configMap("ci", "1"),
		"other/own.yaml":       configMap("other", "1"),
		"other/kept.tmpl.yaml": "{{ broken",
	}
	want := map[string][]string{
		"app":   {"ConfigMap/kept@app/kept.tmpl.yaml:1", "ConfigMap/sub@app/sub/own.yaml:1"},
		"other": {"ConfigMap/other@other/own.yaml:1"},
	}
	tree := commitTree(t, files)
	for dir, want := range want {
		got, err := Render(t.Context(), tree, dir, Options{Directory: Directory{Recurse: true}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, places(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", dir, diff)
		}
	}
	delete(files, ".sourceignore")
	if _, err := Render(t.Context(), commitTree(t, files), "app", Options{}); err == nil || !strings.Contains(err.Error(), "app/") {
		t.Errorf("without the file of the root: %v, want that what it left out is broken", err)
	}
}

func TestRenderWarnsOfFilesItLeavesOut(t *testing.T) {
	got, err := Render(t.Context(), commitTree(t, map[string]string{"a/a.yaml": configMap("a", ""), "a/values.yaml": "x: 1"}), "a", Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a/values.yaml is left out: it is no Kubernetes manifest (no apiVersion, no kind)"}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRenderRefusesBadInput(t *testing.T) {
	good := configMap("a", "1")
	bomb := "apiVersion: v1\nkind: A\nmetadata: {name: a}\na0: &a0 [x]\n"
	for i := range 10 {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	files := map[string]string{
		"invalid/a.yaml":                   good + " x: 1\n",
		"no-kind/a.yaml":                   "apiVersion: v1\nmetadata: {name: a}\n",
		"huge/a.yaml":                      "#" + strings.Repeat("x", 50<<20),
		"bomb/a.yaml":                      bomb,
		"passwd/secret":                    "-> /etc/passwd",
		"passwd/a.yaml":                    good,
		"passwd-yaml/a.yaml":               "-> /etc/passwd",
		"climb/a.yaml":                     "-> ../../../../../../etc/passwd",
		"link-to-climb/a.yaml":             "-> ../climb/a.yaml",
		"through-folder/etc":               "-> /etc",
		"loop/a.yaml":                      "-> b.yaml",
		"loop/b.yaml":                      "-> a.yaml",
		"dangling/a.yaml":                  "-> nothing.yaml",
		"to-folder/a.yaml":                 "-> ../good",
		"lfs/a.yaml":                       "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
		"lfs-k/kustomization.yaml":         "configMapGenerator: [{name: a, files: [b.bin]}]",
		"lfs-k/b.bin":                      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
		"good/a.yaml":                      good,
		"nested/k/kustomization.yaml":      "resources: [a.yaml]\n",
		"nested/k/a.yaml":                  good,
		"kustomization-kind/k.yaml":        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: x}\n",
		"two-kustomizations/Kustomization": "resources: []\n", "two-kustomizations/kustomization.yml": "resources: []\n",
		"bad-k/kustomization.yaml":        "resources: [a.yaml]\n",
		"bad-k/a.yaml":                    "kind: A\nmetadata: {name: a\n",
		"huge-k/kustomization.yaml":       "resources: [a.yaml]\n",
		"huge-k/a.yaml":                   "#" + strings.Repeat("x", 50<<20),
		"bomb-k/kustomization.yaml":       "resources: [a.yaml]\n",
		"bomb-k/a.yaml":                   bomb,
		"deep/a.yaml":                     "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "\n",
		"deep-k/kustomization.yaml":       "resources: [a.yaml]\n",
		"deep-k/a.yaml":                   "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "\n",
		"deep-block-k/a.yaml":             "apiVersion: v1\nkind: A\nmetadata: {name: a}\nx:\n  " + strings.Repeat("- ", 9_000) + "x\n",
		"deep-block-k/kustomization.yaml": "resources: [a.yaml]\n",
		"bomb-base/kustomization.yaml":    "resources: [../bomb-k]\n",
		"passwd-k/kustomization.yaml":     "resources: [p.yaml]\n",
		"passwd-k/p.yaml":                 "-> /etc/passwd",
		"passwd-gen/kustomization.yaml":   "configMapGenerator: [{name: a, files: [p]}]\n",
		"passwd-gen/p":                    "-> ../../../../etc/passwd",
		"climb-k/kustomization.yaml":      "configMapGenerator: [{name: a, files: [../../../../../etc/passwd]}]\n",
		"absolute-k/kustomization.yaml":   "configMapGenerator: [{name: a, files: [/etc/passwd]}]\n",
		"sibling-k/kustomization.yaml":    "configMapGenerator: [{name: a, files: [../good/a.yaml]}]\n",
		"base-out/kustomization.yaml":     "resources: [../../outside]\n",
		"cycle/a/kustomization.yaml":      "resources: [../b]\n",
		"cycle/b/kustomization.yaml":      "resources: [../a]\n",
		"empty-k/kustomization.yaml":      "",
		"unknown-k/kustomization.yaml":    "resourcez: []\n",
		"missing-k/kustomization.yaml":    "resources: [missing.yaml]\n",
		"double-k/kustomization.yaml":     "resources: [a.yaml, b.yaml]\n",
		"double-k/a.yaml":                 good,
		"double-k/b.yaml":                 good,
		"helm-k/kustomization.yaml":       "helmCharts: [{name: x}]\n",
		"exec-k/kustomization.yaml":       "transformers: [t.yaml]\nresources: [a.yaml]\n",
		"exec-k/a.yaml":                   good,
		"exec-k/t.yaml":                   "apiVersion: x/v1\nkind: Y\nmetadata:\n  name: z\n  annotations:\n    config.kubernetes.io/function: |\n      exec:\n        path: /bin/true\n",
	}
	disk, commit := writeFiles(t, files), commitTree(t, files)
	for name, tc := range map[string]struct {
		dir  string
		opts Directory
		want []string
	}{
		"a path that is not there":              {dir: "god", want: []string{`path "god" does not exist`, "in its root there are good"}},
		"a path below one that is there":        {dir: "cycle/c", want: []string{`path "cycle/c" does not exist`, "in cycle there are cycle/a, cycle/b"}},
		"a path below one that is not":          {dir: "god/x/y", want: []string{"in its root there are good"}},
		"a path that is a file":                 {dir: "good/a.yaml", want: []string{"is a file", "must be a directory"}},
		"a path out of the repository":          {dir: "../x", want: []string{"leaves the repository"}},
		"invalid YAML":                          {dir: "invalid", want: []string{"invalid/a.yaml:7: invalid YAML"}},
		"an object without kind":                {dir: "no-kind", want: []string{"no-kind/a.yaml:1: object without kind"}},
		"a file of 50 MB":                       {dir: "huge", want: []string{"huge/a.yaml has 50 MiB"}},
		"an alias bomb":                         {dir: "bomb", want: []string{"bomb/a.yaml:1: aliases expand to too much data"}},
		"a link to /etc/passwd":                 {dir: "passwd", want: []string{"passwd/secret is a symbolic link that leaves the repository"}},
		"a manifest that is such a link":        {dir: "passwd-yaml", want: []string{"passwd-yaml/a.yaml is a symbolic link that leaves the repository"}},
		"a link that climbs out":                {dir: "climb", want: []string{"climb/a.yaml is a symbolic link that leaves the repository"}},
		"a link to a link that climbs out":      {dir: "link-to-climb", want: []string{"climb/a.yaml is a symbolic link that leaves the repository"}},
		"a path through a link out":             {dir: "through-folder/etc/ssl", want: []string{"through-folder/etc is a symbolic link that leaves the repository"}},
		"links in a circle":                     {dir: "loop", want: []string{"loop/a.yaml", "symbolic links follow one another"}},
		"a link to nothing":                     {dir: "dangling", want: []string{"dangling/a.yaml"}},
		"a manifest that is a link to a folder": {dir: "to-folder", want: []string{"to-folder/a.yaml is a directory, not a file"}},
		"a kustomization below the folder":      {dir: "nested", opts: Directory{Recurse: true}, want: []string{"nested/k/kustomization.yaml is a kustomization below a plain folder", "directory.exclude"}},
		"a kustomization by another name":       {dir: "kustomization-kind", want: []string{"kustomization-kind/k.yaml is a kustomization"}},
		"two kustomizations":                    {dir: "two-kustomizations", want: []string{"it has both kustomization.yml and Kustomization"}},
		"a pattern that is none":                {dir: "good", opts: Directory{Include: "{a"}, want: []string{`directory.include: "{a": unbalanced`}},
		"another pattern that is none":          {dir: "good", opts: Directory{Exclude: "[a"}, want: []string{`directory.exclude: "[a": unbalanced`}},
		"kustomize: invalid YAML":               {dir: "bad-k", want: []string{"bad-k/a.yaml:2: invalid YAML"}},
		"kustomize: a file of 50 MB":            {dir: "huge-k", want: []string{"huge-k/kustomization.yaml", "huge-k/a.yaml has 50 MiB"}},
		"kustomize: an alias bomb":              {dir: "bomb-k", want: []string{"bomb-k/kustomization.yaml", "bomb-k/a.yaml:1: aliases expand to too much data"}},
		"deep nesting":                          {dir: "deep", want: []string{"deep/a.yaml:4: nested more than 512 levels deep"}},
		"kustomize: deep nesting":               {dir: "deep-k", want: []string{"deep-k/kustomization.yaml", "deep-k/a.yaml:4: nested more than 512 levels deep"}},
		"kustomize: deep nesting in blocks":     {dir: "deep-block-k", want: []string{"deep-block-k/a.yaml:5: nested more than 512 levels deep"}},
		"kustomize: a link to /etc/passwd":      {dir: "passwd-k", want: []string{"passwd-k/kustomization.yaml", "passwd-k/p.yaml is a symbolic link that leaves the repository"}},
		"kustomize: a generator of such a link": {dir: "passwd-gen", want: []string{"passwd-gen/p is a symbolic link that leaves the repository"}},
		"kustomize: a generator that climbs":    {dir: "climb-k", want: []string{"climb-k/kustomization.yaml", "leaves the repository"}},
		"kustomize: an absolute path":           {dir: "absolute-k", want: []string{"absolute-k/kustomization.yaml", "leaves the repository"}},
		"kustomize: a file beside the root":     {dir: "sibling-k", want: []string{"sibling-k/kustomization.yaml", "security; file 'good/a.yaml' is not in or below 'sibling-k'"}},
		"kustomize: a base out of it":           {dir: "base-out", want: []string{"base-out/kustomization.yaml", "outside", "leaves the repository"}},
		"kustomize: a cycle":                    {dir: "cycle/a", want: []string{"cycle/a/kustomization.yaml", "cycle detected"}},
		"kustomize: an empty kustomization":     {dir: "empty-k", want: []string{"empty-k/kustomization.yaml", "kustomization.yaml is empty"}},
		"kustomize: an unknown field":           {dir: "unknown-k", want: []string{"unknown-k/kustomization.yaml", `unknown field "resourcez"`}},
		"kustomize: a missing resource":         {dir: "missing-k", want: []string{"missing-k/kustomization.yaml", "missing-k/missing.yaml"}},
		"kustomize: an object twice":            {dir: "double-k", want: []string{"double-k/kustomization.yaml", "double-k/b.yaml", "already registered id"}},
		"an LFS pointer":                        {dir: "lfs", want: []string{"lfs/a.yaml is a Git LFS pointer"}},
		"kustomize: an LFS pointer":             {dir: "lfs-k", want: []string{"lfs-k/kustomization.yaml", "lfs-k/b.bin is a Git LFS pointer"}},
		"kustomize: Helm":                       {dir: "helm-k", want: []string{"helm-k/kustomization.yaml", "helm"}},
		"kustomize: a function that executes":   {dir: "exec-k", want: []string{"exec-k/kustomization.yaml", "plugin"}},
	} {
		for where, render := range map[string]func() (*Rendered, error){
			"from a commit": func() (*Rendered, error) { return Render(t.Context(), commit, tc.dir, Options{Directory: tc.opts}) },
			"from a disk":   func() (*Rendered, error) { return RenderDir(t.Context(), disk, tc.dir, Options{Directory: tc.opts}) },
		} {
			t.Run(name+", "+where, func(t *testing.T) {
				got, err := render()
				if err == nil {
					t.Fatalf("rendered %v, want an error with %q", places(got), tc.want)
				}
				for _, want := range tc.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error = %v\nwant %q", err, want)
					}
				}
				if strings.Contains(err.Error(), "root:") || strings.Contains(err.Error(), strings.TrimSuffix(repositoryRoot, "/")+"/") || strings.Contains(err.Error(), "\n") {
					t.Errorf("the error has what nobody needs: %v", err)
				}
			})
		}
	}
}

func TestALinkOutsideThePathDoesNoHarm(t *testing.T) {
	tree := commitTree(t, map[string]string{
		"app/a.yaml": configMap("a", "1"), "other/b.yaml": "-> /etc/passwd", "c.yaml": "-> ../../etc/shadow",
		"k/kustomization.yaml": "resources: [a.yaml]", "k/a.yaml": configMap("a", "1"), "k/unused": "-> /etc/passwd",
	})
	for _, dir := range []string{"app", "k"} {
		if got, err := Render(t.Context(), tree, dir, Options{}); err != nil || len(got.Objects) != 1 {
			t.Errorf("Render %s = %v, %v, want one object", dir, got, err)
		}
	}
}

func TestRenderBoundsTheNumberOfFiles(t *testing.T) {
	files := map[string]string{}
	for i := range 100_000 {
		files[fmt.Sprintf("many/%03d/%d.yaml", i/1000, i)] = configMap("a", "")
	}
	files["few/a.yaml"] = configMap("a", "1")
	// Two overlays of two overlays of two …: the objects double with each.
	for i := range 25 {
		files[fmt.Sprintf("x/%d/a/kustomization.yaml", i)] = fmt.Sprintf("namePrefix: a\nresources: [../../%d/a, ../../%d/b]", i+1, i+1)
		files[fmt.Sprintf("x/%d/b/kustomization.yaml", i)] = fmt.Sprintf("namePrefix: b\nresources: [../../%d/a, ../../%d/b]", i+1, i+1)
	}
	files["x/25/a/kustomization.yaml"] = "resources: [a.yaml]"
	files["x/25/b/kustomization.yaml"] = "resources: [a.yaml]"
	files["x/25/a/a.yaml"], files["x/25/b/a.yaml"] = configMap("a", ""), configMap("b", "")
	tree := commitTree(t, files)
	for _, tc := range []struct{ dir, want string }{
		{"many", "more than 50000 files and folders are read by one render"},
		{"x/0/a", "more than 1000 kustomizations are rendered for one"},
	} {
		_, err := Render(t.Context(), tree, tc.dir, Options{Directory: Directory{Recurse: true}})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error = %v", tc.dir, err)
		}
	}
	if _, err := Render(t.Context(), tree, "few", Options{}); err != nil {
		t.Errorf("another folder of the same commit: %v", err)
	}
}

func TestRenderEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Render(ctx, commitTree(t, map[string]string{"a/a.yaml": configMap("a", "1")}), "a", Options{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Render = %v, want context.Canceled", err)
	}
}
