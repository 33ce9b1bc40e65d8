// Package helm holds what charts render to against Helm itself.
package helm

import (
	"bytes"
	"cmp"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/cli/values"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"

	"github.com/trueup/trueup/source"
)

func TestMain(m *testing.M) {
	source.Main()
	os.Exit(m.Run())
}

// chartCase is one file of testdata/charts, written to a folder.
type chartCase struct {
	dir     string
	options chartOptions
}

type chartOptions struct {
	ValueFiles              []string
	IgnoreMissingValueFiles bool
	Values                  string
	ValuesObject            map[string]any
	Parameters              []source.HelmParameter
	FileParameters          []source.HelmParameter
	ReleaseName             string
	Namespace               string
	KubeVersion             string
	APIVersions             []string
	SkipCRDs                bool
	SkipSchemaValidation    bool

	HelmFiles []string // what ValueFiles come to, for Helm
}

func (o chartOptions) ours() source.Options {
	return source.Options{Helm: source.Helm{
		ValueFiles: o.ValueFiles, IgnoreMissingValueFiles: o.IgnoreMissingValueFiles, Values: o.Values, ValuesObject: o.ValuesObject, Parameters: o.Parameters,
		FileParameters: o.FileParameters, ReleaseName: o.ReleaseName, Namespace: o.Namespace, KubeVersion: o.KubeVersion, APIVersions: o.APIVersions,
		SkipCRDs: o.SkipCRDs, SkipSchemaValidation: o.SkipSchemaValidation,
	}}
}

func readChartCase(t *testing.T, name string) chartCase {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "charts", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	c := chartCase{dir: t.TempDir()}
	for _, f := range archive.Files {
		if f.Name == "options.yaml" {
			if err := yaml.UnmarshalStrict(f.Data, &c.options); err != nil {
				t.Fatal(err)
			}
			continue
		}
		writeFile(t, filepath.Join(c.dir, f.Name), f.Data)
	}
	return c
}

func writeFile(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// helmTemplate renders a chart as `helm template --include-crds` does, and returns its objects and its hooks.
func helmTemplate(t *testing.T, c chartCase) (objects, hooks []map[string]any) {
	t.Helper()
	install := action.NewInstall(&action.Configuration{})
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = cmp.Or(c.options.ReleaseName, "release-name"), cmp.Or(c.options.Namespace, "default")
	install.IncludeCRDs, install.SkipSchemaValidation = !c.options.SkipCRDs, c.options.SkipSchemaValidation
	install.APIVersions = c.options.APIVersions
	if v := c.options.KubeVersion; v != "" {
		parsed, err := common.ParseKubeVersion(v)
		if err != nil {
			t.Fatal(err)
		}
		install.KubeVersion = parsed
	}
	chart, err := loader.Load(filepath.Join(c.dir, "chart"))
	if err != nil {
		t.Fatal(err)
	}
	released, err := install.Run(chart, c.helmValues(t))
	if err != nil {
		t.Fatal(err)
	}
	r := released.(*release.Release)
	for _, h := range r.Hooks {
		hooks = append(hooks, parseDocuments(t, h.Manifest)...)
	}
	return parseDocuments(t, r.Manifest), hooks
}

func (c chartCase) helmValues(t *testing.T) map[string]any {
	t.Helper()
	var opts values.Options
	for _, f := range c.options.HelmFiles {
		opts.ValueFiles = append(opts.ValueFiles, filepath.Join(c.dir, f))
	}
	content := []byte(c.options.Values)
	if c.options.ValuesObject != nil {
		var err error
		if content, err = yaml.Marshal(c.options.ValuesObject); err != nil {
			t.Fatal(err)
		}
	}
	last := filepath.Join(t.TempDir(), "values.yaml")
	writeFile(t, last, content)
	opts.ValueFiles = append(opts.ValueFiles, last)
	for _, p := range c.options.Parameters {
		value := p.Value
		if !strings.HasPrefix(value, "{") {
			value = strings.ReplaceAll(value, ",", `\,`)
		}
		if p.ForceString {
			opts.StringValues = append(opts.StringValues, p.Name+"="+value)
		} else {
			opts.Values = append(opts.Values, p.Name+"="+value)
		}
	}
	for _, p := range c.options.FileParameters {
		opts.FileValues = append(opts.FileValues, p.Name+"="+filepath.Join(c.dir, "chart", p.Value))
	}
	merged, err := opts.MergeValues(nil)
	if err != nil {
		t.Fatal(err)
	}
	return merged
}

// parseDocuments reads YAML as Helm does, lists expanded.
func parseDocuments(t *testing.T, manifest string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, document := range releaseutil.SplitManifests(manifest) {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		if items, ok := o["items"].([]any); ok && o["kind"] == "List" {
			for _, item := range items {
				out = append(out, item.(map[string]any))
			}
		} else if o != nil {
			out = append(out, o)
		}
	}
	return sortedObjects(t, out)
}

func sortedObjects(t *testing.T, objects []map[string]any) []map[string]any {
	t.Helper()
	key := func(o map[string]any) []byte {
		out, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	slices.SortFunc(objects, func(a, b map[string]any) int { return bytes.Compare(key(a), key(b)) })
	return objects
}

func ourObjects(t *testing.T, rendered *source.Rendered) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, o := range rendered.Objects {
		var copied map[string]any // numbers as sigs.k8s.io/yaml has them
		content, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(content, &copied); err != nil {
			t.Fatal(err)
		}
		out = append(out, copied)
	}
	return sortedObjects(t, out)
}

// TestChartsAreHelms renders each chart of testdata/charts with Helm's own action and with ours.
func TestChartsAreHelms(t *testing.T) {
	names, err := filepath.Glob("testdata/charts/*.txtar")
	if err != nil || len(names) < 10 {
		t.Fatalf("found %d charts, %v", len(names), err)
	}
	for _, name := range names {
		name = strings.TrimSuffix(path.Base(filepath.ToSlash(name)), ".txtar")
		t.Run(name, func(t *testing.T) {
			c := readChartCase(t, name)
			want, _ := helmTemplate(t, c)
			rendered, err := source.RenderDir(t.Context(), c.dir, "chart", c.options.ours())
			if err != nil {
				t.Fatal(err)
			}
			if d := gocmp.Diff(want, ourObjects(t, rendered)); d != "" {
				t.Errorf("-Helm +ours:\n%s", d)
			}
			for _, o := range rendered.Objects {
				if strings.Contains(o.File, "/charts/") {
					continue // an alias has no folder
				}
				if _, err := os.Stat(filepath.Join(c.dir, o.File)); err != nil {
					t.Errorf("%s %s is said to be from %s, which is no file", o.GetKind(), o.GetName(), o.Place())
				}
			}
		})
	}
}
