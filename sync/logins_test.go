package sync

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
	"github.com/trueup/trueup/testdata/kubetest"
)

// TestLogins reads repositories as the agent does, with the rights of deploy/, each way to log in once.
func TestLogins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serve := func(opts gitserver.Options) *gitserver.Repository { return gitserver.New(t, t.TempDir(), opts) }
	basic := serve(gitserver.Options{Username: "ada", Password: "analytical-engine"})
	bearer := serve(gitserver.Options{Token: "bearer-engine"})
	private := serve(gitserver.Options{TLS: true})
	ssh := serve(gitserver.Options{SSH: true})
	proxied := serve(gitserver.Options{})
	for name, repo := range map[string]*gitserver.Repository{"basic": basic, "bearer": bearer, "private-ca": private, "ssh": ssh, "proxied": proxied} {
		repo.Commit(map[string]string{"shop/settings.yaml": settings(name, "good")}, "first")
	}
	var through atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		through.Add(1)
		req.URL.Host = strings.TrimPrefix(strings.TrimSuffix(proxied.URL(), "/repo.git"), "http://")
		(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}}).ServeHTTP(rw, req)
	}))
	t.Cleanup(proxy.Close)

	w.secret("basic", "username", "ada", "password", "analytical-engine")
	w.secret("bearer", "bearerToken", "bearer-engine")
	w.secret("private-ca", "ca.crt", string(private.CA()))
	w.secret("ssh", "identity", string(ssh.Identity()), "known_hosts", string(ssh.KnownHosts()))
	w.secret("ssh-other-host", "identity", string(ssh.Identity()), "known_hosts", string(serve(gitserver.Options{SSH: true}).KnownHosts()))
	w.secret("proxied", "proxy", proxy.URL)
	for name, url := range map[string]string{
		"basic": basic.URL(), "bearer": bearer.URL(), "private-ca": private.URL(), "ssh": ssh.SSHURL(),
		"proxied": "http://git.invalid/repo.git", // only the proxy knows where that is
	} {
		w.app(name, from(url, "", name))
	}
	w.app("ssh-other-host", from(ssh.SSHURL(), "", "ssh-other-host"))
	for name, repo := range map[string]*gitserver.Repository{"basic": basic, "bearer": bearer, "private-ca": private, "ssh": ssh, "proxied": proxied} {
		w.until(name, synced(repo.Rev("main")))
	}
	if through.Load() == 0 {
		t.Error("nothing went through the proxy")
	}
	app := w.until("ssh-other-host", says(v1alpha1.ConditionFetched, "known_hosts"))
	if app.Status.Sync.Revision != "" {
		t.Errorf("a host that is not known was believed: %+v", app.Status.Sync)
	}
	w.hidesEverywhere("analytical-engine", "bearer-engine")
}

// secret makes a Secret from keys and values.
func (w *world) secret(name string, kv ...string) {
	w.t.Helper()
	w.labelledSecret(name, "", kv...)
}

func (w *world) labelledSecret(name, label string, kv ...string) {
	w.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Secret\nmetadata:\n  namespace: %s\n  name: %s\n", w.ns, name)
	if key, value, ok := strings.Cut(label, "="); ok {
		fmt.Fprintf(&b, "  labels: {%s: %s}\n", key, value)
	}
	b.WriteString("stringData:\n")
	for i := 0; i < len(kv); i += 2 {
		fmt.Fprintf(&b, "  %s: %q\n", kv[i], kv[i+1])
	}
	w.Kubectl(w.t, b.String(), "apply", "-f", "-")
}

// hidesEverywhere wants none of the texts in what the agent tells: Applications and Events.
func (w *world) hidesEverywhere(texts ...string) {
	w.t.Helper()
	told := w.kubectl("get", "applications,events", "-o", "yaml", "--show-managed-fields=false")
	for _, text := range texts {
		if i := strings.Index(told, text); i >= 0 {
			w.t.Errorf("a secret is shown: …%s…", told[max(0, i-200):min(len(told), i+len(text)+50)])
		}
	}
}

func TestCredentialTemplates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	private := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "analytical-engine"})
	commit := private.Commit(map[string]string{"shop/settings.yaml": settings("private", "good")}, "first")
	server := strings.TrimSuffix(private.URL(), "/repo.git")
	w.app("private", from(private.URL(), "", ""))
	w.until("private", says(v1alpha1.ConditionFetched, "authentication failed"))

	// Of what begins the same, only whole segments count.
	w.labelledSecret("alike", templateSelector, "url", server+"/re", "username", "ada", "password", "analytical-engine")
	w.labelledSecret("wrong", templateSelector, "url", server, "username", "ada", "password", "difference-engine")
	w.until("private", says(v1alpha1.ConditionFetched, "authentication failed: the server does not take the Secret's keys username and password"))
	// The longest prefix wins, and what changes in a Secret counts at once.
	w.labelledSecret("right", templateSelector, "url", server+"/repo", "username", "ada", "password", "analytical-engine")
	w.until("private", synced(commit))
	w.labelledSecret("right", templateSelector, "url", server+"/repo", "pass", "analytical-engine", "username", "", "password", "")
	w.until("private", says(v1alpha1.ConditionFetched, "credential template Secret "+w.ns+"/right", "none of the keys that hold credentials"))
	w.heals("private")
	w.kubectl("delete", "secret", "right", "wrong")
	w.until("private", says(v1alpha1.ConditionFetched, "set the Secret's keys username and password"))
	w.labelledSecret("one", templateSelector, "url", server+"/", "username", "ada", "password", "analytical-engine")
	w.until("private", synced(commit))
	w.labelledSecret("two", templateSelector, "url", server, "username", "ada", "password", "analytical-engine")
	w.until("private", says(v1alpha1.ConditionFetched, "/one and Secret", "/two are for the same URLs: keep one of them"))
	w.hidesEverywhere("analytical-engine", "difference-engine")
}

func TestTemplatesThatCannotBeReadAreSaid(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t, kubetest.Shared(t))
	private := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "analytical-engine"})
	private.Commit(map[string]string{"shop/settings.yaml": settings("private", "good")}, "first")
	open := w.git.Commit(map[string]string{"shop/settings.yaml": settings("open", "good")}, "first")
	// Without the right to manage Secrets everywhere it has those of its own namespace only.
	w.Kubectl(t, "", "delete", "clusterrolebinding", "trueup-managed-"+w.ns)
	w.config.CredentialsNamespace = "kube-system"
	w.start()
	w.app("open", from(w.git.URL(), "", ""))
	w.app("private", from(private.URL(), "", ""))
	w.until("private", says(v1alpha1.ConditionFetched, "authentication failed", "credential templates cannot be used", "forbidden"))
	w.until("open", func(app *v1alpha1.Application) error {
		if c := condition(app, v1alpha1.ConditionFetched); c.Status != "True" || app.Status.Sync.Revision != open {
			return fmt.Errorf("a repository that needs no credentials can be read, got %+v", c)
		}
		return nil
	})
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  chan struct{}
	buf bytes.Buffer
}

func newLines() *lines { return &lines{mu: make(chan struct{}, 1)} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu <- struct{}{}
	defer func() { <-l.mu }()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu <- struct{}{}
	defer func() { <-l.mu }()
	return l.buf.String()
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
