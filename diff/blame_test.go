package diff

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestBlame(t *testing.T) {
	live := &unstructured.Unstructured{Object: deployment(map[string]any{
		"replicas": int64(3),
		"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
		"template": map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "web", "image": "web:debug", "imagePullPolicy": "Always"},
			map[string]any{"name": "side", "image": "side:1", "imagePullPolicy": "Always"},
		}}},
	})}
	entries := []metav1.ManagedFieldsEntry{
		entry(manager, "Apply", "", `{"f:metadata":{"f:labels":{"f:tier":{}}},"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:name":{}}}}}}}`),
		entry("kubectl-edit", "Update", "", `{"f:metadata":{"f:labels":{".":{},"f:tier":{},"f:gone":{}}},"f:spec":{"f:selector":{},"f:template":{"f:spec":{"f:containers":{
			"k:{\"name\":\"web\"}":{"f:image":{}},"k:{\"name\":\"side\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`),
		entry("kubectl", "Update", "scale", `{"f:spec":{"f:replicas":{}}}`),
	}
	blame, err := NewBlame(live, entries, manager)
	if err != nil {
		t.Fatal(err)
	}
	containers := []string{"spec", "template", "spec", "containers"}
	for sentence, c := range map[string]struct {
		pointer []string
		want    string
	}{
		"a field that somebody took":                          {[]string{"spec", "replicas"}, "kubectl (scale)"},
		"a field of an item":                                  {append(containers, "0", "image"), "kubectl-edit"},
		"a field of ours":                                     {append(containers, "0", "name"), "nobody"},
		"a default in an item of ours":                        {append(containers, "0", "imagePullPolicy"), "nobody"},
		"a default in an item that somebody added is his":     {append(containers, "1", "imagePullPolicy"), "kubectl-edit"},
		"a place inside a value that is owned as a whole":     {[]string{"spec", "selector", "matchLabels", "app"}, "kubectl-edit"},
		"a value that somebody set as well as we is ours":     {[]string{"metadata", "labels", "tier"}, "nobody"},
		"what nobody is known to have written":                {[]string{"metadata", "name"}, "nobody"},
		"a place that the object does not have has no writer": {[]string{"spec", "paused"}, "nobody"},
	} {
		owner, ok := blame.Of(c.pointer)
		if d := cmp.Diff(c.want, owner.String()); d != "" || ok != (c.want != "nobody") {
			t.Errorf("%s: -want +got:\n%s", sentence, d)
		}
	}
}

func TestBlameOfMalformedFieldsIsAnError(t *testing.T) {
	live := &unstructured.Unstructured{Object: deployment(nil)}
	if _, err := NewBlame(live, []metav1.ManagedFieldsEntry{entry("x", "Update", "", `[`)}, manager); err == nil {
		t.Error("no error")
	}
}
