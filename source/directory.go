package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/trueup/trueup/source/internal/manifest"
)

// Directory says which files of a plain folder are rendered. The patterns are Argo CD's: they match the path relative to
// the folder, * also matches slashes, and {a,b} is either.
type Directory struct {
	Recurse bool   // also render the folders below
	Include string // only files that match
	Exclude string // no files that match; it wins over Include
	Jsonnet Jsonnet
}

// renderDirectory renders the YAML, JSON and Jsonnet files of a folder, in the order of their names.
func renderDirectory(ctx context.Context, tree *Tree, dir string, opts Directory) (*Rendered, error) {
	sel, err := newSelector(opts)
	if err != nil {
		return nil, err
	}
	if sel.ignored, err = readIgnore(tree, dir); err != nil {
		return nil, err
	}
	out := &Rendered{Kind: KindDirectory}
	files, err := manifestFiles(ctx, tree, dir, "", sel, out)
	if err != nil {
		return nil, err
	}
	evaluated, err := evaluate(ctx, tree, dir, files, opts.Jsonnet)
	if err != nil {
		return nil, err
	}
	manifests := 0
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if objects, ok := evaluated[file]; ok {
			manifests++
			out.Objects = append(out.Objects, objects...)
			continue
		}
		docs, err := parseFile(tree, file)
		if err != nil {
			return nil, err
		}
		if docs == nil {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s is left out: it is no Kubernetes manifest (no apiVersion, no kind)", file))
			continue
		}
		manifests++
		for _, d := range docs {
			out.Objects = append(out.Objects, Object{Unstructured: &unstructured.Unstructured{Object: d.Object}, File: file, Line: d.Line})
		}
	}
	if len(out.Objects) == 0 {
		out.Empty = emptyReason(cmp.Or(dir, "."), len(files), manifests, opts)
	}
	return out, nil
}

// evaluate returns what the Jsonnet files among files evaluate to.
func evaluate(ctx context.Context, tree *Tree, dir string, files []string, opts Jsonnet) (map[string][]Object, error) {
	programs := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return path.Ext(file) != jsonnetExtension })
	if len(programs) == 0 {
		return nil, nil
	}
	return renderJsonnet(ctx, tree, dir, programs, opts)
}

func emptyReason(dir string, files, manifests int, opts Directory) string {
	switch {
	case manifests > 0:
		return fmt.Sprintf("the manifests in %s have no objects in them", dir)
	case files > 0:
		return fmt.Sprintf("none of the %d YAML, JSON and Jsonnet files in %s is a Kubernetes manifest", files, dir)
	case opts.Include != "" || opts.Exclude != "":
		return fmt.Sprintf("no YAML, JSON or Jsonnet file in %s passes directory.include and directory.exclude", dir)
	case !opts.Recurse:
		return fmt.Sprintf("%s has no YAML, JSON or Jsonnet files; set directory.recurse to look in the folders below", dir)
	default:
		return fmt.Sprintf("%s has no YAML, JSON or Jsonnet files", dir)
	}
}

// parseFile returns the objects of a file, nil if it is no manifest.
func parseFile(tree *Tree, file string) ([]manifest.Document, error) {
	content, err := tree.ReadFile(file)
	if sealed := (*sealedError)(nil); errors.As(err, &sealed) {
		// A file of values for something else may be encrypted too, for other eyes.
		if docs, malformed := manifest.Parse(file, sealed.content); docs == nil && malformed == nil {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	docs, err := manifest.Parse(file, content)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if group, _, _ := strings.Cut(d.Object["apiVersion"].(string), "/"); group == kustomizationGroup {
			return nil, kustomizationInFolder(file)
		}
	}
	return docs, nil
}

// manifestFiles returns the files below dir that the selector takes, relative to the tree. rel is dir relative to the
// folder that is rendered. What is left out without being asked to is a warning of out.
func manifestFiles(ctx context.Context, tree *Tree, dir, rel string, sel selector, out *Rendered) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := tree.entries(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		name, relName := path.Join(dir, e.name), path.Join(rel, e.name)
		if sel.ignored.Match(strings.Split(name, "/"), e.kind == kindDir) {
			continue
		}
		switch {
		case e.kind == kindDir && sel.recurse:
			below, err := manifestFiles(ctx, tree, name, relName, sel, out)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		case e.kind == kindSubmodule && sel.recurse:
			out.Warnings = append(out.Warnings, name+" is left out: it is a submodule, and submodules are not fetched")
		case e.kind == kindFile || e.kind == kindLink:
			if e.kind == kindLink {
				// A link that leaves the repository is an error even where its name would not be rendered.
				if _, err := tree.stat(name); err != nil {
					return nil, err
				}
			}
			if !sel.takes(relName) {
				continue
			}
			if slices.Contains(konfig.RecognizedKustomizationFileNames(), e.name) {
				return nil, kustomizationInFolder(name)
			}
			files = append(files, name)
		}
	}
	return files, nil
}

// kustomizationInFolder is an error because both ways out change what is deployed: rendering the kustomization, or
// applying what it is made of as it is.
func kustomizationInFolder(file string) error {
	return fmt.Errorf("%s is a kustomization below a plain folder: make %s an Application's path of its own, or leave the file out with directory.exclude",
		file, cmp.Or(path.Dir(file), "."))
}

type selector struct {
	recurse          bool
	include, exclude glob
	ignored          gitignore.Matcher
}

func newSelector(opts Directory) (selector, error) {
	include, err := newGlob(opts.Include)
	if err != nil {
		return selector{}, fmt.Errorf("directory.include: %w", err)
	}
	exclude, err := newGlob(opts.Exclude)
	if err != nil {
		return selector{}, fmt.Errorf("directory.exclude: %w", err)
	}
	return selector{recurse: opts.Recurse, include: include, exclude: exclude}, nil
}

func (s selector) takes(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json", jsonnetExtension:
	default:
		return false
	}
	if s.exclude.set() && s.exclude.match(name) {
		return false
	}
	return !s.include.set() || s.include.match(name)
}

// ignoreFile lists what is no part of the source, in the syntax of .gitignore. The name is Flux's.
const ignoreFile = ".sourceignore"

// readIgnore returns what the ignore files of the root of the tree and of dir leave out.
func readIgnore(tree *Tree, dir string) (gitignore.Matcher, error) {
	var patterns []gitignore.Pattern
	for _, in := range slices.Compact([]string{"", dir}) {
		content, err := tree.ReadFile(path.Join(in, ignoreFile))
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var domain []string
		if in != "" {
			domain = strings.Split(in, "/")
		}
		for _, line := range strings.Split(string(content), "\n") {
			line = strings.TrimRight(line, "\r")
			if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
				patterns = append(patterns, gitignore.ParsePattern(line, domain))
			}
		}
	}
	return gitignore.NewMatcher(patterns), nil
}

var errGlob = errors.New("unbalanced brackets or braces")
