package sync

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/source"
)

func TestWhatAChartMadeUpIsKept(t *testing.T) {
	object := func(password, env string) map[string]any {
		return map[string]any{
			"kind": "Thing", "data": map[string]any{"a/b": password, "fixed": "x"},
			"list": []any{map[string]any{"name": "one", "value": env}, map[string]any{"name": "two", "value": "y"}}, "plain": []any{"z", password},
		}
	}
	random := []string{"/data/a~1b", "/list/0/value", "/plain/1", "/none/at/all"}
	first := object("one", "1")
	paths := randomPaths(source.Object{Unstructured: &unstructured.Unstructured{Object: first}, Random: random})
	if d := cmp.Diff(withoutRandom(first, paths), withoutRandom(object("two", "2"), paths)); d != "" {
		t.Errorf("what was made up counts: %s", d)
	}
	if d := cmp.Diff(object("one", "1"), first); d != "" {
		t.Errorf("the configuration was changed: %s", d)
	}
	live := object("live", "live")
	live["list"] = []any{map[string]any{"name": "injected"}, map[string]any{"name": "one", "value": "live"}}
	(&Desired{random: paths}).keepRandom(first, &unstructured.Unstructured{Object: live})
	if d := cmp.Diff(object("live", "live"), first); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	fresh := object("new", "new")
	(&Desired{random: paths}).keepRandom(fresh, &unstructured.Unstructured{Object: map[string]any{"kind": "Thing"}})
	if d := cmp.Diff(object("new", "new"), fresh); d != "" {
		t.Errorf("what is not live stays as it was made up: %s", d)
	}
}
