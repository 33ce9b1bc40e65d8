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
		loop := w.bareLoop(w.Cluster.Namespace(b), manyObjects(1000))
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

func (w *world) bareLoop(namespace string, files map[string]string) time.Duration {
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
	clients, err := NewClients(w.agentUser)
	if err != nil {
		w.t.Fatal(err)
	}
	kinds := apply.NewKinds(clients.Kube.Discovery(), w.controller.clock)
	start := time.Now()
	next := make(chan *unstructured.Unstructured)
	var wg gosync.WaitGroup
	for range w.config.Concurrency {
		wg.Go(func() {
			for u := range next {
				kind, err := kinds.Of(u.GroupVersionKind())
				if err != nil {
					w.t.Error(err)
					continue
				}
				for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
					if _, err := clients.Dynamic.Resource(kind.Resource).Namespace(namespace).Apply(context.Background(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "bare", DryRun: dryRun}); err != nil {
						w.t.Error(err)
					}
				}
			}
		})
	}
	for _, u := range objects {
		next <- u
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

// BenchmarkHealMany prints the time to heal 1,000 foreign writes in one Application, against the bare writes that would
// undo them with the same concurrency. Each round does both.
func BenchmarkHealMany(b *testing.B) {
	w := newWorld(b)
	commit := w.git.Commit(manyObjects(1000), "many")
	w.app("many")
	w.until("many", synced(commit))
	ctx := context.Background()
	configMaps := w.clients.Kube.CoreV1().ConfigMaps(w.ns)
	each := func(mode string) time.Duration {
		start := time.Now()
		next := make(chan int)
		var wg gosync.WaitGroup
		for range w.config.Concurrency {
			wg.Go(func() {
				for i := range next {
					patch := fmt.Sprintf(`{"data":{"mode":%q}}`, mode)
					if _, err := configMaps.Patch(ctx, fmt.Sprintf("settings-%d", i), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-patch"}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for i := range 1000 {
			next <- i
		}
		close(next)
		wg.Wait()
		return time.Since(start)
	}
	var ratios []float64
	for i := range max(b.N, 3) {
		w.stop()
		each("broken")
		bare := each("production")
		each(fmt.Sprintf("broken-%d", i))
		w.start()
		// The start of an agent is no part of healing: it begins with the first write.
		first := time.Time{}
		kubetest.Eventually(b, patience, func() error {
			list, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelApp})
			if err != nil {
				return err
			}
			broken := 0
			for _, c := range list.Items {
				if strings.HasPrefix(c.Data["mode"], "broken") {
					broken++
				}
			}
			if broken < len(list.Items) && first.IsZero() {
				first = time.Now()
			}
			if broken > 0 {
				return fmt.Errorf("%d are broken", broken)
			}
			return nil
		})
		ratios = append(ratios, float64(time.Since(first))/float64(bare))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFight prints what a minute of an owner that writes a field fifty times a second costs: our writes, and the
// share of one processor that the whole agent takes, as a process of its own.
func BenchmarkFight(b *testing.B) {
	w := newIdleWorld(b, kubetest.Shared(b))
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "first")
	w.app("shop")
	p := w.process()
	p.start()
	w.until("shop", synced(commit))
	mark := w.AuditMark(b)
	used := p.processor()
	start := time.Now()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	writes := 0
	for time.Since(start) < time.Minute {
		<-ticker.C
		w.write("some-operator", "settings", fmt.Sprintf("theirs-%d", writes))
		writes++
	}
	took := time.Since(start)
	b.ReportMetric(float64(writes)/took.Seconds(), "foreign-writes/s")
	b.ReportMetric(float64(w.realWrites(mark)), "writes/min")
	b.ReportMetric(100*(p.processor()-used).Seconds()/took.Seconds(), "%cpu")
	b.ReportMetric(0, "ns/op")
}

// processor is the processor time that the process has used.
func (p *process) processor() time.Duration {
	p.w.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.w.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	var ticks time.Duration
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(f)
		if err != nil {
			p.w.t.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * time.Second / 100
}
