package source

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// OpenDir returns the folder at root on disk as a Tree. Nothing outside of it can be read through the Tree, whatever
// symbolic links say. Close releases the folder.
func OpenDir(root string) (*Tree, io.Closer, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, nil, fmt.Errorf("opening %s: %w", root, err)
	}
	return &Tree{name: root, files: diskFiles{r}}, r, nil
}

// diskFiles reads a folder on disk. os.Root holds it to that folder even if links change while it is read.
type diskFiles struct{ root *os.Root }

func (d diskFiles) lstat(name string) (entry, error) {
	if name == "" {
		name = "."
	}
	info, err := d.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return entry{}, err
	}
	return diskEntry(info), nil
}

func diskEntry(info fs.FileInfo) entry {
	e := entry{name: info.Name()}
	switch info.Mode().Type() {
	case 0:
		e.kind = kindFile
	case fs.ModeDir:
		e.kind = kindDir
	case fs.ModeSymlink:
		e.kind = kindLink
	default:
		e.kind = kindOther
	}
	return e
}

func (d diskFiles) readDir(name string) ([]entry, error) {
	if name == "" {
		name = "."
	}
	f, err := d.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	infos, err := f.Readdir(-1)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, info := range infos {
		if name == "." && info.Name() == ".git" {
			continue // Git's own folder is no part of a commit either
		}
		entries = append(entries, diskEntry(info))
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}

func (d diskFiles) read(name string, e entry) ([]byte, error) {
	if e.kind == kindLink {
		target, err := d.root.Readlink(filepath.FromSlash(name))
		return []byte(filepath.ToSlash(target)), err
	}
	f, err := d.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, tooLarge(name, info.Size())
	}
	return io.ReadAll(io.LimitReader(f, maxFileBytes)) // it may grow while it is read
}
