package sync

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	gosync "sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// BenchmarkFirstSync prints the first sync of 1,001 objects, from the Application's creation to Synced, against a bare
// loop that dry-runs and applies the same objects with the same concurrency and nothing else. Each round does both.
func BenchmarkFirstSync(b *testing.B) {
	var ratios []float64
	var ours, bare time.Duration
	for range b.N {
		w := newWorld(b)
		commit := w.git.Commit(manyObjects(1000), "many")
		loop := w.bareLoop(w.Cluster.Namespace(b), manyObjects(1000), []string{metav1.DryRunAll}, nil)
		start := time.Now()
		w.app("many")
		w.awaitSync("many", commit)
		sync := time.Since(start)
		w.stop()
		ours, bare = ours+sync, bare+loop
		ratios = append(ratios, float64(sync)/float64(loop))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(ours.Seconds()/float64(b.N), "s/sync")
	b.ReportMetric(bare.Seconds()/float64(b.N), "s/bare-loop")
	b.ReportMetric(0, "ns/op")
}

func (w *world) awaitSync(name, commit string) {
	w.t.Helper()
	watcher, err := w.clients.Applications(w.ns).Watch(context.Background(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		w.t.Fatal(err)
	}
	defer watcher.Stop()
	deadline := time.After(2 * patience)
	for {
		select {
		case e := <-watcher.ResultChan():
			if app, ok := e.Object.(*v1alpha1.Application); ok && app.Status.Sync.SyncedRevision == commit {
				return
			}
		case <-deadline:
			w.t.Fatal("not synced in time")
		}
	}
}

// bareLoop applies the objects of files with the agent's concurrency, each as often as there are values of dryRun, and
// returns the time that took.
func (w *world) bareLoop(namespace string, files map[string]string, dryRun ...[]string) time.Duration {
	w.t.Helper()
	var objects []*unstructured.Unstructured
	for _, content := range files {
		decoder := yaml.NewYAMLToJSONDecoder(bytes.NewReader([]byte(content)))
		for {
			u := &unstructured.Unstructured{}
			if err := decoder.Decode(&u.Object); err != nil {
				break
			}
			if u.Object != nil {
				u.SetNamespace(namespace)
				objects = append(objects, u)
			}
		}
	}
	// The same credentials, so that the API server does the same work for each request.
	clients := w.agentClients()
	kinds := apply.NewKinds(clients.Kube.Discovery(), w.controller.clock)
	return inParallel(w.config.Concurrency, objects, func(u *unstructured.Unstructured) {
		kind, err := kinds.Of(u.GroupVersionKind())
		if err != nil {
			w.t.Error(err)
			return
		}
		for _, dry := range dryRun {
			options := metav1.ApplyOptions{FieldManager: "bare", DryRun: dry, Force: true}
			if _, err := clients.Dynamic.Resource(kind.Resource).Namespace(namespace).Apply(context.Background(), u.GetName(), u, options); err != nil {
				w.t.Error(err)
			}
		}
	})
}

// patchAll sets the mode of the first n ConfigMaps of manyObjects as kubectl patch does, and returns the time that took.
func (w *world) patchAll(namespace string, n int, mode string) time.Duration {
	w.t.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("settings-%d", i)
	}
	patch := fmt.Appendf(nil, `{"data":{"mode":%q}}`, mode)
	return inParallel(w.config.Concurrency, names, func(name string) {
		if _, err := w.clients.Kube.CoreV1().ConfigMaps(namespace).Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-patch"}); err != nil {
			w.t.Error(err)
		}
	})
}

// inParallel calls do for each item, in so many goroutines, and returns the time that took.
func inParallel[T any](concurrency int, items []T, do func(T)) time.Duration {
	start := time.Now()
	next := make(chan T)
	var wg gosync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for item := range next {
				do(item)
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	wg.Wait()
	return time.Since(start)
}

// BenchmarkHeal prints the time from a foreign write's answer to the restored field as a watch sees it, one write at a
// time, in an Application of 1,001 objects.
func BenchmarkHeal(b *testing.B) {
	w := newWorld(b)
	commit := w.git.Commit(manyObjects(1000), "many")
	w.app("many")
	w.until("many", synced(commit))
	configMaps := w.clients.Kube.CoreV1().ConfigMaps(w.ns)
	watcher, err := configMaps.Watch(context.Background(), metav1.ListOptions{LabelSelector: v1alpha1.LabelApp})
	if err != nil {
		b.Fatal(err)
	}
	defer watcher.Stop()
	restored := make(chan string, 100)
	go func() {
		for e := range watcher.ResultChan() {
			raw, _ := json.Marshal(e.Object)
			if bytes.Contains(raw, []byte(`"mode":"production"`)) {
				u := &unstructured.Unstructured{}
				_ = u.UnmarshalJSON(append(raw[:len(raw)-1], []byte(`,"apiVersion":"v1","kind":"ConfigMap"}`)...))
				restored <- u.GetName()
			}
		}
	}()
	var times []time.Duration
	b.ResetTimer()
	for i := range max(b.N, 200) {
		name := fmt.Sprintf("settings-%d", i%1000)
		if _, err := configMaps.Patch(context.Background(), name, types.MergePatchType, []byte(`{"data":{"mode":"broken"}}`), metav1.PatchOptions{FieldManager: "kubectl-patch"}); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		for got := ""; got != name; {
			select {
			case got = <-restored:
			case <-time.After(patience):
				b.Fatalf("%s was not healed", name)
			}
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(times[len(times)/2]), "p50-ms")
	b.ReportMetric(ms(times[len(times)*99/100]), "p99-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkResync prints the requests that a full comparison of 1,001 objects in sync takes, and its time.
func BenchmarkResync(b *testing.B) {
	w := newWorld(b, func(c *Config) { c.PollInterval = time.Hour })
	commit := w.git.Commit(manyObjects(1000), "many")
	w.app("many")
	w.until("many", synced(commit))
	mark := w.AuditMark(b)
	b.ResetTimer()
	for range b.N {
		seen := w.passes()
		w.controller.wakeAll()
		kubetest.Eventually(b, patience, func() error {
			if w.passes() <= seen {
				return fmt.Errorf("not yet")
			}
			return nil
		})
	}
	b.ReportMetric(float64(len(w.ownRequests(mark)))/float64(b.N), "requests/resync")
}

// BenchmarkMemory prints the resident memory of the agent's own process with many managed objects, settled.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{1001, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			w := newIdleWorld(b, kubetest.Shared(b))
			commit := w.git.Commit(manyObjects(n-1), "many")
			w.app("many")
			p := w.process()
			p.start()
			w.awaitSync("many", commit)
			b.ReportMetric(p.resident(), "MB-after-first-sync")
			p.kill()
			p.start()
			w.until("many", synced(commit))
			// The figure is for an agent at rest: wait until it no longer falls.
			least := p.resident()
			kubetest.Eventually(b, patience, func() error {
				before := least
				if least = min(least, p.resident()); least < before {
					return fmt.Errorf("still falling")
				}
				return nil
			})
			b.ReportMetric(least, "MB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// resident is the process's resident memory in MB (of 1,000,000 bytes).
func (p *process) resident() float64 {
	p.w.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.w.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				p.w.t.Fatal(err)
			}
			return float64(kb) * 1024 / 1e6
		}
	}
	p.w.t.Fatal("no VmRSS")
	return 0
}

// BenchmarkHealMany prints the time to heal 1,000 foreign writes in one Application, against bare loops of the same
// concurrency that undo them: by server-side apply ("ratio"), and by a merge patch of the one field, which costs the API
// server less ("ratio-to-merge-patches"). Each round does all three.
func BenchmarkHealMany(b *testing.B) {
	const n = 1000
	w := newWorld(b)
	files := manyObjects(n)
	commit := w.git.Commit(files, "many")
	w.app("many")
	w.until("many", synced(commit))
	delete(files, "many/web.yaml")
	bare := w.Cluster.Namespace(b)
	w.bareLoop(bare, files, nil)
	var toApplies, toPatches []float64
	for i := range max(b.N, 3) {
		w.stop()
		broken := fmt.Sprintf("broken-%d", i)
		w.patchAll(bare, n, broken)
		applies := w.bareLoop(bare, files, nil)
		w.patchAll(bare, n, broken)
		patches := w.patchAll(bare, n, "production")
		w.patchAll(w.ns, n, broken)
		healed := w.healAll(n)
		toApplies = append(toApplies, healed.Seconds()/applies.Seconds())
		toPatches = append(toPatches, healed.Seconds()/patches.Seconds())
	}
	slices.Sort(toApplies)
	slices.Sort(toPatches)
	b.ReportMetric(toApplies[len(toApplies)/2], "ratio")
	b.ReportMetric(toPatches[len(toPatches)/2], "ratio-to-merge-patches")
	b.ReportMetric(0, "ns/op")
}

// healAll starts the agent and returns the time from the first of n heals to the last: the start is no part of healing.
func (w *world) healAll(n int) time.Duration {
	w.t.Helper()
	configMaps := w.clients.Kube.CoreV1().ConfigMaps(w.ns)
	list, err := configMaps.List(context.Background(), metav1.ListOptions{Limit: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	watcher, err := configMaps.Watch(context.Background(), metav1.ListOptions{LabelSelector: v1alpha1.LabelApp, ResourceVersion: list.ResourceVersion})
	if err != nil {
		w.t.Fatal(err)
	}
	defer watcher.Stop()
	w.start()
	var first time.Time
	healed := map[string]bool{}
	deadline := time.After(patience)
	for len(healed) < n {
		select {
		case e := <-watcher.ResultChan():
			if c, ok := e.Object.(*corev1.ConfigMap); ok && c.Data["mode"] == "production" {
				if healed[c.Name] = true; first.IsZero() {
					first = time.Now()
				}
			}
		case <-deadline:
			w.t.Fatalf("only %d of %d are healed", len(healed), n)
		}
	}
	return time.Since(first)
}
