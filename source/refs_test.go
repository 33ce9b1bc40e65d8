package source

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

func TestATreeWithFilesOfOtherSources(t *testing.T) {
	values := commitTree(t, map[string]string{"prod/values.yaml": "of values", "prod/link.yaml": "-> values.yaml", "prod/out.yaml": "-> ../../chart/Chart.yaml", "secret": "s"})
	chart := commitTree(t, map[string]string{"chart/Chart.yaml": "of chart", "$values/prod/values.yaml": "not this one", "chart/in.yaml": "-> ../$values/secret", "$other/x": "own"})
	tree := chart.WithRefs(map[string]*Tree{"values": values})
	for name, want := range map[string]string{
		"chart/Chart.yaml": "of chart", "$values/prod/values.yaml": "of values", "$values/prod/link.yaml": "of values", "$other/x": "own",
	} {
		if got, err := tree.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("ReadFile(%s) = %s, %v, want %s", name, got, err, want)
		}
	}
	for _, name := range []string{"$values/prod/out.yaml", "chart/in.yaml"} {
		if _, err := tree.ReadFile(name); err == nil || !strings.Contains(err.Error(), "leaves the repository") {
			t.Errorf("ReadFile(%s): %v, want that a link leaves the repository", name, err)
		}
	}
	if _, err := tree.ReadFile("$values/nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	for name, tc := range map[string]struct{ want, err string }{
		"$values/prod/values.yaml": {want: "$values/prod/values.yaml"},
		"$values/./prod//x":        {want: "$values/prod/x"},
		"$values/../chart/x":       {err: "leaves the repository"},
		"$typo/x":                  {err: "none of the Application's has the ref typo"},
		"values.yaml":              {},
	} {
		got, ok, err := tree.refPath(name)
		if got != tc.want || ok != strings.HasPrefix(name, "$") || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("refPath(%s) = %s, %t, %v, want %s and %q", name, got, ok, err, tc.want, tc.err)
		}
	}
}

func TestAFootprintSeesChangesInOtherSources(t *testing.T) {
	chart := commitTree(t, map[string]string{"chart/Chart.yaml": "c"})
	read := func(value, unread string) *Tree {
		return chart.WithRefs(map[string]*Tree{"values": commitTree(t, map[string]string{"prod/values.yaml": value, "dev/values.yaml": unread})})
	}
	tree := read("1", "1")
	rec := newRecorder()
	if _, err := tree.recorded(rec).ReadFile("$values/prod/values.yaml"); err != nil {
		t.Fatal(err)
	}
	f := NewFootprint(tree, rec.inputs())
	for name, tc := range map[string]struct {
		tree *Tree
		want bool
	}{
		"nothing":                  {tree, true},
		"a file that was not read": {read("1", "2"), true},
		"the file that was":        {read("2", "1"), false},
		"the other source is away": {chart, false},
	} {
		if got := f.Holds(t.Context(), tc.tree); got != tc.want {
			t.Errorf("a change of %s: Holds = %t, want %t", name, got, tc.want)
		}
	}
}

// What a repository says reads nothing of another source: only what the Application names does.
func TestARepositoryReadsNothingOfOtherSources(t *testing.T) {
	const secret = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stolen}\n"
	values := commitTree(t, map[string]string{"cm.yaml": secret, "chart/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n"})
	own := commitTree(t, map[string]string{
		"kustomize/kustomization.yaml": "resources: [../$values/cm.yaml]\n",
		"jsonnet/a.jsonnet":            "import '../$values/cm.yaml'",
		"chart/Chart.yaml":             "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, repository: 'file://../$values/chart'}]\n",
		"chart/templates/a.yaml":       secret,
	})
	tree := own.WithRefs(map[string]*Tree{"values": values})
	for _, dir := range []string{"kustomize", "jsonnet", "chart"} {
		if got, err := Render(t.Context(), tree, dir, Options{}); err == nil {
			t.Errorf("%s reads another source: %v", dir, got.Objects)
		}
	}
	named := Options{Helm: Helm{ValueFiles: []string{"$values/cm.yaml"}}}
	chart := commitTree(t, map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Values.metadata.name }}'}\n"})
	got, err := Render(t.Context(), chart.WithRefs(map[string]*Tree{"values": values}), "", named)
	if err != nil || len(got.Objects) != 1 || got.Objects[0].GetName() != "stolen" {
		t.Errorf("the Application names values of another source: %v", err)
	}
}

func TestARenderHasSoManyObjects(t *testing.T) {
	tree := commitTree(t, map[string]string{"a.yaml": strings.Repeat("apiVersion: v1\nkind: X\nmetadata: {name: x}\n---\n", maxObjects+1)})
	if _, err := Render(t.Context(), tree, "", Options{}); err == nil || !strings.Contains(err.Error(), "at most 50000 are taken") {
		t.Errorf("got %v", err)
	}
}
