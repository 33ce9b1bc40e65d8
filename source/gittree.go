package source

import (
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// gitFiles reads the files of a commit from a clone, and those of its submodules from theirs.
type gitFiles struct {
	clone      *clone
	root       plumbing.Hash
	submodules *submodules // nil: they are shown as what they are
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
	_, e, err := g.find(name)
	return e, err
}

// find returns an entry and the clone that its content is in.
func (g gitFiles) find(name string) (gitFiles, entry, error) {
	at, done := entry{kind: kindDir, hash: g.root.String()}, ""
	for rest := name; rest != ""; {
		var first string
		first, rest, _ = strings.Cut(rest, "/")
		if at.kind != kindDir {
			return g, entry{}, notExist(name)
		}
		entries, err := g.clone.tree(plumbing.NewHash(at.hash))
		if err != nil {
			return g, entry{}, err
		}
		i, ok := slices.BinarySearchFunc(entries, first, func(e entry, n string) int { return strings.Compare(e.name, n) })
		if !ok {
			return g, entry{}, notExist(name)
		}
		at, done = entries[i], path.Join(done, first)
		if at.kind != kindSubmodule || g.submodules == nil {
			continue
		}
		if sub, ok := g.submodules.open(done, at.hash); ok {
			if rest != "" {
				return sub.find(rest)
			}
			return sub, entry{first, kindDir, sub.root.String()}, nil
		}
	}
	return g, at, nil
}

func (g gitFiles) readDir(name string) ([]entry, error) {
	in, dir, err := g.find(name)
	if err != nil {
		return nil, err
	}
	entries, err := in.clone.tree(plumbing.NewHash(dir.hash))
	if err != nil || !slices.ContainsFunc(entries, func(e entry) bool { return e.kind == kindSubmodule }) {
		return entries, err
	}
	entries = slices.Clone(entries)
	for i, e := range entries {
		if e.kind == kindSubmodule {
			if entries[i], err = g.lstat(path.Join(name, e.name)); err != nil {
				return nil, err
			}
		}
	}
	return entries, nil
}

func (g gitFiles) read(name string, e entry) ([]byte, error) {
	in, _, err := g.find(name)
	if err != nil {
		return nil, err
	}
	return in.clone.blob(name, plumbing.NewHash(e.hash))
}
