package why

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/trueup/trueup/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

// now is when all fixtures are looked at.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// loadSnapshot reads a fixture: a document with the fields of a Snapshot, then the objects.
func loadSnapshot(t testing.TB, path string) Snapshot {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(data), "\n---\n")
	var s Snapshot
	if err := yaml.UnmarshalStrict([]byte(head), &s); err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
	for doc := range strings.SplitSeq(rest, "\n---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(doc), &u.Object); err != nil {
			t.Fatalf("reading %s: %v", path, err)
		}
		s.Objects = append(s.Objects, u)
	}
	judgeManaged(&s)
	return s
}

// judgeManaged gives the managed objects the health that the agent would have seen.
func judgeManaged(s *Snapshot) {
	x := newIndex(*s)
	for i := range s.Application.Managed {
		m := &s.Application.Managed[i]
		if o := x.byRef[m.Ref]; o != nil {
			m.Health = o.health
		} else {
			m.Health = health.Of(nil)
		}
	}
}

func TestExplain(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("want fixtures, got %v, %v", paths, err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			s := loadSnapshot(t, path)
			report := Explain(s, now)
			var text bytes.Buffer
			if err := report.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/"+name+".golden", text.String())
			checkReport(t, report)

			// The order in which things were listed does not matter.
			for i, j := 0, len(s.Objects)-1; i < j; i, j = i+1, j-1 {
				s.Objects[i], s.Objects[j] = s.Objects[j], s.Objects[i]
			}
			if diff := cmp.Diff(report, Explain(s, now)); diff != "" {
				t.Errorf("with the objects in another order (-want +got):\n%s", diff)
			}
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test -update to write it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// checkReport fails unless r is well formed: one line, at most one link that is stuck, events in order.
func checkReport(t *testing.T, r Report) {
	t.Helper()
	if r.Cause == "" || len(r.Cause) > maxCause || len(r.Chain) == 0 || len(r.Events) > maxEvents {
		t.Errorf("want a bounded cause, a chain and bounded events, got %+v", r)
	}
	stuck := 0
	for _, link := range r.Chain {
		if link.Stuck {
			stuck++
		}
	}
	if r.Code == health.Healthy && (stuck != 0 || r.Next != "" && !strings.HasPrefix(r.Next, "trueup diff ")) {
		t.Errorf("want nothing stuck in what is healthy, got %+v", r)
	}
	if r.Code != health.Healthy && (stuck != 1 || r.Next == "") {
		t.Errorf("want one link that is stuck and a next command, got %+v", r)
	}
	for i := 1; i < len(r.Events); i++ {
		if r.Events[i].Time.Before(r.Events[i-1].Time) {
			t.Errorf("want events in order of time, got %v", r.Events)
		}
	}
}

func TestReportAsJSON(t *testing.T) {
	data, err := json.MarshalIndent(Explain(loadSnapshot(t, "testdata/image-pull.yaml"), now), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/image-pull.json.golden", string(data)+"\n")
}

func TestTwentyPodsAreSaidOnce(t *testing.T) {
	s := loadSnapshot(t, "testdata/image-pull.yaml")
	var sample *unstructured.Unstructured
	for _, o := range s.Objects {
		if o.GetKind() == "Pod" {
			sample = o
		}
	}
	for i := range 17 {
		pod := sample.DeepCopy()
		pod.SetName("web-6b8-more" + string(rune('a'+i)))
		s.Objects = append(s.Objects, pod)
	}
	r := Explain(s, now)
	if want := `20 of 20 pods of Deployment shop/web cannot pull image shop/web:v9 of container app`; !strings.HasPrefix(r.Cause, want) {
		t.Errorf("want a cause that begins with %q, got %q", want, r.Cause)
	}
	last := r.Chain[len(r.Chain)-1]
	if len(last.Alike) != 20 || !last.Stuck {
		t.Errorf("want one link for 20 pods, got %+v", last)
	}
	pods := 0
	for _, link := range r.Chain {
		if link.Kind == "Pod" {
			pods++
		}
	}
	if pods != 1 {
		t.Errorf("want pods in one link, got %d", pods)
	}
}

func TestRingOfOwners(t *testing.T) {
	s := Snapshot{Application: Application{Namespace: "trueup", Name: "shop"}}
	for _, pair := range [][2]string{{"a", "b"}, {"b", "c"}, {"c", "a"}} {
		s.Objects = append(s.Objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{
				"name": pair[0], "namespace": "shop", "uid": pair[0], "ownerReferences": []any{map[string]any{"uid": pair[1]}},
			},
			"status": map[string]any{"phase": "Failed"},
		}})
	}
	s.Application.Managed = []Managed{{Ref: Ref{Group: "example.com", Kind: "Widget", Namespace: "shop", Name: "a"}}}
	judgeManaged(&s)
	r := Explain(s, now)
	checkReport(t, r)
	if want := "Widget shop/b is Degraded: status.phase is Failed"; r.Cause != want {
		t.Errorf("want %q, got %q", want, r.Cause)
	}
}

// TestBrokenObjects puts a value of each wrong shape in each place of each fixture's objects.
func TestBrokenObjects(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shapes := []any{nil, "x", int64(-1), []any{nil, "x", map[string]any{}}, map[string]any{"": nil, "conditions": "x"}}
	for _, path := range paths {
		s := loadSnapshot(t, path)
		for _, o := range s.Objects {
			var visit func(v any, set func(any))
			visit = func(v any, set func(any)) {
				for _, shape := range shapes {
					set(shape)
					judgeManaged(&s)
					checkReport(t, Explain(s, now))
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
			for key, old := range o.Object {
				visit(old, func(n any) { o.Object[key] = n })
			}
			if t.Failed() {
				t.Fatalf("with a place of a %s in %s broken", o.GetKind(), path)
			}
		}
	}
}
