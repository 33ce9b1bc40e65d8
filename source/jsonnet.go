package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/source/internal/jsonnet"
	"github.com/trueup/trueup/source/internal/manifest"
	"github.com/trueup/trueup/source/internal/sandbox"
)

// jsonnetExtension is that of files that are evaluated; those with another, .libsonnet, are only imported.
const jsonnetExtension = ".jsonnet"

// Jsonnet says how the Jsonnet files of a plain folder are evaluated. The fields are those of Argo CD's
// directory.jsonnet.
type Jsonnet struct {
	ExtVars []JsonnetVar // for std.extVar
	TLAs    []JsonnetVar // top-level arguments
	Libs    []string     // folders in which imports are looked for, relative to the root of the repository
}

// A JsonnetVar is a variable that a Jsonnet file is given.
type JsonnetVar struct {
	Name, Value string
	Code        bool // the value is Jsonnet; else it is a string
}

// treeFiles are the files of a tree for a child process that renders.
type treeFiles struct{ tree *Tree }

func (f treeFiles) ReadFile(name string) ([]byte, error) {
	if path.IsAbs(name) {
		return nil, fmt.Errorf("%s is an absolute path: only files of the repository are read", name)
	}
	return f.tree.ReadFile(name)
}

func (f treeFiles) ReadDir(name string) ([]string, error) { return f.tree.ReadDir(name) }

// renderJsonnet evaluates Jsonnet files, in a child process since an endless one cannot be stopped otherwise, and returns
// the objects of each.
func renderJsonnet(ctx context.Context, tree *Tree, dir string, names []string, opts Jsonnet) (map[string][]Object, error) {
	req := jsonnet.Request{Files: names, Libs: []string{dir}}
	for _, lib := range opts.Libs {
		if path.IsAbs(lib) {
			return nil, fmt.Errorf("directory.jsonnet.libs: %s must be relative to the root of the repository", lib)
		}
		clean, err := cleanPath(lib)
		if err != nil {
			return nil, fmt.Errorf("directory.jsonnet.libs: %w", err)
		}
		req.Libs = append(req.Libs, clean)
	}
	for _, v := range opts.ExtVars {
		req.ExtVars = append(req.ExtVars, jsonnet.Var(v))
	}
	for _, v := range opts.TLAs {
		req.TLAs = append(req.TLAs, jsonnet.Var(v))
	}
	raw, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	answer, err := sandbox.Run(ctx, jsonnet.Worker, raw, treeFiles{tree}, sandbox.Limits{})
	if err != nil {
		return nil, err
	}
	var outputs []string
	if err := json.Unmarshal(answer, &outputs); err != nil || len(outputs) != len(names) {
		return nil, fmt.Errorf("reading what the Jsonnet files in %s evaluate to: the renderer's answer is malformed", dir)
	}
	objects := make(map[string][]Object, len(names))
	for i, name := range names {
		if objects[name], err = jsonnetObjects(name, []byte(outputs[i])); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// jsonnetObjects returns the objects that a file evaluates to: one, or a list of them.
func jsonnetObjects(file string, output []byte) ([]Object, error) {
	output = bytes.TrimSpace(output)
	items := []json.RawMessage{output}
	isList := bytes.HasPrefix(output, []byte("["))
	if isList {
		if err := json.Unmarshal(output, &items); err != nil {
			return nil, fmt.Errorf("%s: it evaluates to no JSON", file)
		}
	}
	objects := []Object{}
	for i, item := range items {
		what := "what it evaluates to"
		if isList {
			what = fmt.Sprintf("item %d of the list it evaluates to", i+1)
		}
		if string(item) == "null" {
			continue
		}
		if !bytes.HasPrefix(bytes.TrimSpace(item), []byte("{")) {
			return nil, fmt.Errorf("%s: %s is no Kubernetes object: it must be an object, or a flat list of objects", file, what)
		}
		docs, err := manifest.Parse(file, item)
		if err != nil {
			if e, ok := err.(*manifest.Error); ok {
				// The line is one of the output.
				return nil, fmt.Errorf("%s: %s: %s", file, what, e.Msg)
			}
			return nil, err
		}
		if docs == nil {
			return nil, fmt.Errorf("%s: %s is no Kubernetes object: it has no apiVersion and no kind", file, what)
		}
		for _, d := range docs {
			if group, _, _ := strings.Cut(d.Object["apiVersion"].(string), "/"); group == kustomizationGroup {
				return nil, kustomizationInFolder(file)
			}
			objects = append(objects, Object{Unstructured: &unstructured.Unstructured{Object: d.Object}, File: file})
		}
	}
	return objects, nil
}
