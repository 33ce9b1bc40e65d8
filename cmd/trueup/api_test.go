package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/deploy"
)

// copyOfAPI is the API of Applications in a group of its own, so that a test may change it; without are fields of the
// status that it lacks.
func copyOfAPI(t *testing.T, group string, without ...string) *unstructured.Unstructured {
	t.Helper()
	crd, err := deploy.CRD()
	if err != nil {
		t.Fatal(err)
	}
	crd.SetName("applications." + group)
	spec := crd.Object["spec"].(map[string]any)
	spec["group"] = group
	names := spec["names"].(map[string]any)
	delete(names, "shortNames")
	delete(names, "categories")
	for _, field := range without {
		schema := spec["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		unstructured.RemoveNestedField(schema, "properties", "status", "properties", field)
	}
	return crd
}

func TestMissingFields(t *testing.T) {
	whole, older := copyOfAPI(t, "a.example.com"), copyOfAPI(t, "a.example.com", "lastRequest", "drift")
	for sentence, c := range map[string]struct {
		has, lacks *unstructured.Unstructured
		want       []string
	}{
		"an older definition lacks fields": {whole, older, []string{".status.drift", ".status.lastRequest"}},
		"a newer one does not":             {older, whole, nil},
		"nor does the same":                {whole, whole, nil},
		"none lacks everything":            {older, nil, []string{".apiVersion", ".kind", ".metadata", ".spec", ".status"}},
	} {
		if d := cmp.Diff(c.want, missingFields(c.has, c.lacks)); d != "" {
			t.Errorf("%s: -want +got:\n%s", sentence, d)
		}
	}
}

func TestTheAPIThatIsThereIsUpgraded(t *testing.T) {
	e := newEnv(t)
	n := 0
	for sentence, c := range map[string]struct {
		manager string
		there   []string // what the definition lacks that is there
		ours    []string // what this program's lacks
		lacks   []string // what the definition lacks in the end
		unknown []string
	}{
		"that an install has made":                    {installManager, []string{"lastRequest"}, nil, nil, nil},
		"that another agent has made":                 {agentManager, []string{"lastRequest", "drift"}, nil, nil, nil},
		"but not taken back to an older one":          {installManager, nil, []string{"lastRequest"}, nil, nil},
		"but not taken from somebody else, and told":  {"flux", []string{"lastRequest"}, nil, []string{".status.lastRequest"}, []string{".status.lastRequest"}},
		"and left alone where it has all there is to": {"flux", nil, nil, nil, nil},
	} {
		n++
		t.Run(sentence, func(t *testing.T) {
			group := fmt.Sprintf("g%d.%s.example.com", n, e.namespace)
			there, ours := copyOfAPI(t, group, c.there...), copyOfAPI(t, group, c.ours...)
			description(there, "what was there") // a field over which appliers are at odds
			t.Cleanup(func() {
				_, _ = e.kube.TryKubectl(context.Background(), "", "delete", "crd", there.GetName())
			})
			if _, err := e.applyObject(t.Context(), there, metav1.ApplyOptions{FieldManager: c.manager}); err != nil {
				t.Fatal(err)
			}
			unknown, err := e.ensureDefinition(t.Context(), ours)
			if (c.manager == "flux") != apierrors.IsConflict(err) {
				t.Errorf("the error is %v", err)
			}
			if d := cmp.Diff(c.unknown, unknown); d != "" {
				t.Errorf("told: -want +got:\n%s", d)
			}
			client, err := e.client(there)
			if err != nil {
				t.Fatal(err)
			}
			live, err := client.Get(t.Context(), there.GetName(), metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.lacks, missingFields(copyOfAPI(t, group), live)); d != "" {
				t.Errorf("in the end: -want +got:\n%s", d)
			}
		})
	}
}

func description(crd *unstructured.Unstructured, text string) {
	schema := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	schema["description"] = text
}
