// Package manifest turns the content of one YAML or JSON file into Kubernetes objects, each with the line it starts on.
// Start reading at Parse.
//
// Values are converted as kubectl converts them (YAML 1.1 booleans, integral numbers as int64), with two differences that
// keep mistakes from reaching a cluster: a mapping key that is given twice is an error, and an explicit key always wins
// over a merge key. The work done is bounded for any input.
package manifest

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Document is one object of a file.
type Document struct {
	Object map[string]any
	Line   int // of its first key, counted from 1
}

// An Error is a mistake at a place in a file.
type Error struct {
	File string
	Line int // 0 if unknown
	Msg  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// Parse returns the objects of a file in their order, lists expanded into their items. Empty documents are left out.
//
// The result is nil, without an error, when the file is well-formed but nothing in it claims to be a Kubernetes object
// (no document has apiVersion or kind): such a file is no manifest. Once one document claims to be an object, all of
// them must be whole: apiVersion, kind and metadata.name. Errors are of type *Error.
func Parse(file string, content []byte) ([]Document, error) {
	docs, err := documents(file, content)
	if err != nil {
		return nil, err
	}
	if !anyClaims(docs) {
		return nil, nil
	}
	out := []Document{}
	for _, d := range docs {
		value, err := d.value()
		if err != nil {
			return nil, inFile(file, err)
		}
		if value == nil {
			continue
		}
		object, ok := value.(map[string]any)
		if !ok {
			return nil, &Error{file, d.line, "expected a Kubernetes object, found " + typeName(value)}
		}
		if out, err = appendObject(out, file, Document{object, d.line}, d.itemLine); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// CheckSyntax returns an error of type *Error if content is not well-formed.
func CheckSyntax(file string, content []byte) error {
	_, err := documents(file, content)
	return err
}

// A rawDocument is parsed but not yet converted, so that files that are no manifests are not held to their rules.
type rawDocument struct {
	line     int
	claims   bool // has a key apiVersion or kind
	value    func() (any, error)
	itemLine func(i int) int // line of items[i], for lists
}

func anyClaims(docs []rawDocument) bool {
	for _, d := range docs {
		if d.claims {
			return true
		}
	}
	return false
}

func documents(file string, content []byte) ([]rawDocument, error) {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	onlyJSON := path.Ext(file) == ".json"
	if onlyJSON || bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		docs, err := jsonDocuments(content)
		if err == nil || onlyJSON {
			return docs, inFile(file, err)
		}
	}
	docs, err := yamlDocuments(content)
	return docs, inFile(file, err)
}

func inFile(file string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return &Error{file, e.Line, e.Msg}
	}
	return &Error{File: file, Msg: err.Error()}
}

// appendObject appends d, or its items if it is a list, after checking that each is a whole object.
func appendObject(out []Document, file string, d Document, itemLine func(int) int) ([]Document, error) {
	apiVersion, kind, err := typeOf(d.Object)
	if err != nil {
		return nil, &Error{file, d.Line, err.Error()}
	}
	items, isList := listItems(kind, d.Object)
	if !isList {
		if err := checkName(kind, d.Object); err != nil {
			return nil, &Error{file, d.Line, err.Error()}
		}
		return append(out, d), nil
	}
	for i, item := range items {
		line := d.Line
		if itemLine != nil {
			line = itemLine(i)
		}
		object, ok := item.(map[string]any)
		if !ok {
			return nil, &Error{file, line, fmt.Sprintf("items[%d] of a %s: expected a Kubernetes object, found %s", i, kind, typeName(item))}
		}
		inheritType(object, apiVersion, kind)
		if out, err = appendObject(out, file, Document{object, line}, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// inheritType fills in what the items of a typed list (ConfigMapList) may leave out.
func inheritType(item map[string]any, apiVersion, listKind string) {
	kind := strings.TrimSuffix(listKind, "List")
	if kind == "" {
		return
	}
	if item["apiVersion"] == nil && item["kind"] == nil {
		item["apiVersion"], item["kind"] = apiVersion, kind
	}
}

func listItems(kind string, object map[string]any) ([]any, bool) {
	if !strings.HasSuffix(kind, "List") {
		return nil, false
	}
	items, present := object["items"]
	if list, ok := items.([]any); ok {
		return list, true
	}
	// An empty list as people write it: "items:" with nothing below.
	return nil, present && items == nil
}

func typeOf(object map[string]any) (apiVersion, kind string, err error) {
	for _, f := range []struct {
		key string
		to  *string
	}{{"apiVersion", &apiVersion}, {"kind", &kind}} {
		switch v := object[f.key].(type) {
		case string:
			*f.to = v
		case nil:
		default:
			return "", "", fmt.Errorf("%s must be a string, found %s", f.key, typeName(v))
		}
		if *f.to == "" {
			return "", "", fmt.Errorf("object without %s", f.key)
		}
	}
	return apiVersion, kind, nil
}

func checkName(kind string, object map[string]any) error {
	switch metadata := object["metadata"].(type) {
	case nil:
		return fmt.Errorf("%s without metadata.name", kind)
	case map[string]any:
		switch name := metadata["name"].(type) {
		case string:
			if name != "" {
				return nil
			}
		case nil:
		default:
			return fmt.Errorf("metadata.name of a %s must be a string, found %s: quote it", kind, typeName(name))
		}
		if generated, ok := metadata["generateName"].(string); ok && generated != "" && isHook(metadata) {
			return nil // each run of a hook is an object of its own
		}
		if metadata["generateName"] != nil {
			return fmt.Errorf("%s with metadata.generateName: give it a metadata.name, so that it is the same object on every sync", kind)
		}
		return fmt.Errorf("%s without metadata.name", kind)
	default:
		return fmt.Errorf("metadata of a %s must be a mapping, found %s", kind, typeName(metadata))
	}
}

// HelmHook is Helm's annotation of hooks.
const HelmHook = "helm.sh/hook"

// HookAnnotations are those that make an object a hook. The first that an object has is used.
var HookAnnotations = []string{"trueup.dev/hook", "argocd.argoproj.io/hook", HelmHook}

func isHook(metadata map[string]any) bool {
	annotations, _ := metadata["annotations"].(map[string]any)
	return slices.ContainsFunc(HookAnnotations, func(name string) bool { return annotations[name] != nil })
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case []any:
		return "a list"
	default:
		return "a mapping"
	}
}
