package source

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/trueup/trueup/testdata/gitserver"
)

// world is a repository over HTTPS that others name, and a server of files.
type remoteWorld struct {
	git   *gitserver.Repository
	files *httptest.Server
	gets  atomic.Int32
	repos *Repositories
}

func newRemoteWorld(t *testing.T, content map[string]string) *remoteWorld {
	t.Helper()
	w := &remoteWorld{git: gitserver.New(t, t.TempDir(), gitserver.Options{TLS: true})}
	t.Cleanup(w.git.Stop)
	w.files = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.gets.Add(1)
		switch path := r.URL.Path; {
		case path == "/files/away.yaml":
			http.Redirect(rw, r, "https://127.0.0.2:1/x.yaml", http.StatusFound)
		case path == "/files/inside.yaml":
			http.Redirect(rw, r, "/files/cm.yaml", http.StatusFound)
		case path == "/files/climbs.yaml":
			http.Redirect(rw, r, "/private/cm.yaml", http.StatusFound)
		case path == "/files/large.yaml":
			_, _ = rw.Write(bytes.Repeat([]byte("# large\n"), maxFileBytes/8+1))
		case path == "/files/stalls.yaml":
			<-r.Context().Done()
		case content[path] != "":
			etag := fmt.Sprintf("%q", contentHash(entry{}, []byte(content[path])))
			rw.Header().Set("Etag", etag)
			if r.Header.Get("If-None-Match") == etag {
				rw.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(rw, content[path])
		default:
			http.NotFound(rw, r)
		}
	}))
	t.Cleanup(w.files.Close)
	allowed, err := NewAllowedRemotes([]string{strings.TrimSuffix(w.git.URL(), ".git"), w.files.URL + "/files"})
	if err != nil {
		t.Fatal(err)
	}
	w.repos = NewRepositories(t.TempDir(), RepositoriesOptions{Remotes: allowed, Timeout: 5 * time.Second})
	return w
}

// remotes are what one look finds.
func (w *remoteWorld) remotes() *Remotes {
	files := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.files.Certificate().Raw})
	return w.repos.Remotes(func(context.Context, string) (Auth, error) {
		return Auth{CA: append(append([]byte{}, w.git.CA()...), files...)}, nil
	}, 0)
}

// named puts the URLs of the servers into files.
func (w *remoteWorld) named(files map[string]string) map[string]string {
	out := map[string]string{}
	for name, content := range files {
		out[name] = strings.NewReplacer("GIT", strings.TrimSuffix(w.git.URL(), ".git"), "FILES", w.files.URL+"/files").Replace(content)
	}
	return out
}

var remoteBase = map[string]string{
	"base/kustomization.yaml":      "resources: [deployment.yaml, ../common]\ncomponents: [../component]\nconfigMapGenerator: [{name: gen, files: [config.txt]}]\n",
	"base/deployment.yaml":         deployment("web"),
	"base/config.txt":              "text",
	"common/kustomization.yaml":    "resources: [cm.yaml]\n",
	"common/cm.yaml":               configMap("common", "1"),
	"component/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nlabels: [{pairs: {component: yes-it-is}}]\n",
}

// What is named by URL renders to what kustomize makes of a copy of it.
func TestRemoteBasesRenderAsLocalCopiesDo(t *testing.T) {
	content := map[string]string{"/files/cm.yaml": configMap("from-url", "1"), "/files/patch.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 7}\n", "/files/values.env": "A=1\nB=2\n"}
	w := newRemoteWorld(t, content)
	w.git.Commit(remoteBase, "first")
	const overlay = `
namePrefix: eu-
resources: ["%s", "%s", local.yaml]
patches: [{path: "%s"}]
configMapGenerator:
- name: values
  envs: ["%s"]
  files: ["%s", "renamed=%s"]
`
	tree := commitTree(t, w.named(map[string]string{
		"app/kustomization.yaml": fmt.Sprintf(overlay, "GIT//base?ref=main", "FILES/cm.yaml", "FILES/patch.yaml", "FILES/values.env", "FILES/values.env", "FILES/cm.yaml"),
		"app/local.yaml":         configMap("local", "1"),
	})).WithRemotes(w.remotes())
	got, err := Render(t.Context(), tree, "app", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ours bytes.Buffer
	if err := WriteYAML(&ours, got.Objects); err != nil {
		t.Fatal(err)
	}

	memory := filesys.MakeFsInMemory()
	local := map[string]string{
		"app/kustomization.yaml": fmt.Sprintf(overlay, "../remote/base", "cm.yaml", "patch.yaml", "values.env", "values.env", "cm.yaml"),
		"app/local.yaml":         configMap("local", "1"),
	}
	for name, c := range remoteBase {
		local["remote/"+name] = c
	}
	for name, c := range content {
		local["app/"+strings.TrimPrefix(name, "/files/")] = c
	}
	for name, c := range local {
		if err := memory.WriteFile("/"+name, []byte(c)); err != nil {
			t.Fatal(err)
		}
	}
	opts := krusty.MakeDefaultOptions()
	opts.Reorder = krusty.ReorderOptionUnspecified
	m, err := krusty.MakeKustomizer(opts).Run(memory, "/app")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := m.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(theirs), ours.String()); d != "" {
		t.Errorf("-kustomize +trueup:\n%s", d)
	}
	var remotes []string
	for _, in := range got.Inputs {
		if in.Kind == InputRemote {
			remotes = append(remotes, in.Path)
		}
	}
	if len(remotes) != 4 {
		t.Errorf("remote inputs: %v", remotes)
	}
}

func TestARemoteBaseOverSSH(t *testing.T) {
	repo, other := gitserver.New(t, t.TempDir(), gitserver.Options{SSH: true}), gitserver.New(t, t.TempDir(), gitserver.Options{SSH: true})
	t.Cleanup(repo.Stop)
	t.Cleanup(other.Stop)
	repo.Commit(remoteBase, "first")
	allowed, err := NewAllowedRemotes([]string{repo.SSHURL()})
	if err != nil {
		t.Fatal(err)
	}
	tree := commitTree(t, map[string]string{"app/kustomization.yaml": "resources: [\"" + repo.SSHURL() + "//base?ref=main\"]\n"})
	for name, want := range map[string]string{"its own": "", "another": "is not in known_hosts"} {
		auth := Auth{Identity: repo.Identity(), KnownHosts: repo.KnownHosts()}
		if want != "" {
			auth.KnownHosts = other.KnownHosts()
		}
		remotes := NewRepositories(t.TempDir(), RepositoriesOptions{Remotes: allowed, Timeout: 5 * time.Second}).
			Remotes(func(context.Context, string) (Auth, error) { return auth, nil }, 0)
		got, err := Render(t.Context(), tree.WithRemotes(remotes), "app", Options{})
		switch {
		case want == "" && (err != nil || len(got.Objects) != 3):
			t.Errorf("%s: got %v, %v", name, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

func TestARemoteThatMovesIsRenderedAgain(t *testing.T) {
	content := map[string]string{"/files/cm.yaml": configMap("from-url", "1")}
	w := newRemoteWorld(t, content)
	first := w.git.Commit(remoteBase, "first")
	files := w.named(map[string]string{
		"app/kustomization.yaml":    "resources: [\"GIT//common?ref=main\", FILES/cm.yaml]\n",
		"pinned/kustomization.yaml": "resources: [\"GIT//common?ref=" + first + "\"]\n",
	})
	tree := commitTree(t, files)
	footprint := func(dir string) *Footprint {
		t.Helper()
		view := tree.WithRemotes(w.remotes())
		got, err := Render(t.Context(), view, dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := NewFootprint(view, got.Inputs)
		if !f.HasRemotes() || !f.Holds(t.Context(), tree.WithRemotes(w.remotes())) {
			t.Fatal("the footprint does not hold at once")
		}
		return f
	}
	holds := func(f *Footprint) bool { return f.Holds(t.Context(), tree.WithRemotes(w.remotes())) }
	app, pinned := footprint("app"), footprint("pinned")
	w.git.Commit(map[string]string{"common/cm.yaml": configMap("common", "2")}, "second")
	if holds(app) || !holds(pinned) {
		t.Errorf("after a commit: app %t, pinned %t", holds(app), holds(pinned))
	}
	app = footprint("app")
	content["/files/cm.yaml"] = configMap("from-url", "2")
	if holds(app) || !holds(pinned) {
		t.Errorf("after a change of the file: app %t, pinned %t", holds(app), holds(pinned))
	}
	app = footprint("app")
	if app.Holds(t.Context(), tree) {
		t.Error("it holds where nothing remote is allowed any more")
	}
	w.git.Stop()
	if !holds(pinned) || holds(app) {
		t.Errorf("without a server: pinned %t, app %t", holds(pinned), holds(app))
	}
}

func TestRemotesAreKnownWithoutTheirServers(t *testing.T) {
	w := newRemoteWorld(t, map[string]string{"/files/cm.yaml": configMap("from-url", "1")})
	w.git.Commit(remoteBase, "first")
	tree := commitTree(t, w.named(map[string]string{"app/kustomization.yaml": "resources: [\"GIT//base?ref=main\", \"FILES/cm.yaml?token=s3cret\"]\n"}))
	dir := t.TempDir()
	process := func() *Remotes {
		w.repos = NewRepositories(dir, RepositoriesOptions{Remotes: w.repos.opts.Remotes, Timeout: 5 * time.Second})
		return w.remotes()
	}
	render := func(remotes *Remotes) (*Rendered, error) {
		return Render(t.Context(), tree.WithRemotes(remotes), "app", Options{})
	}
	if _, err := render(process().LastKnown()); err != nil {
		t.Fatalf("what is not known is asked for: %v", err)
	}
	w.git.Stop()
	w.files.Close()
	if _, err := render(process()); err == nil {
		t.Error("the servers are away, and nobody has noticed")
	}
	got, err := render(process().LastKnown())
	if err != nil || len(got.Objects) != 4 {
		t.Fatalf("got %v, %v", got, err)
	}
	err = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if strings.Contains(name, "s3cret") {
			t.Errorf("a token is in the name %s", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	later := testclock.NewFakeClock(time.Now().Add(48 * time.Hour))
	w.repos = NewRepositories(dir, RepositoriesOptions{Remotes: w.repos.opts.Remotes, Timeout: 5 * time.Second, Clock: later})
	if _, err := w.repos.Prune(24 * time.Hour); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, lastFolder)); err != nil || len(left) > 0 {
		t.Errorf("what nobody asks for is still noted: %v, %v", left, err)
	}
}

func TestRemotesThatAreRefused(t *testing.T) {
	w := newRemoteWorld(t, map[string]string{"/files/cm.yaml": configMap("a", "1"), "/private/cm.yaml": configMap("private", "1"), "/files/bad.yaml": "a: ["})
	w.git.Commit(w.named(map[string]string{
		"climbs/kustomization.yaml":  "resources: [../../../repository/app/cm.yaml]\n",
		"climbs2/kustomization.yaml": "resources: [../../x]\n",
		"plugin/kustomization.yaml":  "resources: [cm.yaml]\ntransformers: [t.yaml]\n",
		"plugin/cm.yaml":             configMap("a", "1"),
		"plugin/t.yaml":              "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: x}\npath: ../../../repository/app/cm.yaml\n",
		"link/kustomization.yaml":    "resources: [cm.yaml]\n",
		"cycle/kustomization.yaml":   "resources: [\"GIT//cycle?ref=main\"]\n",
		"broken/kustomization.yaml":  "resources: [cm.yaml]\n",
		"broken/cm.yaml":             "a: [\n",
	}), "first")
	w.git.CommitTo(gitserver.DefaultBranch, "second", gitserver.Change{Path: "link/cm.yaml", Content: "/etc/passwd", Symlink: true})
	tests := map[string]struct{ kustomization, want string }{
		"another repository":                     {"resources: [\"https://127.0.0.1:1/other/repo//x\"]", "app/kustomization.yaml: resources: \"https://127.0.0.1:1/other/repo//x\" is remote, and is in none of the agent's kustomize-allowed-remotes"},
		"a name that begins alike":               {"resources: [\"GITx//common\"]", "is in none of the agent's kustomize-allowed-remotes"},
		"a file above":                           {"resources: [\"FILES/../private/cm.yaml\"]", "fetching FILES/../private/cm.yaml: it has dots for folders in its path"},
		"a redirect to elsewhere":                {"resources: [\"FILES/away.yaml\"]", "app/kustomization.yaml:1: resources: fetching FILES/away.yaml: fetching FILES/away.yaml: the server redirects to https://127.0.0.2:1/x.yaml"},
		"a redirect out of the prefix":           {"resources: [\"FILES/climbs.yaml\"]", "the server redirects to"},
		"a large file":                           {"resources: [\"FILES/large.yaml\"]", "it has more than the 10 MiB that a file may have"},
		"a server that stalls":                   {"resources: [\"FILES/stalls.yaml\"]", "no answer within 5s"},
		"a file that is not there":               {"resources: [\"FILES/nowhere.yaml\"]", "the server answers 404 Not Found"},
		"a file that is no YAML":                 {"resources: [\"FILES/bad.yaml\"]", "FILES/bad.yaml"},
		"http":                                   {"resources: [\"http://127.0.0.1/files/cm.yaml\"]", "only https and ssh are fetched, not http"},
		"a revision that is not there":           {"resources: [\"GIT//common?ref=nowhere\"]", "revision not found"},
		"a repository as a patch":                {"patches: [{path: \"GIT//common?ref=main\"}]", "it is a repository, and a file is wanted here"},
		"a plugin":                               {"transformers: [\"GIT//common?ref=main\"]", "is remote, and is not fetched for this field"},
		"a base that climbs into the repository": {"resources: [\"GIT//climbs?ref=main\"]", "climbs/kustomization.yaml: resources: \"../../../repository/app/cm.yaml\" leaves the repository"},
		"a base that climbs out":                 {"resources: [\"GIT//climbs2?ref=main\"]", "climbs2/kustomization.yaml: resources: \"../../x\" leaves the repository"},
		"a plugin of a base that climbs":         {"resources: [\"GIT//plugin?ref=main\"]", "plugin/t.yaml: path: \"../../../repository/app/cm.yaml\" leaves the repository"},
		"a link out of a base":                   {"resources: [\"GIT//link?ref=main\"]", "is a symbolic link that leaves the repository"},
		"a base that names itself":               {"resources: [\"GIT//cycle?ref=main\"]", "cycle detected"},
		"a base with a mistake":                  {"resources: [\"GIT//broken?ref=main\"]", "broken/cm.yaml:"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := w.named(map[string]string{"app/kustomization.yaml": tt.kustomization + "\n", "app/cm.yaml": configMap("mine", "1"), "want": tt.want})
			_, err := Render(t.Context(), commitTree(t, files).WithRemotes(w.remotes()), "app", Options{})
			if err == nil || !strings.Contains(err.Error(), files["want"]) || strings.Contains(err.Error(), mountsRoot) {
				t.Errorf("got %v, want %s", err, files["want"])
			}
		})
	}
}

func TestARemoteFileIsAskedForOnceALook(t *testing.T) {
	w := newRemoteWorld(t, map[string]string{"/files/cm.yaml": configMap("a", "1")})
	tree := commitTree(t, w.named(map[string]string{
		"app/kustomization.yaml":     "resources: [one, two]\n",
		"app/one/kustomization.yaml": "resources: [FILES/inside.yaml]\n",
		"app/two/kustomization.yaml": "nameSuffix: '-2'\nresources: [FILES/inside.yaml]\n",
	})).WithRemotes(w.remotes())
	got, err := Render(t.Context(), tree, "app", Options{})
	if err != nil || len(got.Objects) != 2 {
		t.Fatal(got, err)
	}
	if n := w.gets.Load(); n != 2 {
		t.Errorf("%d requests, want 2: one, and the redirect", n)
	}
}

// A build holds what all kustomizations of the process share, so nobody may wait for a server in one.
func TestAServerThatStallsDelaysNoOtherKustomization(t *testing.T) {
	w := newRemoteWorld(t, nil)
	slow := commitTree(t, w.named(map[string]string{"app/kustomization.yaml": "resources: [FILES/stalls.yaml]\n"})).WithRemotes(w.remotes())
	others := commitTree(t, map[string]string{
		"own/kustomization.yaml":   "resources: [cm.yaml]\nopenapi: {path: schema.json}\n",
		"own/schema.json":          `{"definitions": {}}`,
		"own/cm.yaml":              configMap("own", "1"),
		"plain/kustomization.yaml": "resources: [cm.yaml]\n",
		"plain/cm.yaml":            configMap("plain", "1"),
	})
	ended := make(chan error, 1)
	go func() {
		_, err := Render(context.Background(), slow, "app", Options{})
		ended <- err
	}()
	for w.gets.Load() == 0 && len(ended) == 0 {
		runtime.Gosched()
	}
	for _, dir := range []string{"own", "plain"} {
		if _, err := Render(t.Context(), others, dir, Options{}); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if len(ended) > 0 {
		t.Error("the others have waited for the server")
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("the server stalls: got %v", err)
	}
}

func TestRemotesOfOneRenderAreFetchedAFewAtOnce(t *testing.T) {
	w := newRemoteWorld(t, nil)
	var mu sync.Mutex
	waiting, most := 0, 0
	together := make(chan struct{}) // closed when as many wait as may
	w.files.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if waiting++; waiting > most {
			if most = waiting; most == fetchesAtOnce {
				close(together)
			}
		}
		mu.Unlock()
		select {
		case <-together:
		case <-r.Context().Done(): // the client has not waited
		}
		mu.Lock()
		waiting--
		mu.Unlock()
		if strings.Contains(r.URL.Path, "missing") {
			http.NotFound(rw, r)
			return
		}
		fmt.Fprint(rw, configMap(strings.TrimSuffix(filepath.Base(r.URL.Path), ".yaml"), "1"))
	})
	list := func(names ...string) map[string]string {
		var urls []string
		for _, name := range names {
			urls = append(urls, "FILES/"+name+".yaml")
		}
		return w.named(map[string]string{"app/kustomization.yaml": "resources: [" + strings.Join(urls, ", ") + "]\n"})
	}
	render := func(files map[string]string) (*Rendered, error) {
		return Render(t.Context(), commitTree(t, files).WithRemotes(w.remotes()), "app", Options{})
	}
	rendered, err := render(list("a", "b", "c", "d", "e", "f", "g", "h", "i"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(rendered.Objects); n != 9 || rendered.Objects[0].GetName() != "a" || rendered.Objects[8].GetName() != "i" {
		t.Errorf("want the nine files in their order, got %d", n)
	}
	if most != fetchesAtOnce {
		t.Errorf("%d were asked for at once, want %d", most, fetchesAtOnce)
	}
	// The error is that of the first, whichever server answers first.
	for range 5 {
		if _, err := render(list("j", "missing-1", "k", "missing-2", "missing-3")); err == nil || !strings.Contains(err.Error(), "missing-1") {
			t.Errorf("want the error of the first that is missing, got %v", err)
		}
	}
}

func TestAPanicOfAFetchIsNotThatOfTheProcess(t *testing.T) {
	defer func() {
		if got := recover(); got != "second" {
			t.Errorf("want the first panic in the order of the work, got %v", got)
		}
	}()
	atOnce([]func(){func() {}, func() { panic("second") }, func() { panic("third") }})
}

func TestNamesOfServersDoNotLeadToTheMachineItself(t *testing.T) {
	dial := guardDial([]string{"https://localtest.example/files", "https://127.0.0.1/x"})
	for _, address := range []string{"127.0.0.1:1", "localhost:1"} {
		if _, err := dial(t.Context(), "tcp", address); err == nil || strings.Contains(err.Error(), "no server is to have") {
			t.Errorf("%s: got %v", address, err)
		}
	}
	for address, want := range map[string]bool{
		"10.1.2.3": true, "192.0.2.1": true, "fd12::1": true, "2001:db8::1": true,
		"127.0.0.2": false, "::1": false, "::": false, "169.254.169.254": false, "fe80::1%eth0": false, "fd00:ec2::254": false, "fd20:ce::254": false, "100.100.100.200": false,
	} {
		if got := isServer(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %t", address, got)
		}
	}
	// The name of this machine is no name of a Git server that leads to the loopback by chance.
	if _, err := guardDial([]string{"https://ip6-localhost/x"})(t.Context(), "tcp", "ip6-localhost:1"); err == nil {
		t.Error("it connects")
	} else if !strings.Contains(err.Error(), "no server is to have") && !strings.Contains(err.Error(), "no such host") {
		t.Errorf("got %v", err)
	}
}
