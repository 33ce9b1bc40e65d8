package why

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/trueup/trueup/health/internal/fields"
)

func TestTolerates(t *testing.T) {
	taint := fields.Map{"key": "gpu", "value": "true", "effect": "NoSchedule"}
	for sentence, test := range map[string]struct {
		toleration map[string]any
		want       bool
	}{
		"the same key, value and effect":      {map[string]any{"key": "gpu", "value": "true", "effect": "NoSchedule"}, true},
		"the same key and value, any effect":  {map[string]any{"key": "gpu", "value": "true"}, true},
		"the same key, any value":             {map[string]any{"key": "gpu", "operator": "Exists"}, true},
		"anything":                            {map[string]any{"operator": "Exists"}, true},
		"another value":                       {map[string]any{"key": "gpu", "value": "false"}, false},
		"another key":                         {map[string]any{"key": "disk", "operator": "Exists"}, false},
		"another effect":                      {map[string]any{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, false},
		"no key, and no word that it may any": {map[string]any{"value": "true"}, false},
	} {
		p := &object{spec: fields.Map{"tolerations": []any{test.toleration}}}
		if got := tolerates(p, taint); got != test.want {
			t.Errorf("%s: want %v, got %v", sentence, test.want, got)
		}
	}
	if tolerates(&object{}, taint) {
		t.Error("want a pod without tolerations to tolerate nothing")
	}
}

func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m",
		2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d", 1000 * time.Hour: "41d",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v: want %s, got %s", d, want, got)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	names := []string{"db-10", "web", "db-2", "db", "db-0", "cache-3", "db-x"}
	slices.SortFunc(names, natural)
	if diff := cmp.Diff([]string{"cache-3", "db", "db-0", "db-2", "db-10", "db-x", "web"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCausesAreBounded(t *testing.T) {
	s := Snapshot{Application: Application{Namespace: "trueup", Name: "shop"}}
	s.Application.Revision = "1a2b3c4"
	s.Application.Render.Error = "line one\nline two " + strings.Repeat("and more ", 500)
	r := Explain(s, now)
	if want := "revision 1a2b3c4 cannot be rendered: line one line two and more"; len(r.Cause) > maxCause || !strings.HasPrefix(r.Cause, want) {
		t.Errorf("want one bounded line that begins with %q, got %d bytes: %s", want, len(r.Cause), r.Cause)
	}
}

func BenchmarkExplain(b *testing.B) {
	s := loadSnapshot(b, "testdata/image-pull.yaml")
	sample := s.Objects[len(s.Objects)-1]
	for _, o := range s.Objects {
		if o.GetKind() == "Pod" {
			sample = o
		}
	}
	for i := range 1000 {
		pod := sample.DeepCopy()
		pod.SetName("web-6b8-" + time.Duration(i).String())
		s.Objects = append(s.Objects, pod)
	}
	for b.Loop() {
		Explain(s, now)
	}
}

func TestLookup(t *testing.T) {
	for want, app := range map[string]Application{
		"git ls-remote https://git.example.com/shop.git":              {RepoURL: "https://git.example.com/shop.git"},
		"helm show chart shop --repo https://charts.example.com":      {RepoURL: "https://charts.example.com", Chart: "shop"},
		"helm show chart oci://registry.example.com/team/charts/shop": {RepoURL: "oci://registry.example.com/team/charts", Chart: "shop"},
	} {
		if got := lookup(app); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
