package source

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/registry"
	"helm.sh/helm/v4/pkg/repo/v1"

	"github.com/trueup/trueup/source/internal/chart"
	"github.com/trueup/trueup/testdata/chartserver"
)

// versionCases are versions and what is wanted of them.
var versionCases = []struct {
	versions []string
	wanted   []string
}{
	{[]string{"1.0.0", "1.2.3", "1.10.0", "2.0.0-rc.1", "2.0.0-beta.2", "0.9.0"},
		[]string{"", "*", ">0", "1", "1.x", "1.2", "~1.2", "^1", "^1.2.3", "<1.10", "1.0.0 - 1.5.0", ">=1.0.0 <1.5 || >=2", "2", "^2", "2.0.0-rc.1", "^2.0.0-0", ">=2.0.0-0", ">=1.0.0-0", "2.x-0", "v1.2.3", "1.2.4", "=1.2.3", "!=1.10.0", "3", "main", "latest", " 1.2.3", "1.2.3 ", ">=1,<1.10"}},
	{[]string{"v1.0.0", "v1.2.0", "v2.0.0-alpha"}, []string{"", "1.2.0", "v1.2.0", "^1", "v1", ">=2.0.0-0", "*"}},
	{[]string{"1.0.0-1", "1.0.0-2", "1.0.0-10"}, []string{"", "*", ">=0.0.0-0", "1.0.0-2", "~1.0.0-0", "*-0"}},
	{[]string{"1.0.0+build.1", "0.9.0"}, []string{"", "1.0.0", "1.0.0+build.1", "1.0.0+build.2", "^1"}},
	{[]string{"not-a-version", "1.0.0", "1.0", "2"}, []string{"", "1.0", "1", "2", "not-a-version"}},
	{nil, []string{"", "1.0.0", "^1"}},
}

// TestVersionsAreChosenAsHelmChoosesThem holds the choice against Helm's for repositories, over an index that Helm reads
// too, and against its choice among tags.
func TestVersionsAreChosenAsHelmChoosesThem(t *testing.T) {
	for _, c := range versionCases {
		s := chartserver.New(t, chartserver.Options{})
		s.Publish("other", "5.0.0", []byte("x"))
		for _, v := range c.versions {
			s.Publish("shop", v, []byte(v))
		}
		content := s.File("index.yaml")
		file := filepath.Join(t.TempDir(), "index.yaml")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		index, err := repo.LoadIndexFile(file)
		if err != nil {
			t.Fatal(err)
		}
		listing, err := chart.ReadIndex(bytes.NewReader(content), "shop")
		if err != nil {
			t.Fatal(err)
		}
		var sorted []string
		for _, v := range index.Entries["shop"] {
			sorted = append(sorted, v.Version)
		}
		for _, wanted := range c.wanted {
			want, got := "", ""
			if v, err := index.Get("shop", wanted); err == nil {
				want = v.Version + " " + v.Digest + " " + v.URLs[0]
			}
			if v, err := chooseIndexed(listing.Versions, wanted); err == nil {
				got = v.Version + " " + v.Digest + " " + v.URLs[0]
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%q of %v (-Helm +Trueup):\n%s", wanted, c.versions, diff)
			}
			tag, _ := registry.GetTagMatchingVersionOrConstraint(sorted, wanted)
			if found, _ := chart.Choose(sorted, wanted); found != tag {
				t.Errorf("%q of the tags %v: Helm takes %q, and Trueup %q", wanted, sorted, tag, found)
			}
		}
	}
}

// TestIndexesAreReadAsHelmReadsThem reads what Helm's own writer writes.
func TestIndexesAreReadAsHelmReadsThem(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"1.0.0", "1.1.0"} {
		if err := os.WriteFile(filepath.Join(dir, "shop-"+version+".tgz"), chartserver.Archive(map[string]string{
			"shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: " + version + "\ndescription: |\n  entries:\n\n    shop:\n  - version: 6.6.6\nkeywords: ['a: b', '- c', '#d']\nannotations: {x: \"" + strings.Repeat(`long words\n  - version: 7.7.7 `, 30) + "\"}\n",
		}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	written, err := repo.IndexDirectory(dir, "https://charts.example.com/shop")
	if err != nil {
		t.Fatal(err)
	}
	written.SortEntries()
	for name, write := range map[string]func(string, os.FileMode) error{"index.yaml": written.WriteFile, "index.json": written.WriteJSONFile} {
		file := filepath.Join(dir, name)
		if err := write(file, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		listing, err := chart.ReadIndex(f, "shop")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var want, got []string
		for _, v := range written.Entries["shop"] {
			want = append(want, v.Version+" "+v.Digest+" "+v.URLs[0])
		}
		for _, v := range listing.Versions {
			got = append(got, v.Version+" "+v.Digest+" "+v.URLs[0])
		}
		if diff := gocmp.Diff(want, got); diff != "" || len(want) != 2 {
			t.Errorf("%s (-Helm +Trueup):\n%s", name, diff)
		}
	}
}
