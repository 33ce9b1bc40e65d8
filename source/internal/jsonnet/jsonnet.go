// Package jsonnet evaluates the Jsonnet files of a repository in the child process of a sandbox. Start reading at Worker.
package jsonnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	lib "github.com/google/go-jsonnet"
	"github.com/google/go-jsonnet/ast"

	"github.com/trueup/trueup/source/internal/sandbox"
)

// Worker is the name by which a sandbox runs it: the request is a Request as JSON, the answer a list of texts of JSON,
// one for each file.
const Worker = "jsonnet"

var _ = register()

func register() bool {
	sandbox.Register(Worker, work)
	return true
}

// A Request says what to evaluate.
type Request struct {
	Files         []string
	Libs          []string // folders in which imports are looked for, after that of the file that imports
	ExtVars, TLAs []Var
}

// A Var is a string, or with Code an expression.
type Var struct {
	Name, Value string
	Code        bool
}

func work(request []byte, files sandbox.Files) ([]byte, error) {
	var req Request
	if err := json.Unmarshal(request, &req); err != nil {
		return nil, err
	}
	imp := &importer{files: files, libs: req.Libs, known: map[string]lib.Contents{}}
	outputs := make([]string, len(req.Files))
	for i, file := range req.Files {
		sandbox.At(files, file)
		vm := lib.MakeVM()
		vm.Importer(imp)
		vm.SetTraceOut(io.Discard)
		vm.ErrorFormatter = &formatter{file: file}
		for _, v := range req.ExtVars {
			if v.Code {
				vm.ExtCode(v.Name, v.Value)
			} else {
				vm.ExtVar(v.Name, v.Value)
			}
		}
		for _, v := range req.TLAs {
			if v.Code {
				vm.TLACode(v.Name, v.Value)
			} else {
				vm.TLAVar(v.Name, v.Value)
			}
		}
		var err error
		// Rooted, so that a file's own folder is told from a library's.
		if outputs[i], err = vm.EvaluateFile("/" + file); err != nil {
			return nil, err
		}
	}
	return json.Marshal(outputs)
}

// importer reads from the repository only. What it found stays the same for as long as it is used.
type importer struct {
	files sandbox.Files
	libs  []string
	known map[string]lib.Contents
}

func (i *importer) Import(from, name string) (lib.Contents, string, error) {
	if from == "" {
		// The file that is evaluated, by its own name.
		return i.read(strings.TrimPrefix(name, "/"))
	}
	if path.IsAbs(name) {
		return lib.Contents{}, "", fmt.Errorf("import of the absolute path %s: only files of the repository are read", name)
	}
	// Not cleaned: where a path leads out of the repository, that is to be said.
	dirs := append([]string{path.Dir(from)}, i.libs...)
	for _, dir := range dirs {
		contents, at, err := i.read(join(dir, name))
		switch {
		case err == nil:
			return contents, at, nil
		case !errors.Is(err, fs.ErrNotExist):
			return lib.Contents{}, "", fmt.Errorf("import of %s: %w", name, err)
		}
	}
	return lib.Contents{}, "", fmt.Errorf("import of %s: there is no such file in %s", name, describe(dirs))
}

// join returns a path relative to the root of the repository; one that climbs out of it begins with dots.
func join(dir, name string) string { return path.Clean(path.Join(strings.TrimPrefix(dir, "/"), name)) }

func describe(dirs []string) string {
	var names []string
	for _, dir := range dirs {
		if dir = strings.Trim(dir, "/"); dir == "" || dir == "." {
			dir = "the root of the repository"
		}
		if !slices.Contains(names, dir) {
			names = append(names, dir)
		}
	}
	return strings.Join(names, ", ")
}

func (i *importer) read(name string) (lib.Contents, string, error) {
	if known, ok := i.known[name]; ok {
		return known, "/" + name, nil
	}
	content, err := i.files.ReadFile(name)
	if err != nil {
		return lib.Contents{}, "", err
	}
	i.known[name] = lib.MakeContentsRaw(content)
	return i.known[name], "/" + name, nil
}

// formatter says an error in one line that begins with the place in the repository where it happened.
type formatter struct{ file string }

func (f *formatter) SetMaxStackTraceSize(int)             {}
func (f *formatter) SetColorFormatter(lib.ColorFormatter) {}

func (f *formatter) Format(err error) string {
	message := strings.Join(strings.Fields(err.Error()), " ")
	var runtime lib.RuntimeError
	if errors.As(err, &runtime) {
		message = strings.TrimPrefix(message, "RUNTIME ERROR: ")
		for _, frame := range runtime.StackTrace {
			// Frames of the standard library are in no file of the repository.
			if file, ok := strings.CutPrefix(frame.Loc.FileName, "/"); ok && frame.Loc.Begin.Line > 0 {
				return fmt.Sprintf("%s:%d: %s", file, frame.Loc.Begin.Line, message)
			}
		}
		return f.file + ": " + message
	}
	var static interface{ Loc() ast.LocationRange }
	if errors.As(err, &static) && static.Loc().Begin.Line > 0 {
		loc := static.Loc()
		message = strings.TrimSpace(strings.TrimPrefix(message, loc.String()))
		return fmt.Sprintf("%s:%d: %s", strings.TrimPrefix(loc.FileName, "/"), loc.Begin.Line, message)
	}
	return message
}
