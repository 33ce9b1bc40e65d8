package health

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/trueup/trueup/health/internal/fields"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var camelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// checkVerdict judges obj twice and fails unless both agree on a well-formed result.
func checkVerdict(t *testing.T, obj map[string]any) {
	t.Helper()
	got := Of(&unstructured.Unstructured{Object: obj})
	if diff := cmp.Diff(got, Of(&unstructured.Unstructured{Object: obj})); diff != "" {
		t.Errorf("two verdicts differ (-first +second):\n%s", diff)
	}
	if got.Code.rank() == Unknown.rank() && got.Code != Unknown {
		t.Errorf("want one of the codes, got %q", got.Code)
	}
	if got.Reason == "" || got.Rule == "" || got.Message == "" || len(got.Message) > fields.MaxMessage {
		t.Errorf("want a reason, a rule and a bounded message, got %+v", got)
	}
}

// TestBrokenObjects puts a value of each wrong shape in each place of each fixture.
func TestBrokenObjects(t *testing.T) {
	shapes := []any{
		nil, "", "x", true, int64(-1), 1e300, []any{}, []any{nil, "x", int64(1), []any{}}, []any{map[string]any{}},
		map[string]any{}, map[string]any{"": nil, "conditions": "x", "type": int64(1), "status": []any{}},
	}
	places := 0
	for _, f := range loadFixtures(t) {
		var visit func(v any, set func(any))
		visit = func(v any, set func(any)) {
			places++
			for _, shape := range shapes {
				set(shape)
				checkVerdict(t, f.object.Object)
			}
			set(v)
			switch v := v.(type) {
			case map[string]any:
				for key, old := range v {
					visit(old, func(n any) { v[key] = n })
				}
			case []any:
				for i, old := range v {
					visit(old, func(n any) { v[i] = n })
				}
			}
		}
		for key, old := range f.object.Object {
			visit(old, func(n any) { f.object.Object[key] = n })
		}
		if t.Failed() {
			t.Fatalf("with a place of %s broken", f.path)
		}
	}
	if places < 2000 {
		t.Errorf("want every place of every fixture to be visited, got %d", places)
	}
}

// TestBigObjects judges objects far beyond what an API server stores.
func TestBigObjects(t *testing.T) {
	long := strings.Repeat("Failing ", 1<<17) // a megabyte
	many := func(v any) []any {
		list := make([]any, 40_000)
		for i := range list {
			list[i] = v
		}
		return list
	}
	cond := map[string]any{"type": "Ready", "status": "True", "reason": "Ready", "severity": "Info"}
	conditions := many(cond)
	parents := many(map[string]any{"conditions": conditions, "level": "INFO", "state": "RUNNING", "errors": conditions, "namespace": "a"})
	seen := make(map[string]bool)
	for _, f := range loadFixtures(t) {
		if seen[f.want.Rule] {
			continue // one object for each rule will do
		}
		seen[f.want.Rule] = true
		for sentence, change := range map[string]func(o map[string]any){
			"with 40,000 conditions": func(o map[string]any) { o["status"] = map[string]any{"conditions": conditions} },
			"with 40,000 of all else": func(o map[string]any) {
				status := map[string]any{}
				for _, key := range []string{
					"parents", "ancestors", "listeners", "byPod", "bindings", "validationMessages", "containerStatuses",
					"initContainerStatuses", "failedNamespaces", "errors", "connectorStatus", "active",
				} {
					status[key] = parents
				}
				status["conditions"] = parents
				o["status"], o["endpoints"], o["webhooks"] = status, parents, parents
			},
			"with a megabyte of text": func(o map[string]any) {
				c := map[string]any{"type": "Ready", "status": long, "reason": long, "message": long}
				o["status"] = map[string]any{"phase": long, "state": long, "message": long, "conditions": []any{c}}
			},
			"with a megabyte of annotation": func(o map[string]any) {
				o["metadata"] = map[string]any{"annotations": map[string]any{conditionsV1: "[" + long}}
			},
		} {
			o := f.object.DeepCopy().Object
			change(o)
			checkVerdict(t, o)
			if best := fastest(func() { Of(&unstructured.Unstructured{Object: o}) }); best > bar {
				t.Errorf("%s %s takes %v", f.path, sentence, best)
			}
		}
	}
}

func TestReasonsAreWords(t *testing.T) {
	for _, f := range loadFixtures(t) {
		if !camelCase.MatchString(f.want.Reason) {
			t.Errorf("%s: want a reason in CamelCase, got %q", f.path, f.want.Reason)
		}
	}
}

func FuzzOf(f *testing.F) {
	for _, fixture := range loadFixtures(f) {
		data, err := json.Marshal(fixture.object.Object)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var obj map[string]any
		if json.Unmarshal(data, &obj) == nil && obj != nil {
			checkVerdict(t, obj)
		}
	})
}
