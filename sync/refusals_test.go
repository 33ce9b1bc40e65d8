package sync

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// namespaced are scopes in which every kind is namespaced.
type namespaced struct{}

func (namespaced) Of(schema.GroupVersionKind) (apply.Kind, error) {
	return apply.Kind{Namespaced: true}, nil
}

// TestMalformedSecretIsRefusedWithoutItsValues: the API server would repeat the values in its answer.
func TestMalformedSecretIsRefusedWithoutItsValues(t *testing.T) {
	for name, field := range map[string]map[string]any{
		"data is a string":           {"data": "hunter2"},
		"data is a list":             {"data": []any{"hunter2"}},
		"stringData is a string":     {"stringData": "hunter2"},
		"a value is a list":          {"stringData": map[string]any{"password": []any{"hunter2"}}},
		"a value is no base64":       {"data": map[string]any{"password": "hunter2!"}},
		"data is a string, and more": {"data": "hunter2", "stringData": map[string]any{"a": "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "keys"}}}
			for k, v := range field {
				u.Object[k] = v
			}
			_, err := newDesiredSet([]source.Object{{Unstructured: u, File: "keys.yaml", Line: 3}}, shopApp, "shop", namespaced{})
			if err == nil || !strings.Contains(err.Error(), "keys.yaml:3") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("want an error that names the place and no value, got %v", err)
			}
		})
	}
}

// TestObjectThatCannotBeChangedInPlaceSaysWhatToDo: the API server repeats the whole pod template of a Job, which would
// leave no room for more.
func TestObjectThatCannotBeChangedInPlaceSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := func(image string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\nspec:\n  suspend: true\n  template:\n    spec:\n      restartPolicy: Never\n" +
			"      containers: [{name: main, image: '" + image + "', env: [{name: TOKEN, value: hunter2}]}]\n"
	}
	first := w.git.Commit(map[string]string{"shop/job.yaml": job("main:1")}, "first")
	w.app("shop")
	w.until("shop", syncedAt(first))
	w.git.Commit(map[string]string{"shop/job.yaml": job("main:2")}, "another image")
	app := w.until("shop", says(v1alpha1.ConditionApplied, "field is immutable"))
	for _, text := range []string{app.Status.Resources[0].Message, app.Status.OperationState.Message, condition(app, v1alpha1.ConditionReady).Message} {
		if !strings.Contains(text, "delete it, so that it is made anew") || strings.Contains(text, "hunter2") {
			t.Errorf("want the advice and no value of the object, got %s", text)
		}
	}
	if got := condition(app, v1alpha1.ConditionReady).Status; got != metav1.ConditionFalse {
		t.Errorf("want the Application not ready, got %s", got)
	}
}
