package source

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	gosync "sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/trueup/trueup/testdata/kubetest"
)

// archive returns the files of a txtar archive.
func archive(t testing.TB, name string) map[string]string {
	t.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}
	return files
}

func kustomizations(files map[string]string) []string {
	var dirs []string
	for name := range files {
		if slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name)) {
			dirs = append(dirs, path.Dir(name))
		}
	}
	slices.Sort(dirs)
	return dirs
}

// TestKustomizeIsKubectls renders each kustomization of testdata/kustomize by `kubectl kustomize` too.
func TestKustomizeIsKubectls(t *testing.T) {
	kubectl := kubetest.Shared(t).KubectlPath()
	archives, err := filepath.Glob("testdata/kustomize/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var rendered, refused, total int
	var mu gosync.Mutex
	t.Run("all", func(t *testing.T) {
		for _, name := range archives {
			files := archive(t, name)
			disk, commit := writeFiles(t, files), commitTree(t, files)
			for _, dir := range kustomizations(files) {
				total++
				t.Run(strings.TrimSuffix(path.Base(name), ".txtar")+"/"+dir, func(t *testing.T) {
					t.Parallel()
					var want, stderr bytes.Buffer
					cmd := exec.Command(kubectl, "kustomize", dir)
					cmd.Dir, cmd.Stdout, cmd.Stderr = disk, &want, &stderr
					wantErr := cmd.Run()
					for where, render := range map[string]func() (*Rendered, error){
						"commit": func() (*Rendered, error) { return Render(t.Context(), commit, dir, Options{}) },
						"disk":   func() (*Rendered, error) { return RenderDir(t.Context(), disk, dir, Options{}) },
					} {
						got, err := render()
						if (err == nil) != (wantErr == nil) {
							t.Errorf("from a %s: error = %v, of kubectl: %v: %s", where, err, wantErr, stderr.String())
						}
						if err != nil {
							continue
						}
						var out bytes.Buffer
						if err := WriteYAML(&out, got.Objects); err != nil {
							t.Fatal(err)
						}
						if diff := cmp.Diff(want.String(), out.String()); diff != "" {
							t.Errorf("from a %s (-kubectl +ours):\n%s", where, diff)
						}
					}
					mu.Lock()
					defer mu.Unlock()
					if wantErr == nil {
						rendered++
					} else {
						refused++
					}
				})
			}
		}
	})
	t.Logf("of %d kustomizations kubectl renders %d and refuses %d", total, rendered, refused)
	if rendered < 80 {
		t.Errorf("kubectl renders %d kustomizations: the comparison is worth little below 80", rendered)
	}
}

// A requestCounter is a server that counts who comes.
type requestCounter struct {
	*httptest.Server
	n atomic.Int64
}

func newRequestCounter(t *testing.T) *requestCounter {
	c := &requestCounter{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.n.Add(1) }))
	t.Cleanup(c.Close)
	return c
}

func (c *requestCounter) count() int64 { return c.n.Load() }

func TestNothingRemoteIsTouched(t *testing.T) {
	// A git that tells when it is run.
	bin, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	if err := os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho \"$@\" >> "+ran+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	server := newRequestCounter(t)
	url := server.URL + "/x.yaml"
	plugin := "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: x}\n"
	files := map[string]string{
		"a.yaml":                                  configMap("a", "1"),
		"resource-file/kustomization.yaml":        "resources: ['" + url + "']",
		"resource-git/kustomization.yaml":         "resources: ['github.com/org/repo//path?ref=v1']",
		"resource-git-https/kustomization.yaml":   "resources: ['https://127.0.0.1:1/org/repo.git//path?ref=v1']",
		"resource-git-ssh/kustomization.yaml":     "resources: ['ssh://git@127.0.0.1/org/repo']",
		"resource-scp/kustomization.yaml":         "resources: ['git@127.0.0.1:org/repo']",
		"resource-file-url/kustomization.yaml":    "resources: ['file:///etc']",
		"resource-forced/kustomization.yaml":      "resources: ['git::https://127.0.0.1:1/org/repo']",
		"resource-case/kustomization.yaml":        "resources: ['GitHub.COM/org/repo']",
		"resource-scheme-case/kustomization.yaml": "resources: ['HTTP://127.0.0.1:1/a/b']",
		"resource-user/kustomization.yaml":        "resources: ['https://user:SECRET@127.0.0.1:1/org/repo']",
		"base/kustomization.yaml":                 "bases: ['github.com/org/repo']",
		"component/kustomization.yaml":            "resources: []\ncomponents: ['github.com/org/repo']",
		"below/kustomization.yaml":                "resources: [../resource-git]",
		"patch/kustomization.yaml":                "resources: [a.yaml]\npatches: [{path: '" + url + "'}]",
		"patch-merge/kustomization.yaml":          "patchesStrategicMerge: ['" + url + "']",
		"patch-json/kustomization.yaml":           "patchesJson6902: [{path: '" + url + "', target: {kind: A}}]",
		"generator-file/kustomization.yaml":       "configMapGenerator: [{name: a, files: ['" + url + "']}]",
		"generator-key/kustomization.yaml":        "secretGenerator: [{name: a, files: ['k=" + url + "']}]",
		"generator-env/kustomization.yaml":        "configMapGenerator: [{name: a, envs: ['" + url + "']}]",
		"generator-old-env/kustomization.yaml":    "configMapGenerator: [{name: a, env: '" + url + "'}]",
		"crds/kustomization.yaml":                 "crds: ['" + url + "']",
		"configurations/kustomization.yaml":       "configurations: ['" + url + "']",
		"openapi/kustomization.yaml":              "openapi: {path: '" + url + "'}\nnamespace: x",
		"replacements/kustomization.yaml":         "replacements: [{path: '" + url + "'}]",
		"transformers/kustomization.yaml":         "transformers: ['" + url + "']",
		"plugin-inline/kustomization.yaml":        "transformers:\n- |-\n  " + strings.ReplaceAll(plugin+"path: "+url, "\n", "\n  "),
		"plugin-flow/kustomization.yaml":          "transformers: ['{apiVersion: builtin, kind: PatchTransformer, metadata: {name: x}, path: \"" + url + "\"}']",
		"plugin-file/kustomization.yaml":          "transformers: [t.yaml]",
		"plugin-file/t.yaml":                      plugin + "Path: " + url,
		"plugin-list/kustomization.yaml":          "transformers: [t.yaml]",
		"plugin-list/t.yaml":                      "apiVersion: builtin\nkind: PatchStrategicMergeTransformer\nmetadata: {name: x}\npaths: [a.yaml, '" + url + "']",
		"plugin-generator/kustomization.yaml":     "generators: [t.yaml]",
		"plugin-generator/t.yaml":                 "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: ['k=" + url + "']",
		"plugin-validator/kustomization.yaml":     "validators: [t.yaml]",
		"plugin-validator/t.yaml":                 plugin + "path: " + url,
		"plugin-folder/kustomization.yaml":        "transformers: [t]",
		"plugin-folder/t/kustomization.yaml":      "resources: [t.yaml]",
		"plugin-folder/t/t.yaml":                  plugin + "path: " + url,
		"plugin-patched/kustomization.yaml":       "transformers: [t]",
		"plugin-patched/t/kustomization.yaml":     "resources: [t.yaml]\npatches: [{target: {kind: PatchTransformer}, patch: '[{\"op\": \"add\", \"path\": \"/path\", \"value\": \"" + url + "\"}]'}]",
		"plugin-patched/t/t.yaml":                 plugin,
		"linked/kustomization.yaml":               "-> real.txt",
		"linked/real.txt":                         "resources: ['" + url + "']",
		"linked-below/Kustomization":              "-> sub/real.txt",
		"linked-below/sub/real.txt":               "transformers: [t.yaml]",
		"linked-below/t.yaml":                     plugin + "path: " + url,
		"linked-folder/kustomization.yaml":        "resources: [link]",
		"linked-folder/link":                      "-> ../linked",
		"plugin-loop/kustomization.yaml":          "transformers: [../plugin-loop-b]",
		"plugin-loop-b/kustomization.yaml":        "transformers: [../plugin-loop]",
		"overridden/kustomization.yaml":           "resources: [../a]",
		"a/kustomization.yaml":                    "resources: [a.yaml]",
		"a/a.yaml":                                configMap("a", "1"),
	}
	tree, disk := commitTree(t, files), writeFiles(t, files)
	t.Setenv("PATH", bin)
	for _, dir := range kustomizations(files) {
		var opts Options
		switch dir {
		case "a", "plugin-folder/t", "plugin-patched/t": // harmless by themselves
			continue
		case "overridden":
			opts.Kustomize.Patches = []Patch{{Path: url}}
		}
		t.Run(dir, func(t *testing.T) {
			for where, render := range map[string]func() (*Rendered, error){
				"commit": func() (*Rendered, error) { return Render(t.Context(), tree, dir, opts) },
				"disk":   func() (*Rendered, error) { return RenderDir(t.Context(), disk, dir, opts) },
			} {
				got, err := render()
				want := "is remote, and remote resources are not fetched, as the agent's setting kustomize-allowed-remotes is empty"
				if strings.HasPrefix(dir, "plugin-loop") {
					want = "levels deep"
				}
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(strings.ToLower(err.Error()), "kustomization") {
					t.Errorf("from a %s: %v, %v, want that it %s", where, got, err, want)
				}
				if err != nil && strings.Contains(err.Error(), "SECRET") {
					t.Errorf("the error tells the password: %v", err)
				}
			}
		})
	}
	if n := server.count(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
	if out, err := os.ReadFile(ran); err == nil {
		t.Errorf("git was run: %s", out)
	}
}

// TestAPanicLeavesKustomizeToOthers guards the lock that all renders of kustomizations share.
func TestAPanicLeavesKustomizeToOthers(t *testing.T) {
	tree := commitTree(t, map[string]string{"kustomization.yaml": "namePrefix: a-\n"})
	kfs, err := newKustomizeFS(t.Context(), tree, "kustomization.yaml", Kustomize{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kfs.read = nil // that is written to
	func() {
		defer func() {
			if recover() == nil {
				t.Error("there should have been a panic")
			}
		}()
		_, _ = runKustomize(kfs)
	}()
	deadline := time.Now().Add(10 * time.Second)
	for !openAPI.TryLock() { // another test may hold it for now
		if time.Now().After(deadline) {
			t.Fatal("the lock is held for good")
		}
		runtime.Gosched()
	}
	openAPI.Unlock()
}
