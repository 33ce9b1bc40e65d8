package health_test

import (
	"fmt"

	"github.com/trueup/trueup/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func ExampleOf() {
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "generation": int64(2)},
		"spec":     map[string]any{"replicas": int64(3)},
		"status": map[string]any{
			"observedGeneration": int64(2), "replicas": int64(3), "updatedReplicas": int64(3), "availableReplicas": int64(1), "readyReplicas": int64(1),
		},
	}}
	fmt.Println(health.Of(deployment).Message)
	// Output: 1 of 3 replicas available, 1 ready
}

func ExampleNewJudge() {
	judge, err := health.NewJudge([]health.Rule{{
		Group:    "example.com",
		Kind:     "Widget",
		Degraded: "object.text('status.phase') == 'Jammed'",
		Healthy:  "object.number('status.turns') >= object.number('spec.turns')",
		Message:  "string(object.number('status.turns')) + ' of ' + string(object.number('spec.turns')) + ' turns'",
	}}, health.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"spec": map[string]any{"turns": int64(5)}, "status": map[string]any{"turns": int64(2)},
	}}
	result := judge.Of(widget)
	fmt.Printf("%s, %s, by %s\n", result.Code, result.Message, result.Rule)
	// Output: Progressing, 2 of 5 turns, by cel/example.com/Widget
}
