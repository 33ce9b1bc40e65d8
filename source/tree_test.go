package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzTree looks for a path, through links with any target, that leads out of the tree.
func FuzzTree(f *testing.F) {
	for _, seed := range [][3]string{
		{"a/link", "../b", ""}, {"link/secret", "../outside", ""}, {"link", "/etc/passwd", ""}, {"x/../../outside/secret", "", ""},
		{"link/link", "link2", "."}, {"link/../secret", "b/..", ".."}, {"./link//secret", "./../outside/", "b"}, {"link", "link", "link2"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, name, target, target2 string) {
		dir := t.TempDir()
		root := filepath.Join(dir, "root")
		for file, content := range map[string]string{"outside/secret": "SECRET", "root/b/inside": "inside"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for link, to := range map[string]string{"link": target, "link2": target2} {
			if to == "" || strings.ContainsRune(to, 0) {
				continue
			}
			if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
				return // the file system takes no such name
			}
		}
		tree, closer, err := OpenDir(root)
		if err != nil {
			t.Fatal(err)
		}
		defer closer.Close()
		if content, err := tree.ReadFile(name); err == nil && string(content) != "inside" {
			t.Errorf("%q through %q and %q reads %q", name, target, target2, content)
		}
		if names, err := tree.ReadDir(name); err == nil {
			for _, n := range names {
				if n != "b/" && n != "inside" && n != "link" && n != "link2" {
					t.Errorf("%q through %q and %q lists %q", name, target, target2, n)
				}
			}
		}
		real, e, err := tree.resolve(name)
		if err == nil && (strings.HasPrefix(real, "..") || filepath.IsAbs(real) || e.kind == kindLink) {
			t.Errorf("%q through %q and %q resolves to %q, a %s", name, target, target2, real, e.kind)
		}
	})
}
