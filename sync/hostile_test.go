package sync

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
	"github.com/trueup/trueup/testdata/kubetest"
)

// TestHostileFoldersHurtNobodyElse has programs without end and a hundred thousand files beside an Application that goes on.
func TestHostileFoldersHurtNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.git.Commit(map[string]string{"good/settings.yaml": settings("good", "good")}, "first")
	w.app("good")
	w.until("good", synced(good))
	changes := []gitserver.Change{
		{Path: "endless/bad.jsonnet", Content: "local f(x) = if x < 0 then x else f(x + 1) tailstrict; f(0)"},
		{Path: "memory/bad.jsonnet", Content: "local double(x, n) = if n == 0 then x else double(x + x, n - 1) tailstrict; std.length(double('0123456789', 34))"},
	}
	for i := range 100_000 {
		changes = append(changes, gitserver.Change{Path: fmt.Sprintf("many/%d.yaml", i), Content: settings(fmt.Sprint("n", i), "x")})
	}
	w.git.CommitTo(gitserver.DefaultBranch, "hostile", changes...)
	for _, name := range []string{"endless", "memory", "many"} {
		w.app(name)
	}
	start := time.Now()
	kubetest.Eventually(t, 5*patience, func() error { // a busy machine takes minutes for a hundred thousand files
		if condition(w.get("memory"), v1alpha1.ConditionFetched).Status != metav1.ConditionTrue {
			return fmt.Errorf("the repository has not been read yet")
		}
		return nil
	})
	w.until("memory", says(v1alpha1.ConditionRendered, "the renderer was stopped at memory/bad.jsonnet", "MiB of memory"))
	w.until("many", says(v1alpha1.ConditionRendered, "more than 50000 files and folders are read by one render"))
	w.heals("good")
	w.until("endless", says(v1alpha1.ConditionRendered, "the renderer was stopped at endless/bad.jsonnet"))
	w.heals("good")
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t.Logf("all said after %s, heap %d MiB", time.Since(start), mem.HeapAlloc>>20)
	if mem.HeapAlloc > 500<<20 {
		t.Errorf("the heap has %d MiB", mem.HeapAlloc>>20)
	}
}
