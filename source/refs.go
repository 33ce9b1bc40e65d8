package source

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// WithRefs returns a view of the tree that has those of other sources in it, each as the folder $NAME in its root, for
// files that a chart's options name there. They are in no listing, and no symbolic link leads from one into another.
func (t *Tree) WithRefs(refs map[string]*Tree) *Tree {
	if len(refs) == 0 {
		return t
	}
	view := *t
	all := refFiles{files: t.files, refs: map[string]files{}}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		all.refs["$"+name] = refs[name].files
		view.others += fmt.Sprintf(" $%s=%s@%s", name, refs[name].repository, refs[name].name)
	}
	view.files = all
	return &view
}

// alone returns the tree without those of other sources: what a repository says reads nothing of another one.
func (t *Tree) alone() *Tree {
	all, ok := t.files.(refFiles)
	if !ok {
		return t
	}
	view := *t
	view.files = all.files
	return &view
}

// refPath returns the path in the tree of a file of another source, as $NAME/path names it; false if it names none.
func (t *Tree) refPath(name string) (clean string, ok bool, err error) {
	if !strings.HasPrefix(name, "$") {
		return "", false, nil
	}
	ref, rest, _ := strings.Cut(name, "/")
	all, _ := t.files.(refFiles)
	if all.refs[ref] == nil {
		return "", true, fmt.Errorf("%q is of another source, and none of the Application's has the ref %s", name, strings.TrimPrefix(ref, "$"))
	}
	if clean, err = cleanPath(rest); err != nil {
		return "", true, err
	}
	return path.Join(ref, clean), true, nil
}

// refFiles are the files of a tree, and below $NAME those of others.
type refFiles struct {
	files
	refs map[string]files
}

// in returns whose file a path is, and its path there.
func (r refFiles) in(name string) (files, string) {
	first, rest, _ := strings.Cut(name, "/")
	if other := r.refs[first]; other != nil {
		return other, rest
	}
	return r.files, name
}

func (r refFiles) lstat(name string) (entry, error) {
	at, rest := r.in(name)
	return at.lstat(rest)
}

func (r refFiles) readDir(name string) ([]entry, error) {
	at, rest := r.in(name)
	return at.readDir(rest)
}

func (r refFiles) read(name string, e entry) ([]byte, error) {
	at, rest := r.in(name)
	return at.read(rest, e)
}

// sameSource reports whether two paths of a tree are of one source.
func (t *Tree) sameSource(a, b string) bool {
	all, ok := t.files.(refFiles)
	if !ok {
		return true
	}
	ref := func(name string) string {
		first, _, _ := strings.Cut(name, "/")
		if all.refs[first] == nil {
			return ""
		}
		return first
	}
	return ref(a) == ref(b)
}
