package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeModule writes a Go module of two packages; source is that of its main package.
func writeModule(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":           "module example.com/hello\n\ngo 1.26\n",
		"main.go":          source,
		"greet/greet.go":   "package greet\n\nconst Hello = \"hello\"\n",
		"unused/unused.go": "package unused\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBuildSaysHowFarItIs(t *testing.T) {
	source := writeModule(t, "package main\n\nimport \"example.com/hello/greet\"\n\nfunc main() { print(greet.Hello) }\n")
	t.Setenv("GOCACHE", t.TempDir())
	target := filepath.Join(t.TempDir(), "hello")
	var lines []string
	program := goBuild{name: "hello", pkg: ".", ldflags: "-s -w"}
	if err := program.compile(t.Context(), source, target, func(line string) { lines = append(lines, line) }); err != nil {
		t.Fatal(err)
	}
	if !isExecutable(target) {
		t.Errorf("%s is no program", target)
	}
	said := strings.Join(lines, "\n")
	var compiled, total int
	last := lines[len(lines)-1]
	if _, err := fmt.Sscanf(last, "compiled %d of at most %d packages, now example.com/hello", &compiled, &total); err != nil {
		t.Errorf("the build said at last %q: %v", last, err)
	}
	if compiled != len(lines)-1 || total < compiled { // the first line says that the source is read
		t.Errorf("the build said\n%s\nwhich counts wrongly", said)
	}
	if strings.Contains(said, "unused") {
		t.Errorf("the build said\n%s\nwhich names a package that the program does not import", said)
	}
}

func TestBuildThatFailsShowsTheCompilersErrors(t *testing.T) {
	source := writeModule(t, "package main\n\nfunc main() { launch(rocket) }\n")
	err := goBuild{name: "hello", pkg: "."}.run(t.Context(), &bytes.Buffer{}, source, filepath.Join(t.TempDir(), "hello"))
	if err == nil || !strings.Contains(err.Error(), "building hello: running go build: exit status 1") || !strings.Contains(err.Error(), "main.go:3:15: undefined: launch") {
		t.Errorf("got error %v, want the compiler's", err)
	}
}

func TestBuildIsGivenUp(t *testing.T) {
	source := writeModule(t, "package main\n\nfunc main() {}\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := goBuild{name: "hello", pkg: "."}.run(ctx, &bytes.Buffer{}, source, filepath.Join(t.TempDir(), "hello"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that it was canceled", err)
	}
}

func TestSecondBuildWaitsForTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), &bytes.Buffer{}, path)
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	second := make(chan error)
	go func() {
		unlock, err := lock(t.Context(), writerFunc(func(p []byte) { said <- string(p) }), path)
		if err == nil {
			unlock()
		}
		second <- err
	}()
	if got, want := <-said, "Another process is building the control plane: waiting for it.\n"; got != want {
		t.Errorf("the second said %q, want %q", got, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*pollInterval)
	defer cancel()
	if _, err := lock(ctx, &bytes.Buffer{}, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("locking what is locked: got error %v, want that time is up", err)
	}
	unlock()
	if err := <-second; err != nil {
		t.Errorf("after the first has finished: %v", err)
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestKeyNamesTheVersionsAndFollowsTheSource(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	key := func() string {
		t.Helper()
		v, err := readVersions(dir)
		if err != nil {
			t.Fatal(err)
		}
		return v.key
	}
	write("go.mod", "require (\n\tk8s.io/kubernetes v1.2.3\n\tsigs.k8s.io/kwok v0.4.5\n)\n")
	write("go.sum", "")
	write("build.go", "")
	write("kubernetes/main.go", "package main")
	seen := map[string]bool{key(): true}
	if first := key(); !strings.HasPrefix(first, "kubernetes-v1.2.3-kwok-v0.4.5-") || !seen[first] {
		t.Errorf("the key is %s, want one that names the versions and stays the same", first)
	}
	for _, name := range []string{"go.mod", "go.sum", "build.go", "kubernetes/main.go"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(data)+"\n")
		if changed := key(); seen[changed] {
			t.Errorf("the key is the same after a change of %s", name)
		} else {
			seen[changed] = true
		}
	}
	write("go.mod", "require sigs.k8s.io/kwok v0.4.5\n")
	if _, err := readVersions(dir); err == nil || err.Error() != "reading go.mod: it does not require k8s.io/kubernetes" {
		t.Errorf("without Kubernetes in go.mod: got error %v", err)
	}
}

func TestOnlyBinariesThatNobodyUsesAreRemoved(t *testing.T) {
	cache := t.TempDir()
	for name, age := range map[string]time.Duration{"used": time.Hour, "unused": keepUnused + time.Hour} {
		dir := filepath.Join(cache, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(dir, then, then); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeUnused(cache); err != nil {
		t.Fatal(err)
	}
	if !isDir(filepath.Join(cache, "used")) || isDir(filepath.Join(cache, "unused")) {
		t.Errorf("used binaries are there: %t, unused ones: %t; want true and false",
			isDir(filepath.Join(cache, "used")), isDir(filepath.Join(cache, "unused")))
	}
}

func TestAssetsAreUsedWhereTheyAreComplete(t *testing.T) {
	assets := t.TempDir()
	t.Setenv(assetsVariable, assets)
	if _, err := findBinaries(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "which has no program etcd: unset it") {
		t.Errorf("with an empty folder: got error %v, want that etcd is missing", err)
	}
	for _, program := range []string{etcd, apiServer} {
		if err := os.WriteFile(filepath.Join(assets, program), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bin, err := findBinaries(t.Context(), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{etcd: assets, apiServer: assets, scheduler: bin.dir, "kubectl": bin.dir} {
		if got := filepath.Dir(bin.path(program)); got != want {
			t.Errorf("%s is taken from %s, want %s", program, got, want)
		}
	}
}

func TestQuickenedStagesKeepWhatAPodAsksFor(t *testing.T) {
	got := string(quicken([]byte(`  delay:
    durationMilliseconds: 1000
    durationFrom:
      expressionFrom: '.metadata.annotations["pod-delete.stage.kwok.x-k8s.io/delay"]'
    jitterDurationMilliseconds: 5000
    jitterDurationFrom:
      expressionFrom: '.metadata.deletionTimestamp'
  next:
    delete: true
`)))
	want := `  delay:
    durationMilliseconds: 100
    durationFrom:
      expressionFrom: '.metadata.annotations["pod-delete.stage.kwok.x-k8s.io/delay"]'
    jitterDurationMilliseconds: 400
  next:
    delete: true
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
