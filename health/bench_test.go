package health

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func BenchmarkOf(b *testing.B) {
	wf := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "status": map[string]any{"phase": "Running", "progress": "1/2"}}}
	for b.Loop() {
		if Of(wf).Code != Progressing {
			b.Fatal(Of(wf))
		}
	}
}
