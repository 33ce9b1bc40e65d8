package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/ignore"

	"github.com/trueup/trueup/source/internal/sandbox"
)

// maxChart bounds what a chart's files, or those of one archive in it, may unpack to.
const maxChart = 40 << 20

// maxLocal bounds how deep charts refer to one another by file://.
const maxLocal = 10

// loadChart loads the chart in dir with its subcharts: those in charts/, and those that Chart.yaml refers to by file://,
// which `helm dependency build` would copy there.
func loadChart(files sandbox.Files, dir string, depth int) (*chart.Chart, error) {
	if depth > maxLocal {
		return nil, fmt.Errorf("%s: charts refer to one another by file:// more than %d levels deep", dir, maxLocal)
	}
	archive.MaxDecompressedChartSize = maxChart
	rules, err := ignored(files, dir)
	if err != nil {
		return nil, err
	}
	w := chartWalk{files: files, rules: rules}
	if err := w.walk(dir, ""); err != nil {
		return nil, err
	}
	c, err := loader.LoadFiles(w.found)
	if err != nil {
		return nil, fmt.Errorf("loading the chart %s: %w", or(dir, "."), err)
	}
	return c, addLocal(files, dir, c, depth)
}

func ignored(files sandbox.Files, dir string) (*ignore.Rules, error) {
	rules := ignore.Empty()
	name := path.Join(dir, ignore.HelmIgnore)
	content, err := files.ReadFile(name)
	if err == nil {
		rules, err = ignore.Parse(bytes.NewReader(content))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	rules.AddDefaults()
	return rules, nil
}

type chartWalk struct {
	files sandbox.Files
	rules *ignore.Rules
	found []*archive.BufferedFile
	bytes int
}

func (w *chartWalk) walk(root, rel string) error {
	names, err := w.files.ReadDir(path.Join(root, rel))
	if err != nil {
		return err
	}
	for _, n := range names {
		n, isDir := strings.CutSuffix(n, "/")
		name := path.Join(rel, n)
		if w.rules.Ignore(name, info{n, isDir}) {
			continue
		}
		if isDir {
			if err := w.walk(root, name); err != nil {
				return err
			}
			continue
		}
		content, err := w.files.ReadFile(path.Join(root, name))
		if err != nil {
			return err
		}
		if w.bytes += len(content); w.bytes > maxChart {
			return fmt.Errorf("the chart %s has more than %d MiB of files: leave out by .helmignore what it does not need", or(root, "."), maxChart>>20)
		}
		w.found = append(w.found, &archive.BufferedFile{Name: name, Data: bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))})
	}
	return nil
}

// info is what the rules of .helmignore ask of a file.
type info struct {
	name string
	dir  bool
}

func (i info) Name() string     { return i.name }
func (i info) IsDir() bool      { return i.dir }
func (info) Size() int64        { return 0 }
func (info) ModTime() time.Time { return time.Time{} }
func (info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir
	}
	return 0
}

// addLocal adds the charts that are referred to by file:// and not in charts/.
func addLocal(files sandbox.Files, dir string, c *chart.Chart, depth int) error {
	for _, dep := range missing(c) {
		local, isLocal := strings.CutPrefix(dep.Repository, "file://")
		if !isLocal || path.IsAbs(local) {
			continue
		}
		where := fmt.Sprintf("%s: the dependency %s, %s", path.Join(dir, "Chart.yaml"), dep.Name, dep.Repository)
		from := path.Join(dir, local)
		if from == ".." || strings.HasPrefix(from, "../") {
			return fmt.Errorf("%s, leaves the repository", where)
		}
		sub, err := loadChart(files, from, depth+1)
		if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if sub.Name() != dep.Name {
			return fmt.Errorf("%s, is a chart called %s", where, sub.Name())
		}
		if !fits(dep.Version, sub.Metadata.Version) {
			return fmt.Errorf("%s, is to have version %s and has %s", where, dep.Version, sub.Metadata.Version)
		}
		c.AddDependency(sub)
	}
	return nil
}

func fits(wanted, version string) bool {
	if wanted == "" || wanted == version {
		return true
	}
	constraint, err := semver.NewConstraint(wanted)
	if err != nil {
		return false
	}
	v, err := semver.NewVersion(version)
	return err == nil && constraint.Check(v)
}

// missing returns the dependencies that Chart.yaml has and charts/ does not.
func missing(c *chart.Chart) []*chart.Dependency {
	var out []*chart.Dependency
	for _, dep := range c.Metadata.Dependencies {
		if dep != nil && !slices.ContainsFunc(c.Dependencies(), func(have *chart.Chart) bool { return have.Name() == dep.Name }) {
			out = append(out, dep)
		}
	}
	return out
}

// checkWhole returns an error that names what is missing of a chart's dependencies.
func checkWhole(req Request, c *chart.Chart) error {
	var names []string
	for _, dep := range missing(c) {
		name := dep.Name
		if dep.Version != "" {
			name += " " + dep.Version
		}
		if dep.Repository != "" {
			name += " from " + dep.Repository
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	hint := fmt.Sprintf("run `helm dependency build %s` and commit what it makes", or(req.Chart, "."))
	if req.Packaged {
		hint = "the chart was packaged without them; whoever publishes it has to run `helm dependency build` first"
	}
	return fmt.Errorf("%s: the dependencies %s are not in charts/: %s", path.Join(req.Chart, "Chart.yaml"), strings.Join(names, ", "), hint)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
