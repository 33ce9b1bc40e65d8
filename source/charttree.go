package source

import (
	"path"
	"strings"

	"github.com/trueup/trueup/source/internal/chart"
)

// archiveFiles are the files of a chart's archive, in a folder that is called as the chart. It is unpacked only once
// something in the folder is asked for.
type archiveFiles struct {
	folder string
	digest string
	load   func() (*chart.Archive, error)
}

// open returns the archive, and the path in it of a name in the folder.
func (f archiveFiles) open(name string) (a *chart.Archive, rest string, err error) {
	first, rest, _ := strings.Cut(name, "/")
	if first != f.folder {
		return nil, "", notExist(name)
	}
	a, err = f.load()
	return a, rest, err
}

func (f archiveFiles) lstat(name string) (entry, error) {
	if name == "" || name == f.folder {
		return entry{name: name, kind: kindDir, hash: f.digest}, nil
	}
	a, rest, err := f.open(name)
	if err != nil {
		return entry{}, err
	}
	if _, ok := a.File(rest); ok {
		return entry{name: path.Base(rest), kind: kindFile}, nil
	}
	if _, ok := a.Dir(rest); ok {
		return entry{name: path.Base(rest), kind: kindDir}, nil
	}
	return entry{}, notExist(name)
}

func (f archiveFiles) readDir(name string) ([]entry, error) {
	if name == "" {
		return []entry{{name: f.folder, kind: kindDir, hash: f.digest}}, nil
	}
	a, rest, err := f.open(name)
	if err != nil {
		return nil, err
	}
	list, ok := a.Dir(rest)
	if !ok {
		return nil, notExist(name)
	}
	entries := make([]entry, len(list))
	for i, e := range list {
		entries[i] = entry{name: e.Name, kind: kindFile}
		if e.Dir {
			entries[i].kind = kindDir
		}
	}
	return entries, nil
}

func (f archiveFiles) read(name string, _ entry) ([]byte, error) {
	a, rest, err := f.open(name)
	if err != nil {
		return nil, err
	}
	content, ok := a.File(rest)
	if !ok {
		return nil, notExist(name)
	}
	return content, nil
}
