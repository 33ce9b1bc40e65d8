package source

import (
	"fmt"
	"strings"
	"testing"
)

func helmBase(value string) map[string]string {
	return map[string]string{
		"kustomization.yaml":               "helmCharts: [{name: web}]\n",
		"charts/web/Chart.yaml":            "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"charts/web/templates/config.yaml": configMap("of-"+value, value),
	}
}

// TestChartsOfARemotesPluginsAreItsOwn has a kustomization with a chart at the same path in two repositories, in the one to
// configure a plugin.
func TestChartsOfARemotesPluginsAreItsOwn(t *testing.T) {
	w := newRemoteWorld(t, nil)
	remote := map[string]string{"base/kustomization.yaml": "generators: [../gen]\n"}
	for name, content := range helmBase("remote") {
		remote["gen/"+name] = content
	}
	remote["gen/charts/web/templates/config.yaml"] = "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: generated}\nliterals: [a=remote]\n"
	w.git.Commit(remote, "first")
	local := map[string]string{"app/kustomization.yaml": "resources: [\"GIT//base?ref=main\", ../gen]\n"}
	for name, content := range helmBase("local") {
		local["gen/"+name] = content
	}
	tree := commitTree(t, w.named(local)).WithRemotes(w.remotes())
	got, err := Render(t.Context(), tree, "app", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range got.Objects {
		names = append(names, o.GetKind()+"/"+o.GetName())
	}
	if len(names) != 2 || !strings.HasPrefix(names[0], "ConfigMap/generated") || names[1] != "ConfigMap/of-local" {
		t.Errorf("rendered %v", names)
	}
}

// TestManyChartsInALargeKustomization has as many charts as there may be, and many files besides.
func TestManyChartsInALargeKustomization(t *testing.T) {
	files := map[string]string{}
	var resources []string
	for i := range 600 {
		files[fmt.Sprintf("app/cm-%d.yaml", i)] = configMap(fmt.Sprintf("cm-%d", i), "1")
		resources = append(resources, fmt.Sprintf("cm-%d.yaml", i))
	}
	for i := range maxCharts {
		for name, content := range helmBase(fmt.Sprint(i)) {
			files[fmt.Sprintf("base-%d/%s", i, name)] = content
		}
		resources = append(resources, fmt.Sprintf("../base-%d", i))
	}
	files["app/kustomization.yaml"] = "resources: [" + strings.Join(resources, ", ") + "]\n"
	got, err := Render(t.Context(), commitTree(t, files), "app", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Objects) != 600+maxCharts {
		t.Errorf("%d objects", len(got.Objects))
	}
}
