package source

import (
	"fmt"
	"path"
	"strings"
)

// globTree returns the files that a pattern matches, in the order of their names: as path.Match does in each folder, and **
// stands for any number of folders. Links to folders are not followed for **.
func globTree(tree *Tree, pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q is no pattern", pattern)
	}
	g := treeGlob{tree: tree}
	err := g.match("", strings.Split(pattern, "/"))
	return g.found, err
}

type treeGlob struct {
	tree  *Tree
	found []string
}

// match appends the files below dir that the rest of the pattern matches.
func (g *treeGlob) match(dir string, rest []string) error {
	first, rest := rest[0], rest[1:]
	if !strings.ContainsAny(first, "*?[") {
		return g.step(path.Join(dir, first), rest)
	}
	if isDir, err := g.tree.IsDir(dir); err != nil || !isDir {
		return err
	}
	entries, err := g.tree.entries(dir)
	if err != nil {
		return err
	}
	if first == "**" {
		if len(rest) == 0 {
			rest = []string{"*"}
		}
		if err := g.match(dir, rest); err != nil {
			return err
		}
		for _, e := range entries {
			if e.kind == kindDir {
				if err := g.match(path.Join(dir, e.name), append([]string{"**"}, rest...)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, e := range entries {
		if ok, _ := path.Match(first, e.name); ok {
			if err := g.step(path.Join(dir, e.name), rest); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *treeGlob) step(name string, rest []string) error {
	if len(rest) > 0 {
		return g.match(name, rest)
	}
	ok, err := g.tree.IsFile(name)
	if ok {
		g.found = append(g.found, name)
	}
	return err
}
