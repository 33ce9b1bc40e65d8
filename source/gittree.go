package source

import (
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// gitFiles reads the files of a commit from a clone.
type gitFiles struct {
	clone *clone
	root  plumbing.Hash
}

func treeEntries(t *object.Tree) []entry {
	entries := make([]entry, len(t.Entries))
	for i, e := range t.Entries {
		entries[i] = entry{name: e.Name, hash: e.Hash.String(), kind: kindFile}
		switch e.Mode {
		case filemode.Dir:
			entries[i].kind = kindDir
		case filemode.Symlink:
			entries[i].kind = kindLink
		case filemode.Submodule:
			entries[i].kind = kindSubmodule
		}
	}
	// Git sorts directories as if their names ended with a slash.
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries
}

func (g gitFiles) lstat(name string) (entry, error) {
	at := entry{kind: kindDir, hash: g.root.String()}
	for rest := name; rest != ""; {
		var first string
		first, rest, _ = strings.Cut(rest, "/")
		if at.kind != kindDir {
			return entry{}, notExist(name)
		}
		entries, err := g.clone.tree(plumbing.NewHash(at.hash))
		if err != nil {
			return entry{}, err
		}
		i, ok := slices.BinarySearchFunc(entries, first, func(e entry, n string) int { return strings.Compare(e.name, n) })
		if !ok {
			return entry{}, notExist(name)
		}
		at = entries[i]
	}
	return at, nil
}

func (g gitFiles) readDir(name string) ([]entry, error) {
	dir, err := g.lstat(name)
	if err != nil {
		return nil, err
	}
	return g.clone.tree(plumbing.NewHash(dir.hash))
}

func (g gitFiles) read(name string, e entry) ([]byte, error) {
	return g.clone.blob(name, plumbing.NewHash(e.hash))
}
