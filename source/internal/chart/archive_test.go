package chart

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trueup/trueup/testdata/chartserver"
)

func TestUnpack(t *testing.T) {
	a, err := Unpack(bytes.NewReader(chartserver.ArchiveOf([]tar.Header{
		{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}},
		{Name: "shop/", Typeflag: tar.TypeDir},
		{Name: "shop/Chart.yaml", Typeflag: tar.TypeReg, Size: 1},
		{Name: `shop\templates\web.yaml`, Typeflag: tar.TypeReg, Size: 1},
		{Name: "./shop/templates/tests/it.yaml", Typeflag: tar.TypeReg, Size: 1},
	}, func(h tar.Header) []byte { return []byte("x")[:h.Size] })))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]Entry{}
	for _, dir := range []string{"", "templates", "templates/tests"} {
		got[dir], _ = a.Dir(dir)
	}
	want := map[string][]Entry{
		"":                {{"Chart.yaml", false}, {"templates", true}},
		"templates":       {{"tests", true}, {"web.yaml", false}},
		"templates/tests": {{"it.yaml", false}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if content, ok := a.File("templates/web.yaml"); !ok || string(content) != "x" {
		t.Errorf("templates/web.yaml = %q, %t", content, ok)
	}
	if _, ok := a.File("templates"); ok {
		t.Error("a folder is taken for a file")
	}
}

func TestArchivesThatAreRefused(t *testing.T) {
	chart := tar.Header{Name: "shop/Chart.yaml", Typeflag: tar.TypeReg, Size: 1}
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 1} }
	var bomb, many []tar.Header
	for i := range 5 {
		bomb = append(bomb, tar.Header{Name: fmt.Sprintf("shop/zeros-%d", i), Typeflag: tar.TypeReg, Size: 9 << 20})
	}
	for i := range 10_001 {
		many = append(many, tar.Header{Name: fmt.Sprintf("shop/%d/", i), Typeflag: tar.TypeDir})
	}
	for name, c := range map[string]struct {
		entries []tar.Header
		want    string
	}{
		"a gzip bomb":             {bomb, `its entry "shop/zeros-4" makes it unpack to more than the 40 MiB that a chart may have`},
		"a large file":            {[]tar.Header{{Name: "shop/big", Typeflag: tar.TypeReg, Size: 11 << 20}}, `its entry "shop/big" has 11 MiB, more than the 10 MiB that a file may have`},
		"too many entries":        {many, "it has more than the 10000 entries that a chart may have"},
		"dots":                    {[]tar.Header{file("shop/../../etc/passwd")}, `its entry "shop/../../etc/passwd" leaves the chart's folder`},
		"Windows dots":            {[]tar.Header{file(`shop\..\..\x`)}, `leaves the chart's folder`},
		"an absolute path":        {[]tar.Header{file("/etc/passwd")}, `its entry "/etc/passwd" has an absolute path`},
		"a drive":                 {[]tar.Header{file("c:/x/y")}, "has an absolute path"},
		"a symbolic link":         {[]tar.Header{chart, {Name: "shop/values.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}, `its entry "shop/values.yaml" is a link`},
		"a hard link":             {[]tar.Header{chart, {Name: "shop/values.yaml", Typeflag: tar.TypeLink, Linkname: "shop/Chart.yaml"}}, `its entry "shop/values.yaml" is a link`},
		"a device":                {[]tar.Header{{Name: "shop/zero", Typeflag: tar.TypeChar}}, `its entry "shop/zero" is no file and no folder`},
		"a pipe":                  {[]tar.Header{{Name: "shop/pipe", Typeflag: tar.TypeFifo}}, "is no file and no folder"},
		"a file outside":          {[]tar.Header{file("Chart.yaml")}, `its entry "Chart.yaml" is outside of the chart's folder`},
		"a file twice":            {[]tar.Header{chart, chart}, `its entry "shop/Chart.yaml" is there twice`},
		"a file in a file":        {[]tar.Header{chart, file("shop/Chart.yaml/x")}, `its entry "shop/Chart.yaml/x" is below Chart.yaml, which is a file`},
		"a folder that is a file": {[]tar.Header{file("shop/a/x"), file("shop/a")}, `its entry "shop/a" is a folder too`},
		"a name with a line end":  {[]tar.Header{file("shop/a\nb")}, "has control characters in its name"},
		"a path without end":      {[]tar.Header{file("shop" + strings.Repeat("/a", 60))}, "has too long a path"},
		"no Chart.yaml":           {[]tar.Header{file("shop/values.yaml"), file("shop/sub/Chart.yaml")}, "it has no Chart.yaml in its folder: it is no chart"},
		"nothing":                 {nil, "it has no Chart.yaml in its folder"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Unpack(bytes.NewReader(chartserver.ArchiveOf(c.entries, func(h tar.Header) []byte { return make([]byte, h.Size) })))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	whole := chartserver.Archive(map[string]string{"shop/Chart.yaml": "name: shop"})
	for name, content := range map[string][]byte{"a page": []byte("<html>"), "half of one": whole[:len(whole)/2], "nothing": nil} {
		if _, err := Unpack(bytes.NewReader(content)); err == nil {
			t.Errorf("%s is taken for an archive", name)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(chartserver.Archive(map[string]string{"shop/Chart.yaml": "name: shop", "shop/templates/a.yaml": "x"}))
	f.Fuzz(func(t *testing.T, content []byte) {
		a, err := Unpack(bytes.NewReader(content))
		if err != nil {
			return
		}
		for name := range a.files {
			if strings.HasPrefix(name, "/") || strings.Contains("/"+name+"/", "/../") {
				t.Errorf("the path %q", name)
			}
		}
	})
}
