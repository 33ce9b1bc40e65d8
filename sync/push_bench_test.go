package sync

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	gosync "sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// BenchmarkPush prints the time from the end of a push that changes one object, in a repository of 1,000 Applications,
// until a watch sees that object changed. The Git server tells of the push by a webhook on loopback. Between two pushes
// the agent comes to rest.
func BenchmarkPush(b *testing.B) {
	const apps = 1000
	var address string
	w := newWorld(b, hookAgent(b, &address))
	files := map[string]string{}
	for i := range apps {
		files[fmt.Sprintf("app-%d/settings.yaml", i)] = settings(fmt.Sprintf("settings-%d", i), "first")
	}
	commit := w.git.Commit(files, "first")
	w.manyApps(apps)
	w.allAt(commit, apps)
	watcher, err := w.clients.Kube.CoreV1().ConfigMaps(w.ns).Watch(context.Background(), metav1.ListOptions{LabelSelector: v1alpha1.LabelApp})
	if err != nil {
		b.Fatal(err)
	}
	defer watcher.Stop()
	var times []time.Duration
	for i := range max(b.N, 15) {
		name, mode := fmt.Sprintf("settings-%d", i*379%apps), fmt.Sprintf("push-%d", i)
		commit := w.git.Commit(map[string]string{fmt.Sprintf("app-%d/settings.yaml", i*379%apps): settings(name, mode)}, mode)
		start := time.Now()
		if code := w.push(address, hookSecret); code != http.StatusAccepted {
			b.Fatalf("the call is answered with %d", code)
		}
		deadline := time.After(patience)
		for changed := false; !changed; {
			select {
			case e := <-watcher.ResultChan():
				m, ok := e.Object.(*corev1.ConfigMap)
				changed = ok && m.Name == name && m.Data["mode"] == mode
			case <-deadline:
				b.Fatalf("%s is not changed", name)
			}
		}
		times = append(times, time.Since(start))
		b.Logf("push %d: %s", i, times[len(times)-1])
		w.allAt(commit, apps)
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(float64(times[len(times)-1].Milliseconds()), "max-ms")
	b.ReportMetric(0, "ns/op")
}

// manyApps makes Applications app-0, app-1 … of the folders of the same names.
func (w *world) manyApps(n int) {
	w.t.Helper()
	next := make(chan int)
	var wg gosync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range next {
				w.app(fmt.Sprintf("app-%d", i))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// allAt waits until all Applications are at a commit.
func (w *world) allAt(commit string, n int) {
	w.t.Helper()
	kubetest.Eventually(w.t, 10*patience, func() error {
		list, err := w.clients.Applications(w.ns).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		at := 0
		for _, app := range list.Items {
			if app.Status.Sync.SyncedRevision == commit {
				at++
			}
		}
		if at != n {
			return fmt.Errorf("%d of %d are at %.7s", at, n, commit)
		}
		return nil
	})
}
