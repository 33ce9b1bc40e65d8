package chart

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestReadIndex(t *testing.T) {
	shop := []Version{
		{Version: "1.1.0", Digest: strings.Repeat("a", 64), URLs: []string{"shop-1.1.0.tgz"}, Created: "2026-01-02T03:04:05Z"},
		{Version: "1.0.0", URLs: []string{"https://example.com/shop-1.0.0.tgz"}},
	}
	for name, c := range map[string]struct {
		index string
		want  Listing
		err   string
	}{
		"as helm writes it": {index: `apiVersion: v1
entries:
  bakery:
  - apiVersion: v2
    version: 9.9.9
  shop:
  - apiVersion: v2
    created: "2026-01-02T03:04:05Z"
    description: |
      A shop.

      - version: 6.6.6
      # no comment, and a list
        - version: 7.7.7
    digest: sha256:` + strings.Repeat("A", 64) + `
    urls:
    - shop-1.1.0.tgz
    - https://mirror.example.com/shop-1.1.0.tgz
    version: 1.1.0
  - name: shop
    version: 1.0.0
    urls: ["https://example.com/shop-1.0.0.tgz"]
  - name: shop
    version: not-a-version
  zoo:
  - version: 8.8.8
generated: "2026-01-02T03:04:05Z"
`, want: Listing{Versions: shop}},
		"indented lists, comments, Windows lines and a mark": {index: strings.ReplaceAll("\ufeff---\n# an index\nentries:\n    # first\n    'shop' : # the shop\n        -\n            version: \"1.1.0\"\n            digest: "+
			strings.Repeat("a", 64)+"\n            created: 2026-01-02T03:04:05Z\n            urls:\n                - shop-1.1.0.tgz\n        - version: 1.0.0\n          urls:\n            - https://example.com/shop-1.0.0.tgz\napiVersion: v1\n", "\n", "\r\n"), want: Listing{Versions: shop}},
		"JSON": {index: `{"apiVersion":"v1","generated":{"a":[1,{"b":null}]},"entries":{"zoo":[{"version":"1.0.0"}],"shop":[{"version":"1.1.0","digest":"` + strings.Repeat("a", 64) +
			`","urls":["shop-1.1.0.tgz"],"created":"2026-01-02T03:04:05Z"},{"version":"1.0.0","urls":["https://example.com/shop-1.0.0.tgz"]}]}}`, want: Listing{Versions: shop}},
		"another chart":          {index: "entries:\n  bakery:\n  - version: 1.0.0\n  zoo: []\n", want: Listing{Names: []string{"bakery", "zoo"}}},
		"another chart, JSON":    {index: `{"entries":{"bakery":[],"zoo":null}}`, want: Listing{Names: []string{"bakery", "zoo"}}},
		"no charts":              {index: "apiVersion: v1\nentries: {}\n"},
		"no charts yet":          {index: "entries: null"},
		"no versions":            {index: "entries:\n  shop: []\n", want: Listing{Names: []string{"shop"}}},
		"a page":                 {index: "<html>\n<body>Sign in</body>\n", err: "it has no entries: it is no index of a chart repository"},
		"nothing":                {err: "it has no entries"},
		"JSON of something else": {index: `{"message":"no"}`, err: "it has no entries"},
		"half of it in JSON":     {index: `{"entries":{"shop":[{"version":"1.0.0"}`, err: "unexpected EOF"},
		"a version that is bad":  {index: "entries:\n  shop:\n  - version: 1.0.0\n    urls: [\n  - version: 2.0.0\n", err: "the version that begins at line 3"},
		"in one line":            {index: "entries: {shop: [{version: 1.0.0}]}\n", err: "line 1: it is not laid out as `helm repo index` writes it"},
		"a chart in one line":    {index: "entries:\n  shop: [{version: 1.0.0}]\n", err: "line 2: it is not laid out"},
		"no list":                {index: "entries:\n  shop:\n    version: 1.0.0\n", err: "line 3: a list of versions is expected"},
		"a line of 5 MiB":        {index: "entries:\n  shop:\n  - version: " + strings.Repeat("x", 5<<20), err: "reading line 3: bufio.Scanner: token too long"},
		"a version of 2 MiB":     {index: "entries:\n  shop:\n  - version: 1.0.0\n" + strings.Repeat("    a: "+strings.Repeat("x", 1000)+"\n", 2000), err: "the version that begins at line 3 has more than 1024 KiB"},
		"an alias bomb":          {index: "entries:\n  shop:\n  - a: &a [x,x,x,x,x,x,x,x,x]\n    b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n    c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n    urls: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n    version: 1.0.0\n", err: "the version that begins at line 3"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadIndex(strings.NewReader(c.index), "shop")
			if (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error = %v, want %q", err, c.err)
			}
			if err == nil {
				if diff := cmp.Diff(c.want, *got, cmpopts.IgnoreUnexported(Listing{})); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

// TestALargeIndexTakesLittleMemory reads 40 MiB, of which a parser of all of it makes hundreds.
func TestALargeIndexTakesLittleMemory(t *testing.T) {
	var index strings.Builder
	index.WriteString("apiVersion: v1\nentries:\n")
	for i := range 200 {
		fmt.Fprintf(&index, "  chart-%d:\n", i)
		for v := range 500 {
			fmt.Fprintf(&index, "  - apiVersion: v2\n    description: %s\n    digest: %s\n    urls:\n    - https://example.com/c-%d.tgz\n    version: 1.0.%d\n", strings.Repeat("words ", 40), strings.Repeat("a", 64), v, v)
		}
	}
	if index.Len() < 40<<20 {
		t.Fatalf("it has %d bytes", index.Len())
	}
	content := index.String()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got, err := ReadIndex(strings.NewReader(content), "chart-100")
	runtime.ReadMemStats(&after)
	if err != nil || len(got.Versions) != 500 {
		t.Fatalf("%v, %v", got, err)
	}
	// All that was ever allocated, whether it was let go or not.
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("%d MiB were allocated", used>>20)
	}
	if _, err := ReadIndex(strings.NewReader(content+strings.Repeat("# filling\n", 3<<20)), "chart-1"); err == nil || !strings.Contains(err.Error(), "it has more than 64 MiB") {
		t.Errorf("more than an index may have: %v", err)
	}
}

// Of an index as large as one may be, what is kept is small, and what it takes to read it too.
func TestAHostileIndexTakesNoMemory(t *testing.T) {
	long := strings.Repeat("x", 3300)
	names := strings.Repeat("  "+long+": {}\n", 19_000)
	urls := strings.Repeat("  - version: 1.0.0\n    urls: ["+long+"]\n", 19_000)
	for name, c := range map[string]struct {
		index, err string
		most       uint64 // MiB allocated in all
	}{
		"long names":          {"entries:\n" + names, "", 80}, // a line is made a string, and let go
		"names on long lines": {"entries:\n" + strings.Repeat("  a: {} #"+long+"\n", 19_000), "", 80},
		"versions":            {"entries:\n  shop:\n" + urls, "what it has of the chart's versions is more than 8 MiB", 200},
		"a long URL":          {"entries:\n  shop:\n  - version: 1.0.0\n    urls: [" + strings.Repeat(long, 2) + "]\n", "the URL of version 1.0.0 has more than 4 KiB", 1},
		"nested JSON":         {`{"x":` + strings.Repeat("[", 15<<20), "nested more than 100 levels deep", 1},
		"nested JSON entry":   {`{"entries":{"bakery":` + strings.Repeat("[", 15<<20), "nested more than 100 levels deep", 1},
		"JSON with URLs":      {`{"entries":{"shop":[{"version":"1.0.0","urls":["` + strings.Repeat(`","`, 4<<20) + `"]}]}}`, "a version has more than 1024 KiB", 80},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := ReadIndex(strings.NewReader(c.index), "shop")
			runtime.ReadMemStats(&after)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > c.most {
				t.Errorf("%d MiB were allocated", used)
			}
			if got == nil {
				return
			}
			if got.Size() > 8<<20 {
				t.Errorf("%d bytes are kept", got.Size())
			}
			runtime.GC()
			runtime.ReadMemStats(&before)
			runtime.KeepAlive(got)
			got = nil
			runtime.GC()
			runtime.ReadMemStats(&after)
			if kept := int64(before.HeapAlloc-after.HeapAlloc) >> 20; kept > 8 {
				t.Errorf("%d MiB are kept", kept)
			}
		})
	}
}

func FuzzReadIndex(f *testing.F) {
	f.Add("entries:\n  shop:\n  - version: 1.0.0\n")
	f.Add(`{"entries":{"shop":[{"version":"1.0.0"}]}}`)
	f.Fuzz(func(t *testing.T, index string) {
		got, err := ReadIndex(strings.NewReader(index), "shop")
		if err != nil {
			if strings.Contains(err.Error(), "panicked") {
				t.Error(err)
			}
			return
		}
		for _, v := range got.Versions {
			if len(v.URLs) > 1 {
				t.Errorf("%v", v)
			}
		}
	})
}
