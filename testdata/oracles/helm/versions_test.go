package helm

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v4/pkg/registry"
	"helm.sh/helm/v4/pkg/repo/v1"

	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/testdata/chartserver"
)

// versionCases are versions and what is wanted of them.
var versionCases = []struct {
	versions []string
	wanted   []string
}{
	{[]string{"1.0.0", "1.2.3", "1.10.0", "2.0.0-rc.1", "2.0.0-beta.2", "0.9.0"},
		[]string{"", "*", ">0", "1", "1.x", "1.2", "~1.2", "^1", "^1.2.3", "<1.10", "1.0.0 - 1.5.0", ">=1.0.0 <1.5 || >=2", "2", "^2", "2.0.0-rc.1", "^2.0.0-0", ">=2.0.0-0", ">=1.0.0-0", "2.x-0", "v1.2.3", "1.2.4", "=1.2.3", "!=1.10.0", "3", "main", "latest", " 1.2.3", "1.2.3 ", ">=1,<1.10"}},
	{[]string{"v1.0.0", "v1.2.0", "v2.0.0-alpha"}, []string{"", "1.2", "v1.2.0", "^1", "v1", ">=2.0.0-0", "*"}},
	{[]string{"1.0.0-1", "1.0.0-2", "1.0.0-10"}, []string{"", "*", ">=0.0.0-0", "1.0.0-2", "~1.0.0-0", "*-0"}},
	{[]string{"1.0.0+build.1", "0.9.0"}, []string{"", "1.0.0+build.1", "^1", "=1.0.0"}},
	{[]string{"not-a-version", "1.0.0", "1.0", "2"}, []string{"", "1.0", "1", "2", "not-a-version"}},
	{nil, []string{"", "1.0.0", "^1"}},
}

// TestVersionsAreChosenAsHelmChoosesThem holds the choice in a repository against Helm's reading of the same index, and that
// in a registry against Helm's choice among its tags.
func TestVersionsAreChosenAsHelmChoosesThem(t *testing.T) {
	for _, c := range versionCases {
		s := chartserver.New(t, chartserver.Options{})
		s.Publish("other", "5.0.0", []byte("x"))
		pushed := map[string]string{}
		for _, v := range c.versions {
			s.Publish("shop", v, []byte(v))
			pushed[v] = s.Push("shop", v, []byte(v))
		}
		index := load(t, s.File("index.yaml"))
		var tags []string
		for _, v := range index.Entries["shop"] {
			tags = append(tags, v.Version)
		}
		r := source.NewRepositories(t.TempDir(), source.RepositoriesOptions{})
		resolve := func(repository, wanted string) string {
			rev, err := r.ResolveChart(t.Context(), source.Chart{Repository: repository, Name: "shop"}, source.Auth{PlainHTTP: true}, wanted, 0)
			if err != nil {
				return ""
			}
			return rev.Commit
		}
		for _, wanted := range c.wanted {
			want := ""
			if v, err := index.Get("shop", wanted); err == nil {
				want = v.Version + "@sha256:" + v.Digest
			}
			if got := resolve(s.URL(), wanted); got != want {
				t.Errorf("%q of %v: Helm takes %q, and Trueup %q", wanted, c.versions, want, got)
			}
			// A whole version is a tag, and nothing is chosen; what Helm takes for no version no tag of its own charts has.
			if _, err := semver.StrictNewVersion(wanted); err == nil && !slices.Contains(tags, wanted) || wanted == "not-a-version" {
				continue
			}
			want = ""
			if tag, err := registry.GetTagMatchingVersionOrConstraint(tags, wanted); err == nil {
				want = tag + "@sha256:" + pushed[tag]
			}
			if got := resolve(s.OCIURL(), wanted); got != want {
				t.Errorf("%q of the tags %v: Helm takes %q, and Trueup %q", wanted, tags, want, got)
			}
		}
	}
}

func load(t *testing.T, index []byte) *repo.IndexFile {
	t.Helper()
	file := filepath.Join(t.TempDir(), "index.yaml")
	if err := os.WriteFile(file, index, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := repo.LoadIndexFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// TestIndexesAreReadAsHelmReadsThem reads what Helm's own writer writes.
func TestIndexesAreReadAsHelmReadsThem(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	dir := t.TempDir()
	for _, version := range []string{"1.0.0", "1.1.0"} {
		archive := chartserver.Archive(map[string]string{
			"shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: " + version + "\ndescription: |\n  entries:\n\n    shop:\n  - version: 6.6.6\nkeywords: ['a: b', '- c', '#d']\nannotations: {x: \"" + strings.Repeat(`long words\n  - version: 7.7.7 `, 30) + "\"}\n",
		})
		s.SetFile("shop-"+version+".tgz", archive)
		if err := os.WriteFile(filepath.Join(dir, "shop-"+version+".tgz"), archive, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	written, err := repo.IndexDirectory(dir, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	written.SortEntries()
	if n := len(written.Entries["shop"]); n != 2 {
		t.Fatalf("%d versions were written", n)
	}
	for name, write := range map[string]func(string, os.FileMode) error{"index.yaml": written.WriteFile, "index.json": written.WriteJSONFile} {
		file := filepath.Join(dir, name)
		if err := write(file, 0o600); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(content, []byte("6.6.6")) {
			t.Errorf("%s has nothing that could be taken for a version", name)
		}
		s.SetFile("index.yaml", content)
		r := source.NewRepositories(t.TempDir(), source.RepositoriesOptions{})
		for _, v := range written.Entries["shop"] {
			rev, err := r.ResolveChart(t.Context(), source.Chart{Repository: s.URL(), Name: "shop"}, source.Auth{}, v.Version, 0)
			if want := v.Version + "@sha256:" + v.Digest; err != nil || rev.Commit != want {
				t.Errorf("%s: got %q, %v, want %q", name, rev.Commit, err, want)
			}
		}
	}
}
