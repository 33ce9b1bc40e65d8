package diff

import (
	"encoding/json"
	"strings"
	"testing"
)

// BenchmarkVerdict prints verdicts a second for an object in sync, which is what nearly all are, and for one that a
// person has edited.
func BenchmarkVerdict(b *testing.B) {
	raw, err := json.Marshal(config(b, webConfig))
	if err != nil {
		b.Fatal(err)
	}
	d := Desired{Digest: "git", Config: func() (map[string]any, error) {
		var u map[string]any
		return u, json.Unmarshal(raw, &u)
	}}
	own := strings.ReplaceAll(webOwn, "\n", "")
	whole := observed(b, "git.WHOLE", own)
	whole.Managed = nil
	drifted := observed(b, "git.whole", own+"\n"+`kubectl-edit Update {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"web"}': {"f:image": {}}, 'k:{"name":"debug"}': {".": {}, "f:name": {}}}}}}}`)
	ctx := Context{Object: ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}}
	for name, c := range map[string]struct {
		observed Observed
		want     State
	}{"in sync": {whole, InSync}, "drifted": {drifted, Drifted}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, err := Compare(d, c.observed, ctx, manager); err != nil || got.State != c.want {
					b.Fatal(got.State, err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "verdicts/s")
		})
	}
}

func TestObjectInSyncCostsNoAllocation(t *testing.T) {
	d := Desired{Digest: "git"}
	o := Observed{Exists: true, Applied: Applied{Config: "git", Fields: "own"}, Fields: "own"}
	allocations := testing.AllocsPerRun(100, func() {
		if c, err := Compare(d, o, Context{}, manager); err != nil || c.State != InSync {
			t.Fatal(c.State, err)
		}
	})
	if allocations != 0 {
		t.Errorf("got %v allocations", allocations)
	}
}
