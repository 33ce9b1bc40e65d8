package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"

	"github.com/trueup/trueup/source/internal/sandbox"
)

// render does what `helm template` does.
func render(req Request, files sandbox.Files) (*Answer, error) {
	c, err := loadChart(files, req.Chart, 0)
	if err != nil {
		return nil, err
	}
	if c.Metadata.Type == "library" {
		return nil, fmt.Errorf("%s is a library chart: it has nothing to apply; use it as a dependency", path.Join(req.Chart, "Chart.yaml"))
	}
	if err := checkWhole(req, c); err != nil {
		return nil, err
	}
	r := renderer{req: req, files: files, chart: c, cluster: usesCluster(c)}
	if r.given, err = values(req, files); err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependencies(c, r.given); err != nil {
		return nil, fmt.Errorf("%s: %w", path.Join(req.Chart, "Chart.yaml"), r.hide("", err))
	}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	out, err := r.collect()
	if err != nil {
		return nil, err
	}
	if random.MatchString(r.texts()) {
		again, err := r.collect()
		if err != nil {
			return nil, err
		}
		markRandom(out.Documents, again.Documents)
	}
	out.Name, out.Version, out.Cluster = c.Name(), c.Metadata.Version, r.cluster
	return out, nil
}

// random matches the functions that can give something else each time. A chart that has none of these words renders to
// the same each time; the words alone prove nothing.
var random = regexp.MustCompile(`\b(?:rand[A-Z]\w*|gen[A-Z]\w*|uuidv4|shuffle|now|ago|htpasswd|bcrypt|encryptAES|keys)\b|[^.\w]values\b`)

type renderer struct {
	req     Request
	files   sandbox.Files
	chart   *chart.Chart
	given   map[string]any
	top     common.Values
	cluster bool
}

// usesCluster reports whether the cluster's version or APIs may have a part in what a chart renders to.
func usesCluster(c *chart.Chart) bool {
	if c.Metadata.KubeVersion != "" {
		return true
	}
	for _, f := range slices.Concat(c.Templates, c.Files) {
		if bytes.Contains(f.Data, []byte("Capabilities")) {
			return true
		}
	}
	return slices.ContainsFunc(c.Dependencies(), usesCluster)
}

// prepare makes what templates see, and has each of them say when its turn comes.
func (r *renderer) prepare() error {
	caps, err := r.capabilities()
	if err != nil {
		return err
	}
	if wanted := r.chart.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, caps.KubeVersion.String()) {
		return fmt.Errorf("%s: the chart is for Kubernetes %s, and this is %s", path.Join(r.req.Chart, "Chart.yaml"), wanted, caps.KubeVersion.Version)
	}
	if !r.req.SkipSchemaValidation {
		if err := checkSchemas(r.req.Chart, r.chart); err != nil {
			return err
		}
	}
	release := common.ReleaseOptions{Name: r.req.ReleaseName, Namespace: r.req.Namespace, Revision: 1, IsInstall: true}
	r.top, err = util.ToRenderValuesWithSchemaValidation(r.chart, r.given, release, caps, r.req.SkipSchemaValidation)
	if err != nil {
		return fmt.Errorf("rendering the chart %s: %w", or(r.req.Chart, "."), r.hide("", err))
	}
	return nil
}

func (r *renderer) capabilities() (*common.Capabilities, error) {
	caps := common.DefaultCapabilities.Copy()
	if r.req.KubeVersion != "" {
		version, err := common.ParseKubeVersion(r.req.KubeVersion)
		if err != nil {
			return nil, fmt.Errorf("helm.kubeVersion %q is no version of Kubernetes", r.req.KubeVersion)
		}
		caps.KubeVersion = *version
	}
	if r.req.OnlyAPIVersions {
		caps.APIVersions = r.req.APIVersions
	} else {
		caps.APIVersions = append(slices.Clone(caps.APIVersions), r.req.APIVersions...)
	}
	return caps, nil
}

// collect executes the templates once and sorts out what they give.
func (r *renderer) collect() (*Answer, error) {
	e := engine.Engine{CustomTemplateFuncs: template.FuncMap{atFunction: func(name string) string {
		sandbox.At(r.files, r.place(name))
		return ""
	}}}
	announce(r.chart)
	rendered, err := e.RenderWithContext(context.Background(), r.chart, r.top) // the process is what is ended
	if err != nil {
		return nil, r.explain(err)
	}
	out := &Answer{}
	if !r.req.SkipCRDs {
		for _, crd := range r.chart.CRDObjects() {
			if err := r.add(out, crd.Filename, string(crd.File.Data), true); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasPrefix(path.Base(name), "_") || strings.HasSuffix(name, "NOTES.txt") || strings.TrimSpace(rendered[name]) == "" {
			continue
		}
		if err := r.add(out, name, rendered[name], false); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// atFunction is a function for templates that no chart has.
const atFunction = "trueupTemplateAt"

// announce puts a call to atFunction before each template. It is written to nothing, so that it adds nothing to the
// output, and no line to the template.
func announce(c *chart.Chart) {
	for _, t := range c.Templates {
		name := path.Join(c.ChartFullPath(), t.Name)
		call := fmt.Sprintf("{{%s %q}}", atFunction, name)
		if !strings.HasPrefix(path.Base(name), "_") && !bytes.HasPrefix(t.Data, []byte(call)) {
			t.Data = append([]byte(call), t.Data...)
		}
	}
	for _, sub := range c.Dependencies() {
		announce(sub)
	}
}

// place returns the path of a template, which Helm calls by the name of its chart.
func (r *renderer) place(name string) string {
	_, rel, _ := strings.Cut(name, "/")
	return path.Join(r.req.Chart, rel)
}

// texts returns all that may be executed: templates, and values, as the function tpl takes them for templates.
func (r *renderer) texts() string {
	var all strings.Builder
	var add func(*chart.Chart)
	add = func(c *chart.Chart) {
		for _, f := range slices.Concat(c.Templates, c.Files) {
			all.Write(f.Data)
			all.WriteByte('\n')
		}
		for _, sub := range c.Dependencies() {
			add(sub)
		}
	}
	add(r.chart)
	if values, err := json.Marshal(r.top["Values"]); err == nil {
		all.Write(values)
	}
	return all.String()
}
