package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/source/internal/helm"
	"github.com/trueup/trueup/source/internal/manifest"
)

// Helm says how a chart is rendered, in Argo CD's words. Of what sets the same value, the later of ValueFiles, Values,
// ValuesObject, Parameters and FileParameters wins.
type Helm struct {
	// ValueFiles are relative to the chart, or to the root of the repository if they begin with a slash; the root of a
	// packaged chart is its own folder. They may be globs, in which ** also stands for folders.
	ValueFiles              []string
	IgnoreMissingValueFiles bool
	Values                  string         // YAML
	ValuesObject            map[string]any // in place of Values
	Parameters              []HelmParameter
	FileParameters          []HelmParameter // whose Value is the path of a file, as in ValueFiles
	ReleaseName             string          // "release-name" by default, as `helm template` has it
	Namespace               string          // "default" by default
	KubeVersion             string          // for .Capabilities; by default Cluster's, or else that of this program's libraries
	APIVersions             []string        // for .Capabilities besides Helm's own list; by default Cluster's and no others
	SkipCRDs                bool
	SkipSchemaValidation    bool

	// Cluster returns what the cluster is like; it may be nil. It may block.
	Cluster func() (*Cluster, error)
}

// A HelmParameter sets a value, as --set does; with ForceString as --set-string.
type HelmParameter struct {
	Name, Value string
	ForceString bool
}

// A Cluster is what charts may ask about one.
type Cluster struct {
	KubeVersion string   // v1.33.4
	APIVersions []string // apps/v1 and apps/v1/Deployment, and so on
}

// chartFile makes a folder a chart.
const chartFile = "Chart.yaml"

// renderChart renders the chart in dir.
func renderChart(ctx context.Context, tree *Tree, dir string, h Helm) (*Rendered, error) {
	req, err := h.request(tree, dir)
	if err != nil {
		return nil, fmt.Errorf("rendering the chart %s: %w", cmp.Or(dir, "."), err)
	}
	answer, err := helm.Render(ctx, req, chartFiles{tree: tree.alone(), named: req.Named(), others: tree})
	if err != nil {
		return nil, fmt.Errorf("rendering the chart %s: %w", cmp.Or(dir, "."), err)
	}
	return chartObjects(dir, answer)
}

func (h Helm) request(tree *Tree, dir string) (helm.Request, error) {
	req := helm.Request{
		Chart: dir, ReleaseName: cmp.Or(h.ReleaseName, "release-name"), Namespace: cmp.Or(h.Namespace, "default"),
		KubeVersion: h.KubeVersion, APIVersions: h.APIVersions, SkipCRDs: h.SkipCRDs, SkipSchemaValidation: h.SkipSchemaValidation,
		Packaged: tree.chart != "",
	}
	if h.Cluster != nil && (h.KubeVersion == "" || len(h.APIVersions) == 0) {
		c, err := h.Cluster()
		if err != nil {
			return req, err
		}
		req.KubeVersion = cmp.Or(req.KubeVersion, c.KubeVersion)
		if len(h.APIVersions) == 0 {
			req.APIVersions, req.OnlyAPIVersions = c.APIVersions, true
		}
	}
	values := h.Values
	if len(h.ValuesObject) > 0 {
		content, err := yaml.Marshal(h.ValuesObject)
		if err != nil {
			return req, fmt.Errorf("helm.valuesObject: %w", err)
		}
		values = string(content)
	}
	for _, p := range h.Parameters {
		req.Parameters = append(req.Parameters, helm.Parameter(p))
	}
	for _, p := range h.FileParameters {
		name, err := besideChart(tree, dir, p.Value)
		if err != nil {
			return req, fmt.Errorf("helm.fileParameters %s: %w", p.Name, err)
		}
		if ok, err := tree.IsFile(name); err != nil || !ok {
			return req, fmt.Errorf("helm.fileParameters %s: %w", p.Name, cmp.Or(err, fmt.Errorf("there is no file %s", name)))
		}
		req.FileParameters = append(req.FileParameters, helm.Parameter{Name: p.Name, Value: name})
	}
	names, err := h.valueFiles(tree, dir)
	for _, name := range names {
		req.Values = append(req.Values, helm.Values{File: name})
	}
	req.Values = append(req.Values, helm.Values{YAML: values})
	return req, err
}

// besideChart returns the path in the tree of a file that a chart's options name.
func besideChart(tree *Tree, dir, name string) (string, error) {
	if remote.MatchString(name) {
		return "", fmt.Errorf("%q is remote, and remote files are not fetched: keep a copy of it in the repository", redact(name))
	}
	if clean, ok, err := tree.refPath(name); ok {
		return clean, err
	}
	if path.IsAbs(name) && tree.chart == "" {
		return cleanPath(name)
	}
	clean, err := cleanPath(path.Join(dir, name))
	if err == nil && tree.chart != "" && clean != tree.chart && !strings.HasPrefix(clean, tree.chart+"/") {
		err = fmt.Errorf("%s leaves the chart", name)
	}
	return clean, err
}

// valueFiles returns the files that ValueFiles name, each once, in their order; what a glob matches in the order of names.
func (h Helm) valueFiles(tree *Tree, dir string) ([]string, error) {
	var found []string
	for _, pattern := range h.ValueFiles {
		name, err := besideChart(tree, dir, pattern)
		if err != nil {
			return nil, fmt.Errorf("helm.valueFiles: %w", err)
		}
		var names []string
		if strings.ContainsAny(name, "*?[") {
			names, err = globTree(tree, name)
		} else if ok, isErr := tree.IsFile(name); ok || isErr != nil {
			names, err = []string{name}, isErr
		}
		if err != nil {
			return nil, fmt.Errorf("helm.valueFiles: %w", err)
		}
		if len(names) == 0 && !h.IgnoreMissingValueFiles {
			return nil, fmt.Errorf("helm.valueFiles: there is no file %s; helm.ignoreMissingValueFiles would leave it out", name)
		}
		for _, n := range names {
			if !slices.Contains(found, n) {
				found = append(found, n)
			}
		}
	}
	return found, nil
}

// chartObjects returns what a chart rendered to, with warnings of what is not as Helm would have it.
func chartObjects(dir string, answer *helm.Answer) (*Rendered, error) {
	out := &Rendered{Kind: KindHelm, UsesCluster: answer.Cluster}
	var changing []string
	for _, d := range answer.Documents {
		parsed, err := manifest.Parse(d.File, d.JSON)
		if err != nil {
			var bad *manifest.Error
			if errors.As(err, &bad) {
				err = &manifest.Error{File: d.File, Line: d.Line, Msg: "what it renders to: " + bad.Msg}
			}
			return nil, fmt.Errorf("rendering the chart %s: %w", cmp.Or(dir, "."), err)
		}
		if parsed == nil {
			return nil, fmt.Errorf("rendering the chart %s: %s: what it renders to is no Kubernetes object (no apiVersion, no kind)", cmp.Or(dir, "."), helm.Place(d.File, d.Line))
		}
		for _, p := range parsed {
			o := Object{Unstructured: &unstructured.Unstructured{Object: p.Object}, File: d.File, Line: d.Line}
			if len(d.Random) > 0 {
				o.Random = d.Random
				if len(parsed) > 1 {
					o.Random = []string{""} // the pointers are into a list
				}
				changing = append(changing, describeRandom(o))
			}
			out.Objects = append(out.Objects, o)
		}
	}
	if len(changing) > 0 {
		out.Warnings = append(out.Warnings, "the chart renders to something else each time: "+some(changing))
	}
	if len(out.Objects) == 0 {
		out.Empty = fmt.Sprintf("the chart %s renders to no objects", cmp.Or(dir, "."))
	}
	return out, nil
}

func describeRandom(o Object) string {
	name := o.GetKind() + " " + o.GetName()
	if slices.Contains(o.Random, "") {
		return name
	}
	return name + " (" + some(o.Random) + ")"
}

// some joins up to ten things.
func some(things []string) string {
	const most = 10
	if len(things) > most {
		return strings.Join(things[:most], ", ") + fmt.Sprintf(" and %d more", len(things)-most)
	}
	return strings.Join(things, ", ")
}

// chartFiles shows a tree to the renderer of charts, and of the trees of other sources what the options name.
type chartFiles struct {
	tree   *Tree
	named  []string
	others *Tree
}

func (f chartFiles) ReadFile(name string) ([]byte, error) {
	if slices.Contains(f.named, name) {
		return f.others.ReadFile(name)
	}
	return f.tree.ReadFile(name)
}

// ReadDir follows links to folders. A submodule that was not fetched is an empty folder.
func (f chartFiles) ReadDir(name string) ([]string, error) {
	entries, err := f.tree.entries(name)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		kind := e.kind
		if kind == kindLink {
			if kind, err = f.tree.stat(path.Join(name, e.name)); err != nil {
				return nil, err
			}
		}
		switch kind {
		case kindDir:
			names = append(names, e.name+"/")
		case kindFile:
			names = append(names, e.name)
		}
	}
	return names, nil
}
