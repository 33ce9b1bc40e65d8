package source

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/trueup/trueup/source/internal/helm"
	"github.com/trueup/trueup/source/internal/manifest"
)

// randomMark carries Object.Random through kustomize. It is never applied.
const randomMark = "internal.trueup.dev/random"

// chartResource is the name of a file that is not there, beside a kustomization: what its charts render to.
const chartResource = ".trueup-helm-charts.yaml"

// inflation is what the charts of a kustomization render to.
type inflation struct {
	objects     []Object
	warnings    []string
	usesCluster bool
	err         error
}

// inflate returns a kustomization with what its charts render to among its resources in place of the charts.
func (k *kustomizeFS) inflate(at place, content []byte, parsed *types.Kustomization) ([]byte, error) {
	charts, globals := types.SplitHelmParameters(parsed.HelmChartInflationGenerator)
	charts = append(charts, parsed.HelmCharts...)
	if len(charts) == 0 {
		return content, nil
	}
	file := at.String()
	if parsed.HelmGlobals != nil {
		globals.ChartHome = cmp.Or(parsed.HelmGlobals.ChartHome, globals.ChartHome)
	}
	err := k.pauses.first("the charts of "+file, func() {
		k.pauses.inflated(file, k.renderCharts(at, charts, cmp.Or(globals.ChartHome, types.HelmDefaultHome)))
	})
	waits := errors.Is(err, errPaused)
	if err != nil && !waits {
		return nil, err
	}
	// A build that has to wait goes on with nothing in their place, to see what else it has to wait for.
	rendered := k.pauses.inflation(file)
	if rendered.err != nil {
		return nil, fmt.Errorf("%s: helmCharts: %w", file, rendered.err)
	}
	resource, err := chartResources(rendered.objects)
	if err != nil {
		return nil, fmt.Errorf("%s: helmCharts: %w", file, err)
	}
	if content, err = withoutCharts(content, waits || len(rendered.objects) > 0); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.usesCluster = k.usesCluster || rendered.usesCluster
	k.warned["the charts of "+file] = rendered.warnings
	k.remoteFiles[path.Join(at.root, path.Dir(at.rel), chartResource)] = remoteContent{label: file + ": helmCharts", content: resource}
	return content, nil
}

func (k *kustomizeFS) renderCharts(at place, charts []types.HelmChart, home string) inflation {
	var out inflation
	if k.pauses.counted(len(charts)) > maxCharts {
		return inflation{err: fmt.Errorf("there are more than %d charts in one kustomization and what it is made of", maxCharts)}
	}
	for _, c := range charts {
		rendered, err := k.renderChart(at, c, home)
		if err != nil {
			return inflation{err: fmt.Errorf("%s: %w", c.Name, err)}
		}
		out.objects = append(out.objects, rendered.Objects...)
		out.warnings = append(out.warnings, rendered.Warnings...)
		out.usesCluster = out.usesCluster || rendered.UsesCluster
	}
	return out
}

// renderChart renders one chart of a kustomization as kustomize would have helm render it.
func (k *kustomizeFS) renderChart(at place, c types.HelmChart, home string) (*Rendered, error) {
	root := path.Dir(at.rel)
	folder := path.Join(root, home)
	if c.Version != "" && c.Repo != "" {
		folder = path.Join(folder, c.Name+"-"+c.Version)
	}
	dir, err := cleanPath(path.Join(folder, c.Name))
	if err != nil || c.Name == "" {
		return nil, cmp.Or(err, fmt.Errorf("a chart has no name"))
	}
	if ok, err := at.tree.IsFile(path.Join(dir, chartFile)); err != nil || !ok {
		return nil, cmp.Or(err, fmt.Errorf("there is no chart in %s, and charts of a kustomization are not fetched: run `helm pull --untar --untardir %s` and commit what it makes", dir, folder))
	}
	req, err := Helm{
		ReleaseName: cmp.Or(c.ReleaseName, c.Name), Namespace: c.Namespace, KubeVersion: c.KubeVersion, APIVersions: c.ApiVersions,
		SkipCRDs: !c.IncludeCRDs, Cluster: k.cluster,
	}.request(at.tree, dir)
	if err != nil {
		return nil, err
	}
	if req.Values, err = chartValues(at.tree, root, dir, c); err != nil {
		return nil, err
	}
	answer, err := helm.Render(k.ctx, req, chartFiles{tree: at.tree})
	if err != nil {
		return nil, err
	}
	rendered, err := chartObjects(dir, answer)
	if err == nil && c.SkipHooks {
		rendered.Objects = slices.DeleteFunc(rendered.Objects, func(o Object) bool { return o.GetAnnotations()[manifest.HelmHook] != "" })
	}
	return rendered, err
}

// chartValues returns the values of a chart in a kustomization, later ones win.
func chartValues(tree *Tree, root, dir string, c types.HelmChart) ([]helm.Values, error) {
	var values []helm.Values
	own := helm.Values{File: path.Join(dir, "values.yaml")}
	if c.ValuesFile != "" {
		own.File = path.Join(root, c.ValuesFile)
	} else if ok, err := tree.IsFile(own.File); err != nil || !ok {
		own = helm.Values{}
		if err != nil {
			return nil, err
		}
	}
	inline := helm.Values{}
	if len(c.ValuesInline) > 0 {
		content, err := yaml.Marshal(c.ValuesInline)
		if err != nil {
			return nil, err
		}
		inline.YAML = string(content)
	}
	switch c.ValuesMerge {
	case "", "override":
		values = append(values, own, inline)
	case "merge":
		values = append(values, inline, own)
	case "replace":
		values = append(values, inline)
	default:
		return nil, fmt.Errorf("valuesMerge %q is none of merge, override and replace", c.ValuesMerge)
	}
	for _, f := range c.AdditionalValuesFiles {
		values = append(values, helm.Values{File: path.Join(root, f)})
	}
	for _, v := range values {
		if _, err := cleanPath(v.File); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// chartResources writes objects to a file for kustomize.
func chartResources(objects []Object) ([]byte, error) {
	var out strings.Builder
	for i, o := range objects {
		if len(o.Random) > 0 {
			marked, err := json.Marshal(o.Random)
			if err != nil {
				return nil, err
			}
			o.Unstructured = o.DeepCopy()
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[randomMark] = string(marked)
			o.SetAnnotations(annotations)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		if err := WriteYAML(&out, []Object{o}); err != nil {
			return nil, err
		}
	}
	return []byte(out.String()), nil
}

// unmarkRandom takes the mark of chartResources off an object.
func unmarkRandom(u *unstructured.Unstructured) []string {
	annotations := u.GetAnnotations()
	mark, ok := annotations[randomMark]
	if !ok {
		return nil
	}
	delete(annotations, randomMark)
	u.SetAnnotations(annotations)
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
	}
	var random []string
	if json.Unmarshal([]byte(mark), &random) != nil {
		return []string{""} // something has changed the mark
	}
	return random
}

// withoutCharts returns a kustomization that has chartResource, if there is anything in it, in place of its charts.
func withoutCharts(content []byte, some bool) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return nil, err
	}
	e := &kustomizationEdit{root: doc.Content[0]}
	for _, field := range []string{"helmCharts", "helmGlobals", "helmChartInflationGenerator"} {
		if i := e.index(field); i >= 0 {
			e.root.Content = slices.Delete(e.root.Content, i, i+2)
		}
	}
	if some {
		err := edit(e, "resources", func(resources []string) ([]string, error) { return append(resources, chartResource), nil })
		if err != nil {
			return nil, err
		}
	}
	return yaml.Marshal(&doc)
}
