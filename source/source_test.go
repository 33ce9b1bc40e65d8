package source

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) string {
		c := exec.Command("git", args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("init", "-q", "-b", "main")
	for name, content := range map[string]string{
		"plain/a.yaml":              "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: \"1\"\n",
		"plain/values.yaml":         "x: 1\n",
		"base/kustomization.yaml":   "resources: [cm.yaml]\nconfigMapGenerator:\n- name: gen\n  literals: [a=b]\n",
		"base/cm.yaml":              "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: \"1\"\n",
		"overlay/kustomization.yml": "namePrefix: p-\nresources: [../base]\n",
	} {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		os.WriteFile(p, []byte(content), 0o644)
	}
	run("add", ".")
	run("commit", "-qm", "x")
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	ctx := context.Background()
	rev, err := r.Resolve(ctx, "file://"+dir, Auth{}, "main", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := r.Tree(ctx, "file://"+dir, rev.Commit)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"plain", "overlay", "base", "nope"} {
		out, err := Render(ctx, tree, d, Options{})
		if err != nil {
			t.Log(d, err)
			continue
		}
		var b strings.Builder
		WriteYAML(&b, out.Objects)
		t.Log(d, out.Kind, out.Warnings, out.Empty, "\n"+b.String())
		for _, o := range out.Objects {
			t.Log(o.Place())
		}
		for _, i := range out.Inputs {
			t.Log(i)
		}
	}
}
