package source

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trueup/trueup/testdata/chartserver"
)

var plain = Auth{PlainHTTP: true}

func TestChartsFromARegistry(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	one := s.Push("shop", "1.0.0", shopChart("1.0.0", "one"))
	two := s.Push("shop", "1.1.0+build.7", shopChart("1.1.0+build.7", "two"))
	s.Push("shop", "2.0.0-rc.1", shopChart("2.0.0-rc.1", "rc"))
	moving := s.Push("shop", "latest", shopChart("1.0.0", "moving"))
	c := Chart{Repository: s.OCIURL(), Name: "shop"}
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})

	// An exact version is one request for the manifest's digest, and what is not known yet.
	if got := resolvedChart(t, r, c, plain, "1.0.0"); got != "1.0.0@sha256:"+one {
		t.Fatalf("1.0.0 = %s", got)
	}
	requests := strings.Join(s.Requests(), "\n")
	for i, want := range []string{"HEAD /v2/team/shop/manifests/1.0.0 200", "GET /v2/team/shop/manifests/sha256:" + one + " 200", "GET /v2/team/shop/blobs/sha256:"} {
		if lines := strings.Split(requests, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[i], want) {
			t.Errorf("request %d of %q, want %s", i, lines, want)
		}
	}
	resolvedChart(t, r, c, plain, "1.0.0")
	asked(t, s, "HEAD /v2/team/shop/manifests/1.0.0 200")

	for revision, want := range map[string]string{
		"":                         "1.1.0+build.7@sha256:" + two,
		"~1.1":                     "1.1.0+build.7@sha256:" + two,
		"1.1.0+build.7":            "1.1.0+build.7@sha256:" + two,
		"<1.1":                     "1.0.0@sha256:" + one,
		"latest":                   "latest@sha256:" + moving,
		"sha256:" + one:            "1.0.0@sha256:" + one, // the manifest says so
		"1.0.0@sha256:" + one:      "1.0.0@sha256:" + one,
		"sha256:" + moving:         "sha256:" + moving,
		">=2.0.0-0":                "",
		"1.1.0_build.7":            "1.1.0_build.7@sha256:" + two,
		"9.9.9@sha256:" + two[:60]: "",
	} {
		rev, err := r.ResolveChart(t.Context(), c, plain, revision, 0)
		switch {
		case revision == ">=2.0.0-0":
			if !strings.HasPrefix(rev.Commit, "2.0.0-rc.1@") {
				t.Errorf("a prerelease that is asked for: %q, %v", rev.Commit, err)
			}
		case want == "" && err == nil:
			t.Errorf("%s = %s, want an error", revision, rev.Commit)
		case want != "" && (err != nil || rev.Commit != want):
			t.Errorf("%s = %s, %v, want %s", revision, rev.Commit, err, want)
		}
	}
	if got, err := valueOf(t, r, c, "1.1.0+build.7@sha256:"+two, Helm{}); got != "two" || err != nil {
		t.Errorf("rendered %q, %v", got, err)
	}

	// What is named by its digest is not asked for again; a tag that moves is followed.
	s.Requests()
	resolvedChart(t, r, c, plain, "1.0.0@sha256:"+one)
	asked(t, s)
	anew := s.Push("shop", "1.0.0", shopChart("1.0.0", "one again"))
	if got := resolvedChart(t, r, c, plain, "1.0.0"); got != "1.0.0@sha256:"+anew {
		t.Errorf("pushed anew: %s, want %s", got, anew)
	}
	if got := resolvedChart(t, NewRepositories(t.TempDir(), RepositoriesOptions{}), c, plain, "1.0.0@sha256:"+one); got != "1.0.0@sha256:"+one {
		t.Errorf("pinned to the one before: %s", got)
	}
}

func TestTagsArePaged(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	archive := shopChart("1.0.0", "one")
	for i := range 7 {
		s.Push("shop", fmt.Sprintf("1.0.%d", i), archive)
	}
	s.PageTags(3)
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	c := Chart{Repository: s.OCIURL(), Name: "shop"}
	if got := resolvedChart(t, r, c, plain, "1.x"); !strings.HasPrefix(got, "1.0.6@") {
		t.Errorf("the highest of three pages: %s", got)
	}
	if _, err := r.ResolveChart(t.Context(), c, plain, "2.0.0", 0); !strings.Contains(fmt.Sprint(err), "there is no version 2.0.0: it has 1.0.6, 1.0.5") {
		t.Errorf("what is not there: %v", err)
	}
	// Tags that nobody can ask for take no memory: of 100 pages it would be 400 MiB.
	s.Intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasSuffix(req.URL.Path, "/tags/list") {
				fmt.Fprintf(w, `{"tags":["9.9.9-%s","1.0.3"]}`, strings.Repeat("x", 200))
				return
			}
			next.ServeHTTP(w, req)
		})
	})
	if got := resolvedChart(t, r, c, plain, "1.x"); !strings.HasPrefix(got, "1.0.3@") {
		t.Errorf("beside a tag that is too long: %s", got)
	}
	if _, err := r.ResolveChart(t.Context(), c, plain, "2.0.0", 0); !strings.Contains(fmt.Sprint(err), "it has 1.0.3") || strings.Contains(err.Error(), "9.9.9") {
		t.Errorf("what is not there, beside a tag that is too long: %v", err)
	}
	// A registry whose list has no end.
	s.Intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasSuffix(req.URL.Path, "/tags/list") {
				w.Header().Set("Link", `</v2/team/shop/tags/list?last=x>; rel="next"`)
				fmt.Fprint(w, `{"tags":["1.0.0"]}`)
				return
			}
			next.ServeHTTP(w, req)
		})
	})
	s.Requests()
	if _, err := r.ResolveChart(t.Context(), c, plain, "1.x", 0); !strings.Contains(fmt.Sprint(err), "exceeded 100 pages") {
		t.Errorf("a list without end: %v", err)
	}
	if n := len(s.Requests()); n != 100 {
		t.Errorf("%d requests", n)
	}
}

func TestARegistrysTokenIsKept(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{Username: "ada", Password: "pw"})
	s.Push("shop", "1.0.0", shopChart("1.0.0", "one"))
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	c, auth := Chart{Repository: s.OCIURL(), Name: "shop"}, Auth{PlainHTTP: true, Username: "ada", Password: "pw"}
	resolvedChart(t, r, c, auth, "1.0.0")
	s.Requests()
	resolvedChart(t, r, c, auth, "1.0.0")
	asked(t, s, "HEAD /v2/team/shop/manifests/1.0.0 200")
}

func TestARegistryThatLies(t *testing.T) {
	archive := shopChart("1.0.0", "one")
	other := chartserver.New(t, chartserver.Options{})
	for name, c := range map[string]struct {
		path   string
		answer func(w http.ResponseWriter, req *http.Request, next http.Handler)
		want   string
	}{
		"another blob": {"/blobs/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			evil := append([]byte(nil), archive...)
			evil[len(evil)-1]++
			_, _ = w.Write(evil)
		}, "digest mismatch: it is to have sha256:" + chartserver.Digest(archive)},
		"another manifest": {"/manifests/sha256:", func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			tampered := &replacing{ResponseWriter: w, old: "1.0.0", new: "6.6.6"}
			next.ServeHTTP(tampered, req)
		}, "the registry sends another manifest than sha256:"},
		"a realm over http": {"/manifests/1.0.0", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+other.URL()+`",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}, "uses http but registry was contacted over https"},
		"a redirect to http": {"/blobs/", func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
			http.Redirect(w, req, other.URL()+"/x", http.StatusFound)
		}, "the server redirects from https to http"},
		"a redirect to an inner address": {"/blobs/", func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
			http.Redirect(w, req, "https://169.254.169.254/x?signature=hush", http.StatusFound)
		}, "which no server is to have that is not named by it"},
		"a redirect to what is shorter": {"/", func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			switch {
			case strings.Contains(req.URL.Path, "/blobs/"):
				http.Redirect(w, req, "/storage/x?signature=hush", http.StatusFound)
			case strings.Contains(req.URL.Path, "/storage/"):
				_, _ = w.Write([]byte("short"))
			default:
				next.ServeHTTP(w, req)
			}
		}, "/storage/x\": mismatch Content-Length"},
		"a type without end": {"/manifests/sha256:", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", "application/"+strings.Repeat("x", 100_000))
			_, _ = w.Write([]byte("{}"))
		}, "mismatch response Content-Type"},
	} {
		t.Run(name, func(t *testing.T) {
			s := chartserver.New(t, chartserver.Options{TLS: true})
			s.Push("shop", "1.0.0", archive)
			s.Intercept(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if strings.Contains(req.URL.Path, c.path) {
						c.answer(w, req, next)
						return
					}
					next.ServeHTTP(w, req)
				})
			})
			r := NewRepositories(t.TempDir(), RepositoriesOptions{})
			_, err := r.ResolveChart(t.Context(), Chart{Repository: s.OCIURL(), Name: "shop"}, Auth{CA: s.CA(), Username: "ada", Password: "pw"}, "1.0.0", 0)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") || len(err.Error()) > 2500 {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if logins := other.Logins(); len(logins) > 0 {
				t.Errorf("the other server was shown %q", logins)
			}
		})
	}
}

// replacing replaces a text in what is answered by one that is as long.
type replacing struct {
	http.ResponseWriter
	old, new string
}

func (r *replacing) Write(b []byte) (int, error) {
	return r.ResponseWriter.Write([]byte(strings.ReplaceAll(string(b), r.old, r.new)))
}

// TestARegistryThatRedirects has its blobs on another server, as most registries in clouds do.
func TestARegistryThatRedirects(t *testing.T) {
	storage := chartserver.New(t, chartserver.Options{TLS: true})
	s := chartserver.New(t, chartserver.Options{TLS: true, Username: "ada", Password: "pw"})
	archive := shopChart("1.0.0", "one")
	storage.Publish("shop", "1.0.0", archive)
	digest := s.Push("shop", "1.0.0", archive)
	s.Intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.Contains(req.URL.Path, "/blobs/") {
				http.Redirect(w, req, storage.URL()+"/shop-1.0.0.tgz?signature=hush", http.StatusTemporaryRedirect)
				return
			}
			next.ServeHTTP(w, req)
		})
	})
	auth := Auth{CA: s.CA(), Username: "ada", Password: "pw"}
	c := Chart{Repository: s.OCIURL(), Name: "shop"}
	if got := resolvedChart(t, NewRepositories(t.TempDir(), RepositoriesOptions{}), c, auth, "1.0.0"); got != "1.0.0@sha256:"+digest {
		t.Errorf("got %s", got)
	}
	if logins := storage.Logins(); len(logins) > 0 {
		t.Errorf("the storage was shown %q", logins)
	}
	storage.Intercept(func(http.Handler) http.Handler { return http.NotFoundHandler() })
	_, err := NewRepositories(t.TempDir(), RepositoriesOptions{}).ResolveChart(t.Context(), c, auth, "1.0.0", 0)
	if err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("a blob that is gone: %v", err)
	}
	storage.Intercept(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	})
	_, err = NewRepositories(t.TempDir(), RepositoriesOptions{}).ResolveChart(t.Context(), c, auth, "1.0.0", 0)
	if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "503 Service Unavailable") {
		t.Errorf("storage that is broken: %v", err)
	}
}

func TestWhatIsInARegistryAndNoChart(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	s.Push("image", "1.0.0", []byte("x"), "application/vnd.oci.image.layer.v1.tar+gzip")
	s.Push("old", "1.0.0", shopChart("1.0.0", "one"), "application/tar+gzip")
	s.Push("large", "1.0.0", make([]byte, 21<<20))
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	for name, want := range map[string]string{
		"image":   `it is no chart: the manifest is a "application/vnd.oci.image.manifest.v1+json" with layers "application/vnd.oci.image.layer.v1.tar+gzip"`,
		"old":     "",
		"large":   "the archive has 21 MiB, more than the 20 MiB that one may have",
		"missing": "revision not found: the registry has no such chart or version",
		"UPPER":   "are no name of a repository in a registry",
	} {
		_, err := r.ResolveChart(t.Context(), Chart{Repository: s.OCIURL(), Name: name}, plain, "1.0.0", 0)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

// TestAnIndexOfWhatIsInARegistry has URLs with oci:// in an index, as some large repositories do.
func TestAnIndexOfWhatIsInARegistry(t *testing.T) {
	registry := chartserver.New(t, chartserver.Options{TLS: true})
	archive := shopChart("1.0.0", "one")
	registry.Push("shop", "1.0.0", archive)
	s := chartserver.New(t, chartserver.Options{})
	inRegistry := func(e *chartserver.Entry) { e.URLs = []string{registry.OCIURL() + "/shop:1.0.0"} }
	digest := s.Publish("shop", "1.0.0", archive, inRegistry)
	s.Publish("shop", "2.0.0", shopChart("2.0.0", "two"), inRegistry)
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	c := Chart{Repository: s.URL(), Name: "shop"}
	auth := Auth{CA: registry.CA(), Username: "ada", Password: "pw"}
	got := resolvedChart(t, r, c, auth, "1.0.0")
	if got != "1.0.0@sha256:"+digest {
		t.Errorf("got %s", got)
	}
	if value, err := valueOf(t, r, c, got, Helm{}); value != "one" || err != nil {
		t.Errorf("rendered %q, %v", value, err)
	}
	if logins := registry.Logins(); len(logins) > 0 {
		t.Errorf("the registry was shown %q", logins)
	}
	if _, err := r.ResolveChart(t.Context(), c, auth, "2.0.0", time.Hour); err == nil || !strings.Contains(err.Error(), "and the registry has sha256:"+digest) {
		t.Errorf("another archive than the index says: %v", err)
	}
}

func TestARegistryNeedsNoDigestInItsHeaders(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	digest := s.Push("shop", "1.0.0", shopChart("1.0.0", "one"))
	s.Intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			next.ServeHTTP(&headerless{w}, req)
		})
	})
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	if got := resolvedChart(t, r, Chart{Repository: s.OCIURL(), Name: "shop"}, plain, "1.0.0"); got != "1.0.0@sha256:"+digest {
		t.Errorf("got %s", got)
	}
	if _, err := r.ChartTree(t.Context(), Chart{Repository: s.OCIURL(), Name: "shop"}, "1.0.0@sha256:"+strings.Repeat("0", 64)); !errors.Is(err, ErrNotFetched) {
		t.Errorf("what was never fetched: %v", err)
	}
}

// headerless does not name the digest of what it answers.
type headerless struct{ http.ResponseWriter }

func (h *headerless) WriteHeader(status int) {
	h.Header().Del("Docker-Content-Digest")
	h.ResponseWriter.WriteHeader(status)
}
