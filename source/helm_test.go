package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/trueup/trueup/source/internal/helm"
	"github.com/trueup/trueup/source/internal/sandbox"
)

// writeChart writes a chart with the given files besides a Chart.yaml into the folder chart of a new one.
func writeChart(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "chart/Chart.yaml"), []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n"))
	for name, content := range files {
		writeFile(t, filepath.Join(dir, name), []byte(content))
	}
	return dir
}

const chartConfigMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n"

// inChart keys a template, so that a table of errors reads as one.
func inChart(template string) map[string]string {
	return map[string]string{"chart/templates/x.yaml": template}
}

func TestChartsThatCannotBeRendered(t *testing.T) {
	dependencies := "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: db, version: 1.x, repository: https://charts.example.com}, {name: cache, version: 2.0.0}]\n"
	for sentence, c := range map[string]struct {
		files map[string]string
		helm  Helm
		want  string
	}{
		"a template with a mistake in it": {inChart(chartConfigMap + "data: {{ .Values.x | nope }}\n"), Helm{}, `chart/templates/x.yaml:5): function "nope" not defined`},
		"a template that fails":           {inChart(chartConfigMap + "data:\n  x: {{ required \"set .Values.x\" .Values.x }}\n"), Helm{}, "chart/templates/x.yaml:6): set .Values.x"},
		"a nil in between":                {inChart(chartConfigMap + "data:\n  x: {{ .Values.a.b.c }}\n"), Helm{}, "chart/templates/x.yaml:6"},
		"what is no YAML":                 {inChart(chartConfigMap + "data: [\n"), Helm{}, "chart/templates/x.yaml: what it renders to is no valid YAML"},
		"what is no object":               {inChart("apiVersion: v1\nmetadata: {name: x}\n"), Helm{}, "chart/templates/x.yaml:1: what it renders to"},
		"missing dependencies": {map[string]string{"chart/Chart.yaml": dependencies}, Helm{},
			"chart/Chart.yaml: the dependencies db 1.x from https://charts.example.com, cache 2.0.0 are not in charts/: run `helm dependency build chart` and commit what it makes"},
		"a library":                       {map[string]string{"chart/Chart.yaml": "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n"}, Helm{}, "chart/Chart.yaml is a library chart"},
		"a chart for another Kubernetes":  {map[string]string{"chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\nkubeVersion: '<1.20.0'\n"}, Helm{KubeVersion: "v1.33.0"}, "the chart is for Kubernetes <1.20.0, and this is v1.33.0"},
		"a Chart.yaml without a version":  {map[string]string{"chart/Chart.yaml": "apiVersion: v2\nname: web\n"}, Helm{}, "chart.metadata.version is required"},
		"a value file that is not there":  {nil, Helm{ValueFiles: []string{"prod.yaml"}}, "helm.valueFiles: there is no file chart/prod.yaml"},
		"a value file outside":            {nil, Helm{ValueFiles: []string{"../../../etc/passwd"}}, "leaves the repository"},
		"a value file by a link":          {nil, Helm{ValueFiles: []string{"outside.yaml"}}, "outside.yaml is a symbolic link that leaves the repository"},
		"a remote value file":             {nil, Helm{ValueFiles: []string{"https://user:hunter2@example.com/v.yaml"}}, "is remote, and remote files are not fetched"},
		"a value file that is no YAML":    {map[string]string{"chart/bad.yaml": "a: [\n"}, Helm{ValueFiles: []string{"bad.yaml"}}, "reading the values in chart/bad.yaml"},
		"a file parameter that is absent": {nil, Helm{FileParameters: []HelmParameter{{Name: "x", Value: "none"}}}, "helm.fileParameters x: there is no file chart/none"},
		"a parameter that is malformed":   {nil, Helm{Parameters: []HelmParameter{{Name: "a[x]", Value: "hunter2"}}}, "setting helm.parameters a[x]"},
		"values against the schema":       {map[string]string{"chart/values.schema.json": `{"properties": {"port": {"type": "integer"}}}`}, Helm{Values: "port: x"}, "at '/port': got string, want integer"},
		"a schema by URL": {map[string]string{"chart/values.schema.json": `{"properties": {"port": {"$ref": "http://127.0.0.1:1/x.json"}}}`}, Helm{},
			`chart/values.schema.json: $ref "http://127.0.0.1:1/x.json" is not in this file`},
		"a schema by file":       {map[string]string{"chart/values.schema.json": `{"$ref": "file:///etc/passwd"}`}, Helm{}, `$ref "file:///etc/passwd" is not in this file`},
		"a schema by its id":     {map[string]string{"chart/values.schema.json": `{"$id": "file:///etc/", "$ref": "passwd"}`}, Helm{}, `$ref "passwd" is not in this file`},
		"a schema of its own":    {map[string]string{"chart/values.schema.json": `{"$schema": "file:///etc/passwd"}`}, Helm{}, `$schema "file:///etc/passwd" is none of json-schema.org's`},
		"a schema in a subchart": {map[string]string{"chart/charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n", "chart/charts/sub/values.schema.json": `{"$ref": "/etc/passwd"}`}, Helm{}, "chart/charts/sub/values.schema.json"},
		"a dependency outside":   {map[string]string{"chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: db, version: 1.0.0, repository: file://../../../db}]\n"}, Helm{}, "leaves the repository"},
		"an alias bomb": {inChart(chartConfigMap + "data:\n  a: &a [x,x,x,x,x,x,x,x,x,x]\n  b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n  c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n  d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
			"  e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n  f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n  g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n  h: [*g,*g,*g,*g,*g,*g,*g,*g,*g,*g]\n"), Helm{}, "aliases expand to too much data"},
	} {
		dir := writeChart(t, c.files)
		if err := os.Symlink("/etc/hostname", filepath.Join(dir, "chart/outside.yaml")); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(sentence, "link") {
			_ = os.Remove(filepath.Join(dir, "chart/outside.yaml"))
		}
		_, err := RenderDir(t.Context(), dir, "chart", Options{Helm: c.helm})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v", sentence, c.want, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells a secret: %v", sentence, err)
		}
	}
}

func TestErrorsOfChartsTellNoSecret(t *testing.T) {
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n"
	for sentence, files := range map[string]map[string]string{
		"a Secret's value where a number is expected": inChart(secret + "data: {x: {{ add .Values.plain (fail .Values.plain) }}}\n"),
		"a password anywhere":                         inChart(chartConfigMap + "data: {x: {{ fail .Values.password }}}\n"),
		"a template that is the value":                inChart(chartConfigMap + "data: {x: {{ tpl (printf \"%s {{ nope }}\" .Values.plain) . }}}\n"),
		"a schema":                                    {"chart/values.schema.json": `{"properties": {"password": {"pattern": "^[0-9]+$"}}}`},
		"YAML that is none":                           inChart(secret + "stringData: {x: {{ .Values.plain }}: [}\n"),
	} {
		dir := writeChart(t, files)
		_, err := RenderDir(t.Context(), dir, "chart", Options{Helm: Helm{Values: "password: hunter2\nplain: hunter2\n"}})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: want an error without the value, got %v", sentence, err)
		}
	}
}

// tgz returns an archive with the given files.
func tgz(t testing.TB, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []interface{ Close() error }{archive, zipped} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

const subChart = "apiVersion: v2\nname: sub\nversion: 1.0.0\n"

func TestChartsThatHurtAreStopped(t *testing.T) {
	bomb := strings.Repeat("\x00", 300<<20)
	for sentence, c := range map[string]struct {
		files map[string]string
		want  []string // each
	}{
		"a loop": {inChart("{{ range until 1000000000 }}{{ range until 1000000000 }}{{ end }}{{ end }}"), []string{"the renderer was stopped at chart/templates/x.yaml"}},
		"a loop that takes nothing": {inChart("{{ range $i := untilStep 0 2000 1 }}{{ range $j := untilStep 0 2000 1 }}{{ range $k := untilStep 0 2000 1 }}{{ end }}{{ end }}{{ end }}"),
			[]string{"the renderer was stopped at chart/templates/x.yaml: it did not end within 3s"}},
		"an include of itself":    {inChart(`{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`), []string{"nested reference name: a"}},
		"a template of itself":    {inChart(`{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}`), []string{"chart/templates/x.yaml"}},
		"a repeat without end":    {inChart(`{{ $x := "x" }}{{ range until 40 }}{{ $x = printf "%s%s" $x $x }}{{ end }}{{ $x }}`), []string{"the renderer was stopped at chart/templates/x.yaml: it "}},
		"a repeat at once":        {inChart(`{{ repeat 20000000000 "x" }}`), []string{"chart/templates/x.yaml"}},
		"a list at once":          {inChart(`{{ until 2000000000 | len }}`), []string{"the renderer was stopped at chart/templates/x.yaml: it "}},
		"an output without bound": {inChart("{{ range until 10000 }}{{ repeat 10000 \"x\" }}{{ end }}"), []string{"chart"}},
		"a bomb in an archive":    {map[string]string{"chart/charts/sub-1.0.0.tgz": tgz(t, map[string]string{"sub/Chart.yaml": subChart, "sub/templates/bomb": bomb})}, []string{"sub-1.0.0.tgz", "decompressed chart is larger than the maximum size"}},
		"an archive that climbs":  {map[string]string{"chart/charts/sub-1.0.0.tgz": tgz(t, map[string]string{"sub/Chart.yaml": subChart, "sub/../../../etc/x": "x"})}, []string{"illegally"}},
		"an archive that is none": {map[string]string{"chart/charts/sub-1.0.0.tgz": "this is not what gzip makes"}, []string{"sub-1.0.0.tgz", "gzip"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			defer func(d time.Duration) { chartLimits().Time = d }(chartLimits().Time)
			chartLimits().Time = 3 * time.Second
			start := time.Now()
			_, err := RenderDir(t.Context(), writeChart(t, c.files), "chart", Options{})
			if err == nil {
				t.Fatal("it should be stopped")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q, got %.500v", want, err)
				}
			}
			if took := time.Since(start); took > 15*time.Second || len(err.Error()) > 5000 {
				t.Errorf("it took %s and %d bytes to say", took, len(err.Error()))
			}
		})
	}
}

func TestChartsFromArchivesAndLocalFolders(t *testing.T) {
	dir := writeChart(t, map[string]string{
		"chart/Chart.yaml":             "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {name: sub, version: ^1.0.0, repository: https://charts.example.com}\n- {name: local, version: '>=0.1.0', repository: file://../local}\n",
		"chart/charts/sub-1.0.0.tgz":   tgz(t, map[string]string{"sub/Chart.yaml": subChart, "sub/templates/x.yaml": chartConfigMap}),
		"local/Chart.yaml":             "apiVersion: v2\nname: local\nversion: 0.2.0\n",
		"local/templates/a.yaml":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: local}\n",
		"unrelated/not/read/file.yaml": "x",
	})
	rendered, err := RenderDir(t.Context(), dir, "chart", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range rendered.Objects {
		got = append(got, o.GetName()+" "+o.Place())
	}
	want := []string{"local chart/charts/local/templates/a.yaml:1", "settings chart/charts/sub/templates/x.yaml:1"}
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for _, in := range rendered.Inputs {
		if strings.HasPrefix(in.Path, "unrelated") {
			t.Errorf("%s is no input", in.Path)
		}
	}
	if !slices.ContainsFunc(rendered.Inputs, func(in Input) bool { return in.Path == "local/templates/a.yaml" }) {
		t.Error("the local chart is an input")
	}
}

func TestHooksOfAChart(t *testing.T) {
	hook := func(name, events string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  annotations: {helm.sh/hook: %q}\n---\n", name, events)
	}
	rendered, err := RenderDir(t.Context(), writeChart(t, inChart(hook("migrate", "pre-install, pre-upgrade")+hook("probe", "test")+hook("old", "test-success")+
		hook("crd", "crd-install")+hook("both", "post-install,test")+hook("bye", "pre-delete")+chartConfigMap)), "chart", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range rendered.Objects {
		name := o.GetName()
		if o.Hook != nil {
			name += " " + string(o.Hook.Phases[0])
		}
		got = append(got, name)
	}
	if d := gocmp.Diff([]string{"migrate PreSync", "crd", "both PostSync", "settings"}, got); d != "" {
		t.Errorf("objects: -want +got:\n%s", d)
	}
	want := []string{"hooks are left out that are not for a sync: Pod bye (pre-delete)"}
	if d := gocmp.Diff(want, rendered.Warnings); d != "" {
		t.Errorf("warnings: -want +got:\n%s", d)
	}
}

func TestWhatAChartMakesUpIsSaid(t *testing.T) {
	rendered, err := RenderDir(t.Context(), writeChart(t, map[string]string{
		"chart/templates/a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: random}\ndata:\n  fixed: eA==\n  a~b: {{ randAlphaNum 20 | b64enc }}\n",
		"chart/templates/b.yaml": chartConfigMap + "data: {fixed: x, now: {{ \"2020\" | quote }}}\n",
		"chart/templates/c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ randAlpha 20 | lower }}}\n",
	}), "chart", Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, o := range rendered.Objects {
		got[o.File] = o.Random
	}
	want := map[string][]string{"chart/templates/a.yaml": {"/data/a~0b"}, "chart/templates/b.yaml": nil, "chart/templates/c.yaml": {""}}
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if len(rendered.Warnings) != 1 || !strings.Contains(rendered.Warnings[0], "Secret random (/data/a~0b)") {
		t.Errorf("warnings: %q", rendered.Warnings)
	}
}

func TestChartsAskForTheClusterOnlyIfTheySay(t *testing.T) {
	cluster := func() (*Cluster, error) {
		return &Cluster{KubeVersion: "v1.30.1", APIVersions: []string{"shop/v1"}}, nil
	}
	for sentence, c := range map[string]struct {
		template string
		uses     bool
		want     string
	}{
		"one that asks":     {chartConfigMap + "data: {v: \"{{ .Capabilities.KubeVersion.Version }} {{ .Capabilities.APIVersions.Has \"shop/v1\" }} {{ .Capabilities.APIVersions.Has \"apps/v1\" }}\"}\n", true, "v1.30.1 true false"},
		"one that does not": {chartConfigMap + "data: {v: x}\n", false, "x"},
	} {
		rendered, err := RenderDir(t.Context(), writeChart(t, inChart(c.template)), "chart", Options{Helm: Helm{Cluster: cluster}})
		if err != nil {
			t.Fatal(err)
		}
		data, _ := rendered.Objects[0].Object["data"].(map[string]any)
		if data["v"] != c.want || rendered.UsesCluster != c.uses {
			t.Errorf("%s: got %v, uses the cluster: %v", sentence, data["v"], rendered.UsesCluster)
		}
	}
}

func BenchmarkChartOf300Objects(b *testing.B) {
	files := map[string]string{"chart/values.yaml": "replicas: 3\n", "chart/templates/_h.tpl": `{{ define "labels" }}{app: {{ .Release.Name }}, chart: {{ .Chart.Name }}}{{ end }}`}
	for i := range 300 {
		files[fmt.Sprintf("chart/templates/%03d.yaml", i)] = fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-%d
  labels: {{ include "labels" . }}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {{ include "labels" . }}}
  template:
    metadata: {labels: {{ include "labels" . }}}
    spec:
      containers:
        - {name: web, image: nginx:1.29, resources: {requests: {cpu: 100m, memory: 64Mi}}}
`, i)
	}
	dir := writeChart(b, files)
	for b.Loop() {
		rendered, err := RenderDir(b.Context(), dir, "chart", Options{})
		if err != nil || len(rendered.Objects) != 300 {
			b.Fatal(err)
		}
	}
}

func chartLimits() *sandbox.Limits { return &helm.Limits }

func TestChartsInKustomizations(t *testing.T) {
	template := chartConfigMap + "data:\n  a: {{ .Values.a }}\n  b: {{ .Values.b }}\n  c: {{ .Values.c }}\n  release: {{ .Release.Name }} in {{ .Release.Namespace }}\n"
	for sentence, c := range map[string]struct {
		kustomization string
		want          map[string]any
	}{
		"values of the kustomization win": {"helmCharts:\n- {name: web, releaseName: shop, namespace: prod, valuesInline: {a: inline}, additionalValuesFiles: [more.yaml]}\n",
			map[string]any{"a": "inline", "b": "chart", "c": "more", "release": "shop in prod"}},
		"values of the chart win": {"helmCharts: [{name: web, valuesMerge: merge, valuesInline: {a: inline}}]\n",
			map[string]any{"a": "chart", "b": "chart", "c": "chart", "release": "web in default"}},
		"a file of values": {"helmCharts: [{name: web, valuesFile: more.yaml, valuesInline: {a: inline}}]\n",
			map[string]any{"a": "inline", "b": "chart", "c": "more", "release": "web in default"}},
		"the older form": {"helmChartInflationGenerator: [{chartName: web, releaseName: old, valuesLocal: {b: local}}]\n",
			map[string]any{"a": "chart", "b": "local", "c": "chart", "release": "old in default"}},
		"another home": {"helmGlobals: {chartHome: vendor/}\nhelmCharts: [{name: web, version: 1.0.0, repo: https://charts.example.com}]\n",
			map[string]any{"a": "chart", "b": "chart", "c": "chart", "release": "web in default"}},
	} {
		files := map[string]string{"all/kustomization.yaml": "resources: [base]\nnamePrefix: my-\n", "all/base/kustomization.yaml": "namespace: there\n" + c.kustomization, "all/base/more.yaml": "c: more\n"}
		for _, home := range []string{"all/base/charts/web/", "all/base/vendor/web-1.0.0/web/"} {
			files[home+"Chart.yaml"], files[home+"values.yaml"] = "apiVersion: v2\nname: web\nversion: 1.0.0\n", "a: chart\nb: chart\nc: chart\n"
			files[home+"templates/x.yaml"], files[home+"crds/x.yaml"] = template, strings.ReplaceAll(chartConfigMap, "settings", "crd")
		}
		rendered, err := RenderDir(t.Context(), writeChart(t, files), "all", Options{})
		if err != nil {
			t.Errorf("%s: %v", sentence, err)
			continue
		}
		want := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "my-settings", "namespace": "there"}, "data": c.want}
		if d := gocmp.Diff(want, rendered.Objects[0].Object); d != "" || len(rendered.Objects) != 1 {
			t.Errorf("%s: -want +got:\n%s", sentence, d)
		}
	}
}

func TestChartsInKustomizationsThatCannotBeRendered(t *testing.T) {
	for sentence, c := range map[string]struct{ kustomization, want string }{
		"one that is not there": {"helmCharts: [{name: db, version: 1.0.0, repo: https://charts.example.com}]\n",
			"all/kustomization.yaml: helmCharts: db: there is no chart in all/charts/db-1.0.0/db, and charts of a kustomization are not fetched: run `helm pull"},
		"one outside":        {"helmGlobals: {chartHome: ../../..}\nhelmCharts: [{name: web}]\n", "leaves the repository"},
		"values outside":     {"helmCharts: [{name: web, valuesFile: ../../../v.yaml}]\n", "leaves the repository"},
		"one that fails":     {"helmCharts: [{name: web, valuesInline: {fail: please}}]\n", "all/charts/web/templates/x.yaml:1): please"},
		"an unknown merging": {"helmCharts: [{name: web, valuesMerge: shuffle}]\n", `valuesMerge "shuffle" is none of`},
	} {
		dir := writeChart(t, map[string]string{"all/kustomization.yaml": c.kustomization, "all/charts/web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
			"all/charts/web/templates/x.yaml": "{{ if .Values.fail }}{{ fail .Values.fail }}{{ end }}"})
		if _, err := RenderDir(t.Context(), dir, "all", Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v", sentence, c.want, err)
		}
	}
}

func TestChartsOfAKustomizationAreCountedOverAllItsBases(t *testing.T) {
	files := map[string]string{"all/kustomization.yaml": "resources: [one, two]\n"}
	for _, base := range []string{"one", "two"} {
		files["all/"+base+"/kustomization.yaml"] = "helmCharts:\n"
		for i := range maxCharts/2 + 1 {
			files["all/"+base+"/kustomization.yaml"] += fmt.Sprintf("- {name: web, releaseName: %s-%d}\n", base, i)
		}
		files["all/"+base+"/charts/web/Chart.yaml"] = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
		files["all/"+base+"/charts/web/templates/x.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\n"
	}
	_, err := RenderDir(t.Context(), writeChart(t, files), "all", Options{})
	if err == nil || !strings.Contains(err.Error(), "all/two/kustomization.yaml: helmCharts: there are more than 50 charts") {
		t.Errorf("got %v", err)
	}
}

func TestWhatAChartInAKustomizationMakesUpIsKnown(t *testing.T) {
	dir := writeChart(t, map[string]string{"all/kustomization.yaml": "namePrefix: my-\nhelmCharts: [{name: web}]\n", "all/charts/web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"all/charts/web/templates/x.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {x: {{ randAlphaNum 9 | b64enc }}}\n"})
	rendered, err := RenderDir(t.Context(), dir, "all", Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := rendered.Objects[0]
	if d := gocmp.Diff([]string{"/data/x"}, o.Random); d != "" || o.GetName() != "my-x" || o.GetAnnotations() != nil {
		t.Errorf("%s\n%v", d, o.Object["metadata"])
	}
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
