package sync

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// BenchmarkFight prints what a minute of an owner that writes a field fifty times a second costs: our writes, and the
// share of one processor that the whole agent takes, as a process of its own; beside it that of a bare informer of the same
// object, in another process, which does nothing but receive what happens.
func BenchmarkFight(b *testing.B) {
	w := newIdleWorld(b, kubetest.Shared(b))
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "first")
	w.app("shop")
	p := w.process()
	p.start("--poll-interval=1m")
	w.until("shop", synced(commit))
	bare := p.bareInformer()
	mark := w.AuditMark(b)
	used, usedBare := processor(b, p.cmd), processor(b, bare)
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
	reports := slices.DeleteFunc(w.ownRequests(mark), func(e kubetest.AuditEvent) bool { return e.Verb != "patch" || e.Resource != "applications" })
	b.ReportMetric(float64(len(reports)), "reports/min")
	b.ReportMetric(100*(processor(b, p.cmd)-used).Seconds()/took.Seconds(), "%cpu")
	b.ReportMetric(100*(processor(b, bare)-usedBare).Seconds()/took.Seconds(), "%cpu-bare-informer")
	b.ReportMetric(0, "ns/op")
}

// processor is the processor time that a running process has used.
func processor(b *testing.B, cmd *exec.Cmd) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	var ticks time.Duration
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * time.Second / 100
}

// informerOf has this binary be a bare informer, of the ConfigMaps of the namespace that it is set to.
const informerOf = "TRUEUP_TEST_INFORMER_OF"

// bareInformer starts another process with the agent's credentials, and returns when it has listed.
func (p *process) bareInformer() *exec.Cmd {
	p.w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(p.cmd.Env, informerOf+"="+p.w.ns)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.w.t.Fatal(err)
	}
	p.w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		p.w.t.Fatalf("the bare informer has not started: %v %s", err, line)
	}
	return cmd
}

func runInformer(namespace string) {
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		log.Fatal(err)
	}
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, namespace, func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.LabelApp })
	informer := factory.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps")).Informer()
	factory.Start(nil)
	if cache.WaitFor(context.Background(), "", informer.HasSyncedChecker()) {
		fmt.Println("listed")
	}
	select {}
}
