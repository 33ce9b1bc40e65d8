package source

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/trueup/trueup/source/internal/chart"
	"github.com/trueup/trueup/testdata/chartserver"
)

// shopChart is the archive of a chart with one object, whose value is what value says.
func shopChart(version, value string) []byte {
	return chartserver.Archive(map[string]string{
		"shop/Chart.yaml":              "apiVersion: v2\nname: shop\nversion: " + version + "\n",
		"shop/values.yaml":             "value: " + value + "\n",
		"shop/values-prod.yaml":        "value: " + value + "-prod\n",
		"shop/templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {value: {{ .Values.value | quote }}}\n",
	})
}

// resolvedChart resolves a chart and returns what it stands for.
func resolvedChart(t *testing.T, r *Repositories, c Chart, auth Auth, revision string) string {
	t.Helper()
	rev, err := r.ResolveChart(t.Context(), c, auth, revision, 0)
	if err != nil {
		t.Fatal(err)
	}
	return rev.Commit
}

// valueOf renders a chart from the cache and returns the value of its object.
func valueOf(t *testing.T, r *Repositories, c Chart, revision string, opts Helm) (string, error) {
	t.Helper()
	tree, err := r.ChartTree(t.Context(), c, revision)
	if err != nil {
		return "", err
	}
	rendered, err := Render(t.Context(), tree, "", Options{Helm: opts})
	if err != nil {
		return "", err
	}
	for _, o := range rendered.Objects {
		return fmt.Sprint(o.Object["data"].(map[string]any)["value"]), nil
	}
	return "", errors.New("nothing was rendered")
}

func asked(t *testing.T, s *chartserver.Server, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestChartsFromARepository(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	one := s.Publish("shop", "1.0.0", shopChart("1.0.0", "one"))
	two := s.Publish("shop", "1.1.0", shopChart("1.1.0", "two"))
	s.Publish("shop", "2.0.0-rc.1", shopChart("2.0.0-rc.1", "rc"))
	s.Publish("bakery", "9.0.0", shopChart("9.0.0", "bread"))
	c := Chart{Repository: s.URL(), Name: "shop"}
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})

	got := resolvedChart(t, r, c, Auth{}, "")
	if want := "1.1.0@sha256:" + two; got != want {
		t.Fatalf("the newest = %s, want %s", got, want)
	}
	asked(t, s, "GET /charts/index.yaml 200", "GET /charts/shop-1.1.0.tgz 200")
	for name, want := range map[string]string{"": "two", "values-prod.yaml": "two-prod", "/values-prod.yaml": "two-prod"} {
		opts := Helm{}
		if name != "" {
			opts.ValueFiles = []string{name}
		}
		if value, err := valueOf(t, r, c, got, opts); value != want || err != nil {
			t.Errorf("with the values %q: %q, %v, want %q", name, value, err, want)
		}
	}
	if _, err := valueOf(t, r, c, got, Helm{ValueFiles: []string{"../x.yaml"}}); err == nil || !strings.Contains(err.Error(), "leaves the") {
		t.Errorf("a value file outside of the chart: %v", err)
	}

	// A look that finds nothing new asks for the index alone, and gets none; two within maxAge ask once.
	resolvedChart(t, r, c, Auth{}, "")
	asked(t, s, "GET /charts/index.yaml 304")
	if _, err := r.ResolveChart(t.Context(), c, Auth{}, "", time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ResolveChart(t.Context(), Chart{Repository: s.URL(), Name: "bakery"}, Auth{}, "", time.Hour); err != nil {
		t.Fatal(err)
	}
	asked(t, s, "GET /charts/bakery-9.0.0.tgz 200")

	// What is named by its digest is not asked for again.
	for _, revision := range []string{"~1.0", "1.0.0"} {
		if got := resolvedChart(t, r, c, Auth{}, revision); got != "1.0.0@sha256:"+one {
			t.Errorf("%s = %s", revision, got)
		}
	}
	s.Requests()
	for range 2 {
		if again := resolvedChart(t, r, c, Auth{}, "1.0.0@sha256:"+one); again != "1.0.0@sha256:"+one {
			t.Errorf("pinned: %s", again)
		}
	}
	asked(t, s, "GET /charts/index.yaml 304")

	// A version that is published anew is followed, and one that is pinned is not.
	anew := s.Publish("shop", "1.1.0", shopChart("1.1.0", "two again"))
	if got := resolvedChart(t, r, c, Auth{}, "1.x"); got != "1.1.0@sha256:"+anew {
		t.Errorf("published anew: %s, want %s", got, anew)
	}
	fresh := NewRepositories(t.TempDir(), RepositoriesOptions{})
	_, err := fresh.ResolveChart(t.Context(), c, Auth{}, "1.1.0@sha256:"+two, 0)
	if !errors.Is(err, ErrRevision) || !strings.Contains(err.Error(), "it was published anew") {
		t.Errorf("pinned to what is gone: %v", err)
	}
}

func TestChartsThatAreNotThere(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	s.Publish("shop", "1.0.0", shopChart("1.0.0", "one"))
	s.Publish("shop", "1.2.0", shopChart("1.2.0", "two"), func(e *chartserver.Entry) { e.Digest = strings.Repeat("ab", 32) })
	s.Publish("shop", "1.3.0", shopChart("1.3.0", "three"), func(e *chartserver.Entry) { e.URLs = []string{"gone.tgz"} })
	s.Publish("shop", "1.4.0", shopChart("1.4.0", "three"), func(e *chartserver.Entry) { e.URLs = nil })
	s.Publish("shop", "1.5.0", shopChart("1.5.0", "three"), func(e *chartserver.Entry) { e.URLs = []string{"file:///etc/passwd"} })
	s.Publish("shop", "1.6.0", make([]byte, 21<<20))
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	for name, c := range map[string]struct {
		chart    Chart
		revision string
		want     string
	}{
		"another chart":        {Chart{s.URL(), "shopp", false}, "", "revision not found: the repository has no such chart: it has shop"},
		"another version":      {Chart{s.URL(), "shop", false}, "^2", "there is no version ^2: it has 1.6.0, 1.5.0, 1.4.0, 1.3.0, 1.2.0, 1.0.0"},
		"no version":           {Chart{s.URL(), "shop", false}, "main", `there is no version "main", and it is no range of versions: it has 1.6.0`},
		"a digest alone":       {Chart{s.URL(), "shop", false}, "sha256:" + strings.Repeat("a", 64), "only a registry finds a chart by its digest alone"},
		"another digest":       {Chart{s.URL(), "shop", false}, "1.2.0", "digest mismatch: it is to have sha256:abababab"},
		"a missing archive":    {Chart{s.URL(), "shop", false}, "1.3.0", "the server answers 404 Not Found for " + s.URL() + "/gone.tgz"},
		"no URL":               {Chart{s.URL(), "shop", false}, "1.4.0", "the index has no URL for version 1.4.0"},
		"a file's URL":         {Chart{s.URL(), "shop", false}, "1.5.0", `the index has a URL for version 1.5.0 that is not fetched, with the scheme "file"`},
		"a large archive":      {Chart{s.URL(), "shop", false}, "1.6.0", "/shop-1.6.0.tgz: it has more than 20 MiB"},
		"no repository":        {Chart{s.URL() + "/no?token=hush", "shop", false}, "", "the server answers 404 Not Found for " + s.URL() + "/no/index.yaml"},
		"no server":            {Chart{"http://127.0.0.1:1/charts", "shop", false}, "", "127.0.0.1:1 cannot be reached"},
		"no host":              {Chart{"https://", "shop", false}, "", "has no host"},
		"a scheme of another":  {Chart{"s3://bucket/charts", "shop", false}, "", "scheme s3 is not supported: use https, http or oci"},
		"a name that is a way": {Chart{s.URL(), "../shop", false}, "", `"../shop" is no name of a chart`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.ResolveChart(t.Context(), c.chart, Auth{}, c.revision, 0)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	// The others are not hurt, and nothing is left of what was not taken.
	if got := resolvedChart(t, r, Chart{s.URL(), "shop", false}, Auth{}, "1.0.0"); !strings.HasPrefix(got, "1.0.0@") {
		t.Error(got)
	}
	_ = filepath.WalkDir(filepath.Join(r.dir, chartsFolder), func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), "tmp-") {
			t.Errorf("%s is left", path)
		}
		return err
	})
}

func TestAnIndexWithoutDigests(t *testing.T) {
	without := func(e *chartserver.Entry) { e.Digest = "" }
	for name, opts := range map[string]chartserver.Options{"with ETags": {}, "without ETags": {NoETag: true}} {
		t.Run(name, func(t *testing.T) {
			s := chartserver.New(t, opts)
			first := s.Publish("shop", "1.0.0", shopChart("1.0.0", "one"), without)
			c := Chart{Repository: s.URL(), Name: "shop"}
			r := NewRepositories(t.TempDir(), RepositoriesOptions{})
			if got := resolvedChart(t, r, c, Auth{}, "1.0.0"); got != "1.0.0@sha256:"+first {
				t.Errorf("got %s", got)
			}
			s.Requests()
			resolvedChart(t, r, c, Auth{}, "1.0.0")
			want := []string{"GET /charts/index.yaml 304", "GET /charts/shop-1.0.0.tgz 304"}
			if opts.NoETag {
				want = []string{"GET /charts/index.yaml 200"}
			}
			asked(t, s, want...)
			second := s.Publish("shop", "1.0.0", shopChart("1.0.0", "one again"), without, func(e *chartserver.Entry) { e.Created = "2026-02-03T04:05:06Z" })
			if got := resolvedChart(t, r, c, Auth{}, "1.0.0"); got != "1.0.0@sha256:"+second {
				t.Errorf("published anew: %s, want %s", got, second)
			}
		})
	}
}

func TestChartRepositoriesThatAskForCredentials(t *testing.T) {
	const secret = "s3cr3t-value"
	s := chartserver.New(t, chartserver.Options{TLS: true, Username: "ada", Password: secret})
	s.Publish("shop", "1.0.0", shopChart("1.0.0", "one"))
	s.Push("shop", "1.0.0", shopChart("1.0.0", "one"))
	ca := s.CA()
	inURL := strings.Replace(s.URL(), "://", "://ada:"+secret+"@", 1)
	for name, c := range map[string]struct {
		repository string
		auth       Auth
		want       string
		is         error
	}{
		"basic":                {repository: s.URL(), auth: Auth{CA: ca, Username: "ada", Password: secret}},
		"basic in the URL":     {repository: inURL, auth: Auth{CA: ca}},
		"none":                 {repository: s.URL(), auth: Auth{CA: ca}, want: "set the Secret's keys username and password", is: ErrAuthentication},
		"wrong":                {repository: s.URL(), auth: Auth{CA: ca, Username: "ada", Password: secret + "!"}, want: "the server does not take the Secret's keys username and password", is: ErrAuthentication},
		"an unknown CA":        {repository: s.URL(), auth: Auth{Username: "ada", Password: secret}, want: "add its CA to the Secret's key ca.crt"},
		"registry":             {repository: s.OCIURL(), auth: Auth{CA: ca, Username: "ada", Password: secret}},
		"registry, no scheme":  {repository: strings.TrimPrefix(s.OCIURL(), "oci://"), auth: Auth{CA: ca, Username: "ada", Password: secret}},
		"registry, none":       {repository: s.OCIURL(), auth: Auth{CA: ca}, want: "set the Secret's keys username and password", is: ErrAuthentication},
		"registry, wrong":      {repository: s.OCIURL(), auth: Auth{CA: ca, Username: "ada", Password: secret + "!"}, want: "the server does not take the Secret's keys username and password", is: ErrAuthentication},
		"registry, unknown CA": {repository: s.OCIURL(), auth: Auth{Username: "ada", Password: secret}, want: "add its CA to the Secret's key ca.crt"},
		"registry over http":   {repository: s.OCIURL(), auth: Auth{PlainHTTP: true, Username: "ada", Password: secret}, want: "the registry answers 400"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRepositories(t.TempDir(), RepositoriesOptions{})
			_, err := r.ResolveChart(t.Context(), Chart{Repository: c.repository, Name: "shop"}, c.auth, "1.0.0", 0)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			case c.is != nil && !errors.Is(err, c.is):
				t.Errorf("got %v, want one that is %q", err, c.is)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
	// Nobody learns from the cache what the server would not tell them, also where they know the digest.
	other := chartserver.New(t, chartserver.Options{})
	for _, repository := range []string{s.URL(), s.OCIURL()} {
		c := Chart{Repository: repository, Name: "shop"}
		r := NewRepositories(t.TempDir(), RepositoriesOptions{})
		rev := resolvedChart(t, r, c, Auth{CA: ca, Username: "ada", Password: secret}, "1.0.0")
		if _, err := r.ResolveChart(t.Context(), c, Auth{CA: ca}, rev, time.Hour); !errors.Is(err, ErrAuthentication) {
			t.Errorf("%s of %s without credentials: %v", rev, repository, err)
		}
		// Nor do they when a server of theirs says that it has it.
		other.Publish("stolen", "1.0.0", []byte("x"), func(e *chartserver.Entry) { e.Digest = chartserver.Digest(shopChart("1.0.0", "one")) })
		if rev, err := r.ResolveChart(t.Context(), Chart{Repository: other.URL(), Name: "stolen"}, Auth{}, "1.0.0", 0); !errors.Is(err, chart.ErrDigest) {
			t.Errorf("an index of somebody else with that digest: %v, %v", rev, err)
		}
	}
}

func TestChartsOnOtherServers(t *testing.T) {
	other := chartserver.New(t, chartserver.Options{Username: "ada", Password: "pw"})
	open := chartserver.New(t, chartserver.Options{})
	archive := shopChart("1.0.0", "one")
	s := chartserver.New(t, chartserver.Options{Username: "ada", Password: "pw"})
	for version, server := range map[string]*chartserver.Server{"1.0.0": other, "2.0.0": open} {
		server.Publish("shop", "1.0.0", archive)
		s.Publish("shop", version, archive, func(e *chartserver.Entry) { e.URLs = []string{server.URL() + "/shop-1.0.0.tgz"} })
	}
	open.Push("shop", "3.0.0", archive)
	s.Publish("shop", "4.0.0", archive, func(e *chartserver.Entry) { e.URLs = []string{"http://169.254.169.254/latest/shop.tgz"} })
	s.Publish("shop", "5.0.0", archive, func(e *chartserver.Entry) {
		e.URLs = []string{strings.Replace(open.URL(), "127.0.0.1", "localhost", 1) + "/shop-1.0.0.tgz"}
	})
	auth := Auth{Username: "ada", Password: "pw"}
	resolve := func(version string, pass bool) error {
		_, err := NewRepositories(t.TempDir(), RepositoriesOptions{}).ResolveChart(t.Context(), Chart{s.URL(), "shop", pass}, auth, version, 0)
		return err
	}
	if err := resolve("1.0.0", false); !errors.Is(err, ErrAuthentication) || !strings.Contains(err.Error(), "helm.passCredentials") {
		t.Errorf("without passCredentials: %v", err)
	}
	if err := resolve("2.0.0", false); err != nil || len(open.Logins()) > 0 || len(other.Logins()) > 0 {
		t.Errorf("%v, logins %q and %q", err, open.Logins(), other.Logins())
	}
	if err := resolve("1.0.0", true); err != nil || len(other.Logins()) != 1 {
		t.Errorf("with passCredentials: %v, logins %q", err, other.Logins())
	}
	for _, version := range []string{"4.0.0", "5.0.0"} {
		if err := resolve(version, false); err == nil || !strings.Contains(err.Error(), "which no server is to have that is not named by it") {
			t.Errorf("an inner address: %v", err)
		}
	}

	// A redirect to another server gets nothing either.
	s.Intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasSuffix(req.URL.Path, ".tgz") {
				http.Redirect(w, req, open.URL()+"/shop-1.0.0.tgz", http.StatusFound)
				return
			}
			next.ServeHTTP(w, req)
		})
	})
	s.Publish("shop", "6.0.0", archive)
	if err := resolve("6.0.0", true); err != nil || len(open.Logins()) > 0 {
		t.Errorf("redirected: %v, logins %q", err, open.Logins())
	}
}

func TestABadArchiveNamesChartAndEntry(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	s.Publish("shop", "1.0.0", chartserver.Archive(map[string]string{"shop/Chart.yaml": "name: shop", "shop/../../x": "y"}))
	s.Publish("shop", "2.0.0", chartserver.Archive(map[string]string{"shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 2.0.0\ndependencies: [{name: redis, version: 1.x, repository: https://example.com}]\n"}))
	// What makes a folder of a repository a kustomization is any file in a chart.
	s.Publish("shop", "3.0.0", chartserver.Archive(map[string]string{"shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 3.0.0\n", "shop/kustomization.yaml": "resources: [x.yaml]\n",
		"shop/templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {value: three}\n"}))
	c := Chart{Repository: s.URL(), Name: "shop"}
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	for version, want := range map[string]string{
		"1.0.0": `unpacking chart shop 1.0.0@sha256:`, "2.0.0": "the dependencies redis 1.x from https://example.com are not in charts/: the chart was packaged without them",
	} {
		_, err := valueOf(t, r, c, resolvedChart(t, r, c, Auth{}, version), Helm{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", version, err, want)
		}
		if version == "1.0.0" && (err == nil || !strings.Contains(err.Error(), `its entry "shop/../../x" leaves the chart's folder`)) {
			t.Errorf("%s: got %v", version, err)
		}
	}
	if got, err := valueOf(t, r, c, resolvedChart(t, r, c, Auth{}, "3.0.0"), Helm{}); got != "three" || err != nil {
		t.Errorf("a chart with a kustomization in it: %q, %v", got, err)
	}
}

func TestAChartWithValuesOfAnotherSource(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	s.Publish("shop", "1.0.0", shopChart("1.0.0", "one"))
	c := Chart{Repository: s.URL(), Name: "shop"}
	r := NewRepositories(t.TempDir(), RepositoriesOptions{})
	tree, err := r.ChartTree(t.Context(), c, resolvedChart(t, r, c, Auth{}, ""))
	if err != nil {
		t.Fatal(err)
	}
	values := func(commit, content string) *Tree {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "prod.yaml"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		tree, closer, err := OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closer.Close() })
		tree.repository, tree.name = "https://git.example.com/values", commit
		return tree
	}
	view := tree.WithRefs(map[string]*Tree{"values": values("a", "value: mine\n")})
	rendered, err := Render(t.Context(), view, "", Options{Helm: Helm{ValueFiles: []string{"$values/prod.yaml"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := rendered.Objects[0].Object["data"].(map[string]any)["value"]; got != "mine" || rendered.Objects[0].File != "shop/templates/settings.yaml" {
		t.Errorf("%v in %s", got, rendered.Objects[0].File)
	}
	if !slices.ContainsFunc(rendered.Inputs, func(in Input) bool { return in.Path == "$values/prod.yaml" && in.Kind == InputFile }) {
		t.Errorf("the inputs are %v", rendered.Inputs)
	}
	// A commit to the other source that changes none of it needs no archive to be unpacked.
	footprint := NewFootprint(view, rendered.Inputs)
	unopened, err := r.ChartTree(t.Context(), c, tree.Commit())
	if err != nil {
		t.Fatal(err)
	}
	files := unopened.files.(archiveFiles)
	files.load = nil // it would panic
	unopened.files = files
	for content, want := range map[string]bool{"value: mine\n": true, "value: other\n": false} {
		next := unopened.WithRefs(map[string]*Tree{"values": values("b", content)})
		if got := footprint.Holds(t.Context(), next); got != want {
			t.Errorf("with %q it holds: %t, want %t", content, got, want)
		}
	}
}

// A panic while a server's answer is read is the end of that question, not of the process: others go on.
func TestAPanicOverAnAnswerIsAnError(t *testing.T) {
	s := chartserver.New(t, chartserver.Options{})
	s.Publish("shop", "1.0.0", shopChart("1.0.0", "one"))
	c, panics := Chart{Repository: s.URL(), Name: "shop"}, true
	r := NewRepositories(t.TempDir(), RepositoriesOptions{OnFetch: func(string, time.Duration, error) {
		if panics {
			panic("out of range")
		}
	}})
	if _, err := r.ResolveChart(t.Context(), c, Auth{}, "", 0); err == nil || !strings.Contains(err.Error(), "what the server answers makes the agent panic: out of range") {
		t.Errorf("got %v", err)
	}
	panics = false
	resolvedChart(t, r, c, Auth{}, "")
}
