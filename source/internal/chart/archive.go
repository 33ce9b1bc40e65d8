// Package chart reads what chart repositories and registries hold: lists of versions, indexes, and the archives that
// charts come in. It asks no server, runs nothing, and takes all of it for hostile. Start reading at Unpack.
package chart

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Limits of one archive. Helm's own charts have a hundredth of it.
const (
	MaxArchive  = 20 << 20 // as it is fetched
	maxUnpacked = 40 << 20 // which is what the renderer takes
	maxFile     = 10 << 20
	maxEntries  = 10_000
	maxName     = 1024
	maxDepth    = 50 // folders within one another
)

// An Archive is an unpacked chart. Paths are relative to its folder, which is "". It is never changed once it is made.
type Archive struct {
	files map[string][]byte
	dirs  map[string][]Entry
	bytes int
}

// An Entry is a file or a folder in a folder.
type Entry struct {
	Name string
	Dir  bool
}

// Unpack reads a chart's archive, a gzipped tar file as `helm package` makes it, into memory. All of it is below one
// folder, whose name does not count. The error names the entry; an archive that is too large, has links or devices, or
// entries outside of the folder is one.
func Unpack(r io.Reader) (*Archive, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("it is no gzipped archive: %w", err)
	}
	stream := &limited{r: unzipped, left: maxUnpacked}
	a := &Archive{files: map[string][]byte{}, dirs: map[string][]Entry{"": nil}}
	entries := tar.NewReader(stream)
	for n := 0; ; n++ {
		head, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the archive after %d entries: %w", n, err)
		}
		if n >= maxEntries {
			return nil, fmt.Errorf("it has more than the %d entries that a chart may have", maxEntries)
		}
		if err := a.add(head, entries); err != nil {
			return nil, fmt.Errorf("its entry %.200q %w", head.Name, err)
		}
	}
	if _, ok := a.files["Chart.yaml"]; !ok {
		return nil, errors.New("it has no Chart.yaml in its folder: it is no chart")
	}
	for dir := range a.dirs {
		slices.SortFunc(a.dirs[dir], func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	}
	return a, nil
}

// add takes one entry. The error goes on after the entry's name.
func (a *Archive) add(head *tar.Header, r io.Reader) error {
	switch head.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir, tar.TypeXGlobalHeader:
		return nil
	case tar.TypeSymlink, tar.TypeLink:
		return errors.New("is a link, which a chart may not have")
	default:
		return errors.New("is no file and no folder")
	}
	name, err := within(head.Name)
	if err != nil {
		return err
	}
	if head.Size > maxFile {
		return fmt.Errorf("has %d MiB, more than the %d MiB that a file may have", head.Size>>20, maxFile>>20)
	}
	if a.bytes += int(head.Size); a.bytes > maxUnpacked {
		return errUnpacked // also where nothing of it is in the stream: the holes of a sparse file
	}
	content, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if _, ok := a.files[name]; ok {
		return errors.New("is there twice")
	}
	if _, ok := a.dirs[name]; ok {
		return errors.New("is a folder too")
	}
	a.files[name] = content
	return a.enter(name, false)
}

// enter lists a file or folder in the folder that it is in.
func (a *Archive) enter(name string, dir bool) error {
	parent, base := path.Split(name)
	parent = strings.TrimSuffix(parent, "/")
	if _, ok := a.files[parent]; ok {
		return fmt.Errorf("is below %s, which is a file", parent)
	}
	_, known := a.dirs[parent]
	a.dirs[parent] = append(a.dirs[parent], Entry{base, dir})
	if known {
		return nil
	}
	return a.enter(parent, true)
}

// within returns the path of an entry below the chart's folder.
func within(name string) (string, error) {
	name = strings.ReplaceAll(name, `\`, "/") // as Helm has made archives on Windows
	switch {
	case path.IsAbs(name) || len(name) > 1 && name[1] == ':':
		return "", errors.New("has an absolute path")
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "", errors.New("leaves the chart's folder")
	case len(name) > maxName || strings.Count(name, "/") > maxDepth:
		return "", errors.New("has too long a path")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", errors.New("has control characters in its name")
	}
	_, rest, _ := strings.Cut(path.Clean(name), "/")
	if rest == "" {
		return "", errors.New("is outside of the chart's folder")
	}
	return rest, nil
}

// File returns the content of a file, which must not be changed; false if there is none.
func (a *Archive) File(name string) ([]byte, bool) {
	content, ok := a.files[name]
	return content, ok
}

// Dir returns what is in a folder, sorted by name; false if there is none.
func (a *Archive) Dir(name string) ([]Entry, bool) {
	entries, ok := a.dirs[name]
	return entries, ok
}

var errUnpacked = fmt.Errorf("makes it unpack to more than the %d MiB that a chart may have", maxUnpacked>>20)

// limited fails, rather than ends, when more is read than it has left.
type limited struct {
	r    io.Reader
	left int64
	err  error // which to return then; errUnpacked by default
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, cmp.Or(l.err, errUnpacked)
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
