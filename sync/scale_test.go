package sync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/testdata/kubetest"
)

// manyObjects are n ConfigMaps and a Deployment, in files of a hundred.
func manyObjects(n int) map[string]string {
	files := map[string]string{"many/web.yaml": deployment}
	for from := 0; from < n; from += 100 {
		var b strings.Builder
		for i := from; i < min(n, from+100); i++ {
			fmt.Fprintf(&b, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-%d\n  labels: {tier: \"%d\"}\ndata:\n  mode: production\n  level: \"%d\"\n  description: what a typical ConfigMap of a small service has in it\n", i, i%7, i)
		}
		files[fmt.Sprintf("many/settings-%d.yaml", from)] = b.String()
	}
	return files
}

// passes is how often the loop has looked at an Application.
func (w *world) passes() int {
	w.t.Helper()
	families, err := w.controller.metrics.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	total := 0
	for _, f := range families {
		if f.GetName() == "trueup_reconcile_duration_seconds" {
			for _, m := range f.GetMetric() {
				total += int(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return total
}

// ownRequests are what the agent has asked the API server for objects since a mark, but for watches that were running:
// an Event may still be on its way, and another test may have brought a CustomResourceDefinition, which makes the agent
// ask once what is served.
func (w *world) ownRequests(since kubetest.AuditMark) []kubetest.AuditEvent {
	w.t.Helper()
	return w.AuditEvents(w.t, since, func(e kubetest.AuditEvent) bool {
		return e.User == "system:serviceaccount:"+w.ns+":trueup" && e.Verb != "watch" && e.Resource != "events" && e.Resource != ""
	})
}

func TestThousandObjectsInSyncCostNoRequest(t *testing.T) {
	w := newWorld(t)
	commit := w.git.Commit(manyObjects(1000), "many")
	w.app("many")
	start := time.Now()
	w.until("many", synced(commit))
	t.Logf("first sync of 1,001 objects: %s", time.Since(start).Round(10*time.Millisecond))

	// An hour has twenty looks at Git and one full comparison; this is sixty of each.
	quiet := w.AuditMark(t)
	before := w.passes()
	for i := range 60 {
		seen := w.passes()
		w.controller.wakeAll()
		w.controller.fetches.Add(types.NamespacedName{Namespace: w.ns, Name: "many"})
		kubetest.Eventually(t, patience, func() error {
			if w.passes() <= seen {
				return fmt.Errorf("resync %d has not been made", i)
			}
			return nil
		})
	}
	if requests := w.ownRequests(quiet); len(requests) > 0 {
		t.Errorf("%d passes over 1,001 objects in sync should ask nothing, asked %d times: %v", w.passes()-before, len(requests), requests[:min(3, len(requests))])
	}

	// A new process knows from the metadata alone that all is in sync.
	w.stop()
	restart := w.AuditMark(t)
	w.start()
	kubetest.Eventually(t, patience, func() error {
		st := w.controller.states.of(types.NamespacedName{Namespace: w.ns, Name: "many"})
		if snap := st.current(); snap == nil || w.passes() < 2 {
			return fmt.Errorf("the new agent has not looked yet")
		}
		return nil
	})
	w.until("many", synced(commit))
	for _, r := range w.ownRequests(restart) {
		if r.Verb != "list" {
			t.Errorf("after a restart lists and watches are all it takes, got %s %s", r.Verb, r.URI)
		}
	}
}
