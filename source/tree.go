package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Limits of one render. They are far above what people keep in a folder of manifests and bound the memory and time that
// a repository can cost.
const (
	maxFileBytes  = 10 << 20
	maxTotalBytes = 256 << 20
	maxReads      = 50_000
	maxObjects    = 50_000
	maxCharts     = 50 // in one render of a kustomization
	maxLinks      = 40
)

// A Tree is a read-only view of the files of one commit, of a chart, or of a folder on disk. Paths are relative to its root and use
// slashes; "" and "." are the root. Symbolic links are followed inside the tree; one that leaves it is an error for
// whoever follows it and no harm otherwise. Errors wrap fs.ErrNotExist where a path does not exist.
//
// A Tree may be used concurrently.
type Tree struct {
	repository string // "" for a folder on disk
	name       string // the commit, the revision of the chart, or the folder
	chart      string // the folder in it that has a chart and is all of it; "" else
	files      files
	others     string    // the commits of other sources that are in it
	rec        *recorder // nil: do not record
	opener     *opener   // nil: do not decrypt
	remotes    *Remotes  // nil: nothing outside of it may be named
}

// files is what a Tree reads: the object database of a clone or a folder on disk. Paths are clean and no component but
// the last is a symbolic link. Errors wrap fs.ErrNotExist where there is no such entry.
type files interface {
	lstat(name string) (entry, error)
	readDir(name string) ([]entry, error)      // sorted by name
	read(name string, e entry) ([]byte, error) // refuses what is larger than maxFileBytes
}

type entryKind string

const (
	kindFile      entryKind = "file"
	kindDir       entryKind = "directory"
	kindLink      entryKind = "symbolic link"
	kindSubmodule entryKind = "submodule"
	kindOther     entryKind = "special file"
)

type entry struct {
	name string
	kind entryKind
	hash string // of the content, if it is known without reading
}

func tooLarge(name string, size int64) error {
	return fmt.Errorf("%s has %d MiB, more than the %d MiB that a file may have", name, size>>20, maxFileBytes>>20)
}

// Commit returns the commit the tree shows, the revision of the chart, or the folder it was opened from.
func (t *Tree) Commit() string { return t.name }

// recorded returns a view of the same tree that notes in r what is read through it.
func (t *Tree) recorded(r *recorder) *Tree {
	view := *t
	view.rec = r
	return &view
}

// opened returns a view of the same tree whose encrypted files are read as what they have in them.
func (t *Tree) opened(keys *DecryptionKeys) *Tree {
	view := *t
	view.opener = &opener{keys: keys, secrets: map[string]bool{}}
	return &view
}

func (t *Tree) isCommit() bool { return t.repository != "" }

// dirHash returns the hash of all that is in and below a directory, "" if it is not known.
func (t *Tree) dirHash(dir string) string {
	clean, err := cleanPath(dir)
	if err != nil {
		return ""
	}
	e, err := t.files.lstat(clean)
	if err != nil || e.kind != kindDir {
		return ""
	}
	return e.hash
}

// ReadFile returns the content of a file, at most 10 MiB: a larger file is refused before it is read. While it is
// rendered from, a file that is encrypted is returned decrypted.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	real, e, err := t.resolve(name)
	if err != nil {
		return nil, err
	}
	switch e.kind {
	case kindFile:
	case kindDir:
		return nil, fmt.Errorf("%s is a directory, not a file", name)
	default:
		return nil, fmt.Errorf("%s is a %s, not a file", name, e.kind)
	}
	content, err := t.files.read(real, e)
	if err != nil {
		return nil, err
	}
	if err := t.rec.file(real, e, content); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if bytes.HasPrefix(content, []byte(lfsPointer)) {
		return nil, fmt.Errorf("%s is a Git LFS pointer, not the file: LFS objects are not fetched; keep what is rendered in Git itself", name)
	}
	return t.opener.open(name, content)
}

const lfsPointer = "version https://git-lfs.github.com/spec/v1\n"

// ReadDir returns the names in a directory in order, those of directories with a slash at their end. A link to a
// directory counts as a link: it has none.
func (t *Tree) ReadDir(name string) ([]string, error) {
	entries, err := t.entries(name)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
		if e.kind == kindDir {
			names[i] += "/"
		}
	}
	return names, nil
}

func (t *Tree) entries(name string) ([]entry, error) {
	real, e, err := t.resolve(name)
	if err != nil {
		return nil, err
	}
	if e.kind != kindDir {
		return nil, fmt.Errorf("%s is a %s, not a directory", name, e.kind)
	}
	entries, err := t.files.readDir(real)
	if err != nil {
		return nil, err
	}
	return entries, t.rec.listing(real, entries)
}

// IsDir reports whether name is a directory, links followed. An error is one of reading, not a miss.
func (t *Tree) IsDir(name string) (bool, error) {
	kind, err := t.stat(name)
	return kind == kindDir, err
}

// IsFile reports whether name is a file, links followed. An error is one of reading, not a miss.
func (t *Tree) IsFile(name string) (bool, error) {
	kind, err := t.stat(name)
	return kind == kindFile, err
}

// stat returns the kind of what name leads to, "" if there is nothing.
func (t *Tree) stat(name string) (entryKind, error) {
	real, e, err := t.resolve(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return e.kind, t.rec.stat(real, e)
}

// resolve follows the symbolic links in name and returns where it leads.
func (t *Tree) resolve(name string) (string, entry, error) {
	rest, err := cleanPath(name)
	if err != nil {
		return "", entry{}, err
	}
	at, e := "", entry{kind: kindDir}
	for links := 0; rest != ""; {
		first, tail, _ := strings.Cut(rest, "/")
		next := path.Join(at, first)
		if e.kind == kindDir {
			e, err = t.files.lstat(next)
		} else {
			err = notExist(next)
		}
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				t.rec.miss(next)
				err = notExist(name)
			}
			return "", entry{}, err
		}
		if e.kind != kindLink {
			at, rest = next, tail
			continue
		}
		if links++; links > maxLinks {
			return "", entry{}, fmt.Errorf("%s: more than %d symbolic links follow one another", name, maxLinks)
		}
		target, err := t.linkTarget(next, e)
		if err != nil {
			return "", entry{}, err
		}
		at, rest, e = "", path.Join(target, tail), entry{kind: kindDir}
		if rest == "." {
			rest = ""
		}
	}
	return at, e, nil
}

// linkTarget returns where a symbolic link leads, relative to the root of the tree.
func (t *Tree) linkTarget(name string, e entry) (string, error) {
	content, err := t.files.read(name, e)
	if err != nil {
		return "", err
	}
	if err := t.rec.link(name, e, content); err != nil {
		return "", err
	}
	if path.IsAbs(string(content)) {
		return "", fmt.Errorf("%s is a symbolic link that leaves the repository", name)
	}
	target, err := cleanPath(path.Join(path.Dir(name), string(content)))
	if err != nil || !t.sameSource(name, target) {
		return "", fmt.Errorf("%s is a symbolic link that leaves the repository", name)
	}
	return target, nil
}

// cleanPath returns name without dots and slashes at its ends, "" for the root.
func cleanPath(name string) (string, error) {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("%s leaves the repository", name)
	}
	if clean == "." {
		return "", nil
	}
	return clean, nil
}

func notExist(name string) error {
	return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// checkDir returns an error that helps to find the right path when dir is no directory of the tree.
func (t *Tree) checkDir(dir string) error {
	kind, err := t.stat(dir)
	if err != nil {
		return err
	}
	switch kind {
	case kindDir:
		return nil
	case "":
	default:
		return fmt.Errorf("path %q is a %s in %s: spec.source.path must be a directory", dir, kind, t.name)
	}
	clean, err := cleanPath(dir)
	if err != nil {
		return err
	}
	for missing := clean; ; missing = path.Dir(missing) {
		parent := path.Dir(missing)
		names, err := t.ReadDir(parent)
		if err == nil {
			return fmt.Errorf("path %q does not exist in %s%s", dir, t.name, describeFolders(parent, path.Base(missing), names))
		}
		if parent == "." {
			return err
		}
	}
}

func describeFolders(parent, missing string, names []string) string {
	var folders []string
	for _, n := range names {
		if folder, ok := strings.CutSuffix(n, "/"); ok {
			folders = append(folders, path.Join(parent, folder))
		}
	}
	where := parent
	if where == "." {
		where = "its root"
	}
	if len(folders) == 0 {
		return fmt.Sprintf(": there are no folders in %s", where)
	}
	return fmt.Sprintf(": in %s there are %s", where, strings.Join(nearest(path.Join(parent, missing), folders, 8), ", "))
}

// nearest returns up to n of names, those most like wanted first.
func nearest(wanted string, names []string, n int) []string {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int {
		return levenshtein.ComputeDistance(wanted, a) - levenshtein.ComputeDistance(wanted, b)
	})
	if len(names) > n {
		return append(names[:n:n], fmt.Sprintf("and %d more", len(names)-n))
	}
	return names
}
