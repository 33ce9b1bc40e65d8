package sync

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
)

// TestValuesOfAnotherSource has a chart in one repository and its values in another.
func TestValuesOfAnotherSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	values := gitserver.New(t, t.TempDir(), gitserver.Options{})
	chart := w.git.Commit(map[string]string{
		"charts/shop/Chart.yaml":        "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
		"charts/shop/values.yaml":       "mode: default\n",
		"charts/shop/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {mode: {{ .Values.mode }}}\n",
	}, "chart")
	first := values.Commit(map[string]string{"prod/values.yaml": "mode: first\n", "README": "x"}, "first")
	w.app("shop", several(
		v1alpha1.Source{RepoURL: w.git.URL(), Path: "charts/shop", Helm: &v1alpha1.Helm{ValueFiles: []string{"$values/prod/values.yaml"}}},
		v1alpha1.Source{RepoURL: values.URL(), Ref: "values"},
	))
	w.until("shop", syncedAll(chart, first))
	if got := w.setting("settings"); got != "first" {
		t.Errorf("the values of the other source: got %s, want first", got)
	}
	// A commit to the values alone renders the chart anew; one beside them does not.
	second := values.Commit(map[string]string{"prod/values.yaml": "mode: second\n"}, "second")
	w.until("shop", syncedAll(chart, second))
	if got := w.setting("settings"); got != "second" {
		t.Errorf("the values of the other source: got %s, want second", got)
	}
	state := w.controller.states.of(types.NamespacedName{Namespace: w.ns, Name: "shop"})
	set := state.current().set
	third := values.Commit(map[string]string{"README": "y"}, "third")
	w.until("shop", syncedAll(chart, third))
	if state.current().set != set {
		t.Error("a file that is not read has led to a render")
	}
	values.Remove("gone", "prod")
	w.until("shop", says(v1alpha1.ConditionRendered, "sources[0]", "$values/prod/values.yaml"))
	w.heals("settings")
	w.kubectl("patch", "application", "shop", "--type=json", "-p", `[{"op":"replace","path":"/spec/sources/0/helm/valueFiles/0","value":"$typo/x.yaml"}]`)
	w.until("shop", says(v1alpha1.ConditionRendered, "none of the Application's has the ref typo"))
}
