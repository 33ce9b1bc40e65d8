package source

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/trueup/trueup/testdata/gitserver"
)

// BenchmarkLargeRepository is the first look at repositories that are large, and the next, which finds nothing new.
func BenchmarkLargeRepository(b *testing.B) {
	for name, fill := range map[string]func(testing.TB, *gitserver.Repository){
		"100,000 references": manyReferences,
		"1 GB of history":    longHistory,
	} {
		b.Run(name, func(b *testing.B) {
			repo := gitserver.New(b, b.TempDir(), gitserver.Options{})
			b.Cleanup(repo.Stop)
			fill(b, repo)
			for b.Loop() {
				measureLooks(b, repo)
			}
		})
	}
}

func measureLooks(b *testing.B, repo *gitserver.Repository) {
	dir := b.TempDir()
	r := NewRepositories(dir, RepositoriesOptions{})
	heap := peakHeap()
	for _, look := range []string{"first", "next"} {
		before, start := repo.Requests(), time.Now()
		rev, err := r.Resolve(b.Context(), repo.URL(), Auth{}, "main", 0)
		if err != nil {
			b.Fatal(err)
		}
		after := repo.Requests()
		b.ReportMetric(time.Since(start).Seconds(), look+"-s")
		b.ReportMetric(float64(after.Bytes-before.Bytes)/(1<<20), look+"-MiB-received")
		if _, err := r.Tree(b.Context(), repo.URL(), rev.Commit); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(heap())/(1<<20), "MiB-heap-peak")
	var size int64
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(size)/(1<<20), "MiB-on-disk")
}

// peakHeap starts to look at the heap, and returns how to stop it and learn how large it was at most.
func peakHeap() func() uint64 {
	runtime.GC()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			most = max(most, mem.HeapInuse)
			select {
			case <-stop:
				tick.Stop()
				peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-peak
	}
}

func manyReferences(tb testing.TB, repo *gitserver.Repository) {
	commit := repo.Commit(map[string]string{"a.yaml": "1"}, "first")
	packed := []byte("# pack-refs with: peeled fully-peeled sorted\n")
	for i := range 100_000 {
		packed = fmt.Appendf(packed, "%s refs/heads/b/%06d\n", commit, i)
	}
	if err := os.WriteFile(filepath.Join(repo.Dir(), "packed-refs"), packed, 0o644); err != nil {
		tb.Fatal(err)
	}
}

// longHistory has a thousand commits, each with another MiB that cannot be compressed.
func longHistory(tb testing.TB, repo *gitserver.Repository) {
	random := rand.NewChaCha8([32]byte{1})
	var stream bytes.Buffer
	noise := make([]byte, 1<<20)
	cmd := exec.Command("git", "-C", repo.Dir(), "-c", "core.compression=0", "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--force")
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	for i := range 1_000 {
		if _, err := random.Read(noise); err != nil {
			tb.Fatal(err)
		}
		stream.Reset()
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter T <t@example.com> %d +0000\ndata 1\nx\nM 100644 inline noise\ndata %d\n", 1_700_000_000+i, len(noise))
		stream.Write(noise)
		fmt.Fprintf(&stream, "\nM 100644 inline a.yaml\ndata 4\nv%03d\n", i%1000)
		if _, err := in.Write(stream.Bytes()); err != nil {
			tb.Fatal(err)
		}
	}
	if err := in.Close(); err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		tb.Fatal(err)
	}
}
