//go:build linux || darwin

package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/trueup/trueup/testdata/chartserver"
	"github.com/trueup/trueup/testdata/gitserver"
)

// A disk that is full is one that takes no more bytes: here because the process may write no larger files, which needs no
// disk to fill and is the system's own refusal. It runs as a process of its own, since the limit is one of the process.
func TestADiskThatIsFull(t *testing.T) {
	if url := os.Getenv("TRUEUP_TEST_FULL_DISK"); url != "" {
		fetchOntoAFullDisk(t, url, func(r *Repositories) error {
			_, err := r.Resolve(t.Context(), url, Auth{}, "main", 0)
			return err
		}, func(r *Repositories) {
			if got := readFile(t, r, url, Auth{}, "main", "a.yaml"); got != "1" {
				t.Errorf("a.yaml = %q", got)
			}
		})
		return
	}
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{})
	repo.Commit(map[string]string{"a.yaml": "1", "noise": noise()}, "first")
	runOnAFullDisk(t, repo.URL())
}

func TestADiskThatIsFullOfCharts(t *testing.T) {
	if url := os.Getenv("TRUEUP_TEST_FULL_DISK"); url != "" {
		c := Chart{Repository: url, Name: "shop"}
		fetchOntoAFullDisk(t, url, func(r *Repositories) error {
			_, err := r.ResolveChart(t.Context(), c, Auth{}, "1.0.0", 0)
			return err
		}, func(r *Repositories) {
			if got, err := valueOf(t, r, c, resolvedChart(t, r, c, Auth{}, "1.0.0"), Helm{}); got != "one" || err != nil {
				t.Errorf("rendered %q, %v", got, err)
			}
		})
		return
	}
	s := chartserver.New(t, chartserver.Options{})
	s.Publish("shop", "1.0.0", chartserver.Archive(map[string]string{
		"shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.0.0\n", "shop/noise": noise(),
		"shop/templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {value: one}\n",
	}))
	runOnAFullDisk(t, s.URL())
}

// noise is a MiB that cannot be compressed.
func noise() string {
	noise := make([]byte, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	return string(noise)
}

// runOnAFullDisk runs the test again as a process of its own.
func runOnAFullDisk(t *testing.T, url string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "TRUEUP_TEST_FULL_DISK="+url)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "read after the disk had room again") {
		t.Errorf("%v\n%s", err, out)
	}
}

func fetchOntoAFullDisk(t *testing.T, url string, resolve func(*Repositories) error, read func(*Repositories)) {
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		l := before
		l.Cur = rlimit(n, before)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	r := NewRepositories(dir, RepositoriesOptions{})
	for range 2 {
		limit(100 << 10)
		err := resolve(r)
		limit(0)
		if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "file too large") || !strings.Contains(err.Error(), strings.TrimSuffix(url, ".git")) {
			t.Fatalf("Resolve = %v, want that the file is too large", err)
		}
	}
	read(r)
	var size int64
	for _, f := range filesBelow(t, dir) {
		size += f.Size()
		if strings.HasPrefix(f.Name(), "tmp") {
			t.Errorf("%s was left behind", f.Name())
		}
	}
	if size > 3<<20 {
		t.Errorf("%d bytes are on the disk", size)
	}
	if !t.Failed() {
		fmt.Println("read after the disk had room again")
	}
}

// rlimit returns n as the type of the limit on this system, the limit as it was for 0.
func rlimit(n uint64, before syscall.Rlimit) uint64 {
	if n == 0 {
		return before.Cur
	}
	return n
}

func filesBelow(t *testing.T, dir string) []os.FileInfo {
	t.Helper()
	var files []os.FileInfo
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if e.IsDir() {
			files = append(files, filesBelow(t, dir+"/"+e.Name())...)
		} else {
			files = append(files, info)
		}
	}
	return files
}
