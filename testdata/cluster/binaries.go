package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

// assetsVariable names a folder of binaries to use instead of building them, as setup-envtest makes it.
const assetsVariable = "KUBEBUILDER_ASSETS"

// binaries says where the programs are.
type binaries struct {
	dir     string // built here: a program of each name, and the folder stages
	assets  string // preferred where it has the program; may be empty
	version string // of the Kubernetes that is built here
}

func (b *binaries) path(program string) string {
	if b.assets != "" {
		if path := filepath.Join(b.assets, program); isExecutable(path) {
			return path
		}
	}
	return filepath.Join(b.dir, program)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// findBinaries returns the programs, and builds them first where the user's cache does not have them,
// which takes a quarter of an hour with an empty Go build cache; it shows its progress on out.
func findBinaries(ctx context.Context, out io.Writer) (*binaries, error) {
	assets := os.Getenv(assetsVariable)
	if assets != "" {
		for _, program := range []string{"etcd", "kube-apiserver"} {
			if path := filepath.Join(assets, program); !isExecutable(path) {
				return nil, fmt.Errorf("%s is %s, which has no program %s: unset it to have everything built", assetsVariable, assets, program)
			}
		}
	}
	source, err := moduleDir()
	if err != nil {
		return nil, err
	}
	versions, err := readVersions(source)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("finding a folder for the binaries: %w", err)
	}
	dir := filepath.Join(cache, "trueup", "controlplane", versions.key)
	bin := &binaries{dir: dir, assets: assets, version: versions.kubernetes}
	if isDir(dir) {
		now := time.Now()
		_ = os.Chtimes(dir, now, now) // for removeUnused; nobody removes from a cache that cannot be written
		return bin, nil
	}
	return bin, buildLocked(ctx, out, source, dir, versions)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// moduleDir returns the folder of this source file: the binaries are built from the module it is in.
func moduleDir() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Dir(file)
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", errors.New("the control plane's Go module is not where this program was built from: start it with go run in a checkout, without -trimpath")
	}
	return dir, nil
}

// versions is what the binaries are made of.
type versions struct {
	kubernetes, kwok string
	key              string // names the folder in the cache
}

// readVersions reads them from the module in dir. The key also changes with every dependency and with
// the source of the binary.
func readVersions(dir string) (versions, error) {
	hash := sha256.New()
	var mod []byte
	for _, name := range []string{"go.mod", "go.sum", "build.go", "kubernetes/main.go"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return versions{}, fmt.Errorf("reading the control plane's module: %w", err)
		}
		if name == "go.mod" {
			mod = data
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(data), data)
	}
	kubernetes, err := required(mod, "k8s.io/kubernetes")
	if err != nil {
		return versions{}, err
	}
	kwok, err := required(mod, "sigs.k8s.io/kwok")
	return versions{
		kubernetes: kubernetes,
		kwok:       kwok,
		key:        fmt.Sprintf("kubernetes-%s-kwok-%s-%s-%s-%x", kubernetes, kwok, runtime.GOOS, runtime.GOARCH, hash.Sum(nil)[:6]),
	}, err
}

// required returns the version of a module that a go.mod asks for.
func required(mod []byte, module string) (string, error) {
	found := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(mod)
	if found == nil {
		return "", fmt.Errorf("reading go.mod: it does not require %s", module)
	}
	return string(found[1]), nil
}

// buildLocked builds into dir unless another process has meanwhile done so. The folder appears whole or
// not at all.
func buildLocked(ctx context.Context, out io.Writer, source, dir string, v versions) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("making a folder for the binaries: %w", err)
	}
	unlock, err := lock(ctx, out, filepath.Join(filepath.Dir(dir), "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if isDir(dir) {
		return nil
	}
	temp := dir + ".partial" // what is there is left from a build that was killed: the lock is ours
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("removing an unfinished build: %w", err)
	}
	if err := build(ctx, out, source, temp, v); err != nil {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return fmt.Errorf("keeping the binaries: %w", err)
	}
	fmt.Fprintf(out, "Built the control plane into %s; this is not done again.\n", dir)
	return removeUnused(filepath.Dir(dir))
}

// keepUnused is how long binaries are kept after their last use; they take 200 MB.
const keepUnused = 30 * 24 * time.Hour

// removeUnused removes the folders of other versions that nobody has used for long.
func removeUnused(cache string) error {
	folders, err := os.ReadDir(cache)
	if err != nil {
		return fmt.Errorf("looking for old binaries: %w", err)
	}
	for _, folder := range folders {
		info, err := folder.Info()
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < keepUnused {
			continue
		}
		if err := os.RemoveAll(filepath.Join(cache, folder.Name())); err != nil {
			return fmt.Errorf("removing old binaries: %w", err)
		}
	}
	return nil
}

// lock waits until no other process holds the lock on path, or ctx ends. The system frees it when the
// process that holds it dies.
func lock(ctx context.Context, out io.Writer, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the build: %w", err)
	}
	try := func() error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	if err = try(); errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Fprintln(out, "Another process is building the control plane: waiting for it.")
		for errors.Is(err, syscall.EWOULDBLOCK) {
			if !sleep(ctx, pollInterval) {
				err = ctx.Err()
				break
			}
			err = try()
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("locking the build with %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}
