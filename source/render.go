package source

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/yaml"
)

// An Object is a Kubernetes object and where it was written.
type Object struct {
	*unstructured.Unstructured
	File string // relative to the root of the repository
	Line int    // of its first line; 0 where the object was generated
	// Random are JSON pointers to what is something else in each render, as a chart may make it: a password, a
	// certificate. One that is "" means all of it, its name too.
	Random []string
	// Hook says that the object is not to be kept but run at a moment of a sync; nil for an ordinary object.
	Hook *Hook
}

// Place returns file:line, or what is known of it, for messages.
func (o Object) Place() string {
	if o.Line == 0 {
		return o.File
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}

// Options say how to render a folder. The zero value renders it as it is.
type Options struct {
	Directory  Directory
	Kustomize  Kustomize
	Helm       Helm
	Substitute Substitute
	// Decryption opens files that are encrypted with SOPS; without it they are an error.
	Decryption *DecryptionKeys
}

// Kinds of a rendered folder.
const (
	KindDirectory = "Directory"
	KindKustomize = "Kustomize"
	KindHelm      = "Helm"
)

// Rendered is what a folder renders to. It is shared by all that ask for it: its objects must not be changed.
type Rendered struct {
	// Objects are in the order of their files, or in kustomize's order, hooks among them. There may be none: see Empty.
	Objects []Object
	// LeftOut are declared too, but nothing to apply: hooks that are skipped, or not for a sync. What is there of them
	// from a time when they were no hooks is not gone from Git.
	LeftOut  []Object
	Inputs   Inputs
	Kind     string
	Warnings []string
	// UsesCluster says that Helm.Cluster may have had a part in it.
	UsesCluster bool
	// Empty says why there are no objects, for people: that nothing in the folder is a manifest, or that the manifests
	// are all empty. It is "" if there are objects.
	Empty string
	// Secrets are texts in the objects that came from encrypted files and secret variables: nothing that is shown of them
	// may have them in it.
	Secrets []string
}

// Render returns the objects of a folder of a tree: a kustomization if it has a kustomization file, a chart if it has a
// Chart.yaml, plain manifests otherwise; of the tree of a chart those of the chart, whatever dir is. It reads only the tree,
// and only what it needs. The error names the file, and the line where there is one.
// A cancelled context ends the wait for it.
func Render(ctx context.Context, tree *Tree, dir string, opts Options) (*Rendered, error) {
	rec := newRecorder()
	tree = tree.recorded(rec).opened(opts.Decryption)
	if tree.chart != "" {
		dir = tree.chart
	}
	if err := tree.checkDir(dir); err != nil {
		return nil, err
	}
	clean, err := cleanPath(dir)
	if err != nil {
		return nil, err
	}
	type result struct {
		rendered *Rendered
		err      error
	}
	done := make(chan result, 1)
	// kustomize takes no context, so it runs aside: its work is bounded by the limits on what it reads.
	go func() {
		rendered, err := renderDir(ctx, tree, clean, opts)
		done <- result{rendered, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			// What is secret goes first: a part of it would not be known again.
			return nil, shorten(tree.opener.hide(r.err))
		}
		r.rendered.Inputs = rec.inputs()
		r.rendered.Secrets = append(r.rendered.Secrets, tree.opener.texts()...)
		return r.rendered, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("rendering %s: %w", dir, context.Cause(ctx))
	}
}

// maxErrorBytes bounds what the error of a render says.
const maxErrorBytes = 2000

// A shortError is an error of which only the beginning and the end are told: templates that include one another tell of
// each step.
type shortError struct {
	error
	text string
}

func (e shortError) Error() string { return e.text }
func (e shortError) Unwrap() error { return e.error }

func shorten(err error) error {
	const end = 600
	text := err.Error()
	if len(text) <= maxErrorBytes {
		return err
	}
	return shortError{err, strings.ToValidUTF8(text[:maxErrorBytes-end]+" … "+text[len(text)-end:], "")}
}

// RenderDir renders the folder dir below root on disk. Nothing outside of root is read.
func RenderDir(ctx context.Context, root, dir string, opts Options) (*Rendered, error) {
	tree, closer, err := OpenDir(root)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return Render(ctx, tree, dir, opts)
}

// renderDir turns a panic of the libraries that parse what a repository holds into an error: they are many, the input is
// hostile, and one repository must not take the others down.
func renderDir(ctx context.Context, tree *Tree, dir string, opts Options) (_ *Rendered, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rendering %s: the renderer panicked on its content: %v", cmp.Or(dir, "."), p)
		}
	}()
	file, isChart := "", false
	if tree.chart == "" {
		if file, err = kustomizationFile(tree, dir); err != nil {
			return nil, err
		}
	}
	if file == "" {
		if isChart, err = tree.IsFile(path.Join(dir, chartFile)); err != nil {
			return nil, err
		}
	}
	var rendered *Rendered
	switch {
	case file != "":
		rendered, err = renderKustomization(ctx, tree.alone(), file, opts)
	case isChart:
		rendered, err = renderChart(ctx, tree, dir, opts.Helm)
	default:
		rendered, err = renderDirectory(ctx, tree.alone(), dir, opts.Directory)
	}
	if err != nil {
		return nil, err
	}
	if n := len(rendered.Objects); n > maxObjects {
		return nil, fmt.Errorf("rendering %s: it has %d objects, and at most %d are taken: divide it between several Applications", cmp.Or(dir, "."), n, maxObjects)
	}
	if err := checkOpened(rendered.Objects); err != nil {
		return nil, err
	}
	if rendered.Secrets, err = opts.Substitute.apply(rendered.Objects); err != nil {
		return nil, err
	}
	return rendered, rendered.sortHooks(dir)
}

// kustomizationFile returns the path of the kustomization file of dir, "" if there is none.
func kustomizationFile(tree *Tree, dir string) (string, error) {
	found := ""
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(dir, name)
		ok, err := tree.IsFile(file)
		if err != nil {
			return "", err
		}
		if ok && found != "" {
			return "", fmt.Errorf("rendering %s: it has both %s and %s: keep one of them", cmp.Or(dir, "."), path.Base(found), name)
		}
		if ok {
			found = file
		}
	}
	return found, nil
}

// WriteYAML writes objects as `kubectl kustomize` prints them.
func WriteYAML(w io.Writer, objects []Object) error {
	for i, o := range objects {
		out, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("writing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if i > 0 {
			out = append([]byte("---\n"), out...)
		}
		if _, err := w.Write(out); err != nil {
			return err
		}
	}
	return nil
}
