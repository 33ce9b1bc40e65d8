package source

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"github.com/trueup/trueup/source/internal/chart"
	"github.com/trueup/trueup/testdata/chartserver"
)

func TestManyAskAtOnce(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	for _, name := range []string{"shop", "bakery"} {
		s.Publish(name, "1.0.0", shopChart("1.0.0", name))
	}
	s.Push("shop", "1.0.0", shopChart("1.0.0", "pushed"))
	release := make(chan struct{})
	s.Intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			<-release
			next.ServeHTTP(w, req)
		})
	})
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	var all gosync.WaitGroup
	for i := range 30 {
		c := Chart{Repository: []string{s.URL(), s.URL(), s.OCIURL()}[i%3], Name: []string{"shop", "bakery", "shop"}[i%3]}
		all.Go(func() {
			if _, err := r.ResolveChart(t.Context(), c, plain, "1.0.0", time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	// Whoever comes later than the answers finds them, and whoever comes before waits for them.
	close(release)
	all.Wait()
	requests := s.Requests()
	slices.Sort(requests)
	if len(requests) != 6 {
		t.Errorf("an index, two archives, and the three of a registry should be asked for once each: %q", requests)
	}
	if first, again := r.charts.mustUnpack(t, s, "shop"), r.charts.mustUnpack(t, s, "shop"); first != again {
		t.Error("an archive that is in use is unpacked again")
	}
}

func (c *charts) mustUnpack(t *testing.T, s *chartserver.Server, name string) *chart.Archive {
	t.Helper()
	digest := chartserver.Digest(s.File(name + "-1.0.0.tgz"))
	a, err := c.unpack(digest, c.store.Owners(digest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestChartsThroughAProxy(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{Username: "ada", Password: "pw"})
	digest := s.Publish("shop", "1.0.0", shopChart("1.0.0", "one"))
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// The one that knows where charts.example.com is.
		(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Host = Host(s.URL()) }}).ServeHTTP(w, req)
	}))
	t.Cleanup(proxy.Close)
	c := Chart{Repository: "http://charts.example.com/charts", Name: "shop"}
	auth := Auth{Username: "ada", Password: "pw", Proxy: proxy.URL}
	if got := resolvedChart(t, NewRepositories(t.TempDir(), RepositoriesOptions{}), c, auth, ""); got != "1.0.0@sha256:"+digest {
		t.Errorf("got %s", got)
	}
}

func TestAChartServerThatStallsOrLies(t *testing.T) {
	const version = "1.0.0"
	end := make(chan struct{})
	defer close(end)
	stall := func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-end:
		case <-req.Context().Done():
		}
	}
	cut := func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("apiVersion: v1\nentries:\n  shop:\n"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	endless := func(w http.ResponseWriter, req *http.Request) {
		_, _ = w.Write([]byte("entries:\n"))
		line := []byte(strings.Repeat("  # filling\n", 1000))
		for req.Context().Err() == nil {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}
	broken := func(w http.ResponseWriter, req *http.Request) {
		http.Error(w, "<html>hunter2</html>", http.StatusBadGateway)
	}
	for name, c := range map[string]struct {
		path   string // of what is answered so
		answer http.HandlerFunc
		want   string
	}{
		"a stalling index":       {"/charts/index.yaml", stall, "no answer within 300ms"},
		"a stalling archive":     {".tgz", stall, "no answer within 300ms"},
		"an index cut off":       {"/charts/index.yaml", cut, "/charts/index.yaml: unexpected EOF"},
		"an archive cut off":     {".tgz", cut, "unexpected EOF"},
		"an index without end":   {"/charts/index.yaml", endless, "it has more than 64 MiB"},
		"an error of the server": {"/charts/index.yaml", broken, "the server answers 502 Bad Gateway"},
		"a stalling registry":    {"/manifests/" + version, stall, "no answer within 300ms"},
		"a stalling blob":        {"/blobs/", stall, "no answer within 300ms"},
		"a blob cut off":         {"/blobs/", cut, "mismatch Content-Length"},
		"no answer at all":       {"/charts/index.yaml", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "closes the connection without an answer"},
		"an error of a registry": {"/manifests/" + version, broken, "the registry answers 502 Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			s := chartserver.New(t, chartserver.Options{})
			s.Publish("shop", version, shopChart(version, "one"))
			s.Push("shop", version, shopChart(version, "one"))
			s.Intercept(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if strings.Contains(req.URL.Path, c.path) {
						c.answer(w, req)
						return
					}
					next.ServeHTTP(w, req)
				})
			})
			repository := s.URL()
			if strings.Contains(c.path, "manifests") || strings.Contains(c.path, "blobs") {
				repository = s.OCIURL()
			}
			opts := RepositoriesOptions{}
			if strings.Contains(c.want, "300ms") {
				opts.Timeout = 300 * time.Millisecond
			}
			r := NewRepositories(t.TempDir(), opts)
			_, err := r.ResolveChart(t.Context(), Chart{Repository: repository, Name: "shop"}, Auth{PlainHTTP: true}, version, 0)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), repository) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %q and the repository's URL", err, c.want)
			}
			s.Intercept(nil)
			for deadline := time.Now().Add(10 * time.Second); ; {
				// The first may still join a question that is about to end.
				_, err := r.ResolveChart(t.Context(), Chart{Repository: repository, Name: "shop"}, Auth{PlainHTTP: true}, version, 0)
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("later: %v", err)
				}
			}
		})
	}
}

func TestWhatIsRememberedOfIndexesIsBounded(t *testing.T) {
	index := "entries:\n  shop:\n" + strings.Repeat("  - version: 1.0.0\n    urls: ["+strings.Repeat("x", 4000)+"]\n", 1750)
	listing, err := chart.ReadIndex(strings.NewReader(index), "shop")
	if err != nil {
		t.Fatal(err)
	}
	var known listings
	for i := range 9 {
		key := fmt.Sprint(i)
		known.remember(key, listing)
		if known.get(key) == nil || known.size < listing.Size() || known.size > maxListings {
			t.Errorf("after %d of %d bytes, %d are remembered", i+1, listing.Size(), known.size)
		}
	}

	s := chartserver.New(t, chartserver.Options{})
	s.Publish("shop", "1.0.0", shopChart("1.0.0", "one"))
	s.Intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			next.ServeHTTP(longETag{w}, req)
		})
	})
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	resolvedChart(t, r, Chart{Repository: s.URL(), Name: "shop"}, Auth{}, "")
	for _, index := range r.charts.indexes {
		if n := len(index.etag); n > 0 {
			t.Errorf("an ETag of %d bytes is remembered", n)
		}
	}
}

// longETag answers with an ETag that is too long.
type longETag struct{ http.ResponseWriter }

func (l longETag) WriteHeader(status int) {
	l.Header().Set("Etag", strings.Repeat("e", 2<<10))
	l.ResponseWriter.WriteHeader(status)
}

func (l longETag) Write(b []byte) (int, error) {
	l.Header().Set("Etag", strings.Repeat("e", 2<<10))
	return l.ResponseWriter.Write(b)
}
