package sync

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trueup/trueup/source/webhook"
	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

const hookSecret = "analytical-hook"

// hookSecrets makes the folder of a receiver's secrets, as a mounted Secret is one.
func hookSecrets(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for provider, secret := range map[string]string{"generic": hookSecret + "\n", "gitlab": "other", "gitea": "\n"} {
		if err := os.WriteFile(filepath.Join(dir, provider), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func hookRequest(t testing.TB, url, body, secret string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	req.Header.Set("X-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return req
}

func TestHooksAreCheckedBeforeAnythingIsDone(t *testing.T) {
	var triggered []webhook.Event
	counts := map[string]int{}
	var log bytes.Buffer
	dir := hookSecrets(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "outside"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := false
	h := newHooks(dir, slog.New(slog.NewTextHandler(&log, nil)), func(provider string, code int) { counts[fmt.Sprint(provider, " ", code)]++ },
		func(e webhook.Event) bool { triggered = append(triggered, e); return !full })
	const push = `{"url":"https://git.example.com/a/b","ref":"refs/heads/main"}`
	for name, tc := range map[string]struct {
		method, path, body, secret string
		code, triggers             int
	}{
		"a push":                        {"POST", "/webhook/generic", push, hookSecret, 202, 1},
		"a forged push":                 {"POST", "/webhook/generic", push, "guess", 401, 0},
		"an empty secret":               {"POST", "/webhook/generic", push, "", 401, 0},
		"no push":                       {"POST", "/webhook/generic", `{"url":5}`, hookSecret, 400, 0},
		"more than a MiB":               {"POST", "/webhook/generic", strings.Repeat("x", webhook.MaxBody+1), hookSecret, 413, 0},
		"a provider without a secret":   {"POST", "/webhook/github", push, hookSecret, 404, 0},
		"a provider with an empty one":  {"POST", "/webhook/gitea", push, "", 404, 0},
		"a provider that is none":       {"POST", "/webhook/svn", push, hookSecret, 404, 0},
		"a path for a provider":         {"POST", "/webhook/..%2foutside", push, "x", 404, 0},
		"another method":                {"GET", "/webhook/generic", "", hookSecret, 405, 0},
		"another path":                  {"POST", "/metrics", "", hookSecret, 404, 0},
		"a signature of another format": {"POST", "/webhook/gitlab", push, "other", 401, 0},
	} {
		triggered = nil
		req := hookRequest(t, "http://agent"+tc.path, tc.body, tc.secret)
		req.Method = tc.method
		rec := httptest.NewRecorder()
		req.RemoteAddr = "192.0.2.1:1234"
		h.handler().ServeHTTP(rec, req)
		if rec.Code != tc.code || len(triggered) != tc.triggers {
			t.Errorf("%s: got %d and %v, want %d", name, rec.Code, triggered, tc.code)
		}
		if body := rec.Body.String(); strings.Contains(body, hookSecret) || strings.Contains(body, dir) {
			t.Errorf("%s: the answer tells %s", name, body)
		}
	}
	full = true
	rec := httptest.NewRecorder()
	h.handler().ServeHTTP(rec, hookRequest(t, "http://agent/webhook/generic", push, hookSecret))
	if rec.Code != http.StatusServiceUnavailable {
		t.Errorf("with too much waiting: %d, want 503 so that the server tries again", rec.Code)
	}
	if counts["generic 202"] != 1 || counts["unknown 404"] != 2 || counts["generic 401"] != 2 {
		t.Errorf("counted: %v", counts)
	}
	if strings.Contains(log.String(), hookSecret) || !strings.Contains(log.String(), "not signed with the webhook's secret") {
		t.Errorf("log: %s", log.String())
	}

	// A rotated secret counts at once.
	if err := os.WriteFile(filepath.Join(dir, "generic"), []byte("rotated"), 0o600); err != nil {
		t.Fatal(err)
	}
	full, triggered = false, nil
	rec = httptest.NewRecorder()
	h.handler().ServeHTTP(rec, hookRequest(t, "http://agent/webhook/generic", push, "rotated"))
	if rec.Code != http.StatusAccepted || len(triggered) != 1 {
		t.Errorf("the new secret: %d", rec.Code)
	}
}

func TestHooksOfOneSourceAreLimited(t *testing.T) {
	h := newHooks(hookSecrets(t), slog.New(slog.DiscardHandler), func(string, int) {}, func(webhook.Event) bool { return true })
	call := func(from string) int {
		req := hookRequest(t, "http://agent/webhook/generic", `{"url":"https://git.example.com/a/b"}`, hookSecret)
		req.RemoteAddr = from
		rec := httptest.NewRecorder()
		h.handler().ServeHTTP(rec, req)
		return rec.Code
	}
	limited := 0
	for i := range 3 * hooksAtOnce {
		if call(fmt.Sprintf("[2001:db8::%x]:1", i)) == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < hooksAtOnce || limited == 3*hooksAtOnce {
		t.Errorf("of %d calls from one network %d were refused", 3*hooksAtOnce, limited)
	}
	if code := call("[2001:db8:0:1::1]:1"); code != http.StatusAccepted {
		t.Errorf("another source is refused, too: %d", code)
	}
	for i := range 2 * hookSources {
		call(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
	}
	if n := h.sources.Len(); n > hookSources {
		t.Errorf("%d sources are remembered", n)
	}
}

// hookAgent lets the agent receive webhooks on a free port.
func hookAgent(t testing.TB, address *string) func(*Config) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	*address = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := hookSecrets(t)
	return func(c *Config) { c.WebhookAddress, c.WebhookSecrets, c.PollInterval = *address, dir, time.Hour }
}

// push tells the agent of a push to the world's repository and returns the answer's code.
func (w *world) push(address, secret string) int {
	w.t.Helper()
	body := fmt.Sprintf(`{"url":%q,"ref":"refs/heads/main"}`, w.git.URL())
	resp, err := http.DefaultClient.Do(hookRequest(w.t, "http://"+address+"/webhook/generic", body, secret))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestAWebhookCallBringsACommit(t *testing.T) {
	t.Parallel()
	var address string
	w := newWorld(t, hookAgent(t, &address))
	first := w.git.Commit(map[string]string{"shop/a.yaml": settings("a", "first"), "other/b.yaml": settings("b", "first")}, "first")
	w.app("shop")
	w.app("other")
	w.until("shop", synced(first))
	w.until("other", synced(first))

	asked := w.git.Requests().Refs
	second := w.git.Commit(map[string]string{"shop/a.yaml": settings("a", "second")}, "second")
	if code := w.push(address, "guess"); code != http.StatusUnauthorized {
		t.Errorf("a forged call: %d", code)
	}
	if n := w.git.Requests().Refs - asked; n != 0 {
		t.Errorf("a forged call made the agent ask %d times", n)
	}
	if code := w.push(address, hookSecret); code != http.StatusAccepted {
		t.Errorf("a call: %d", code)
	}
	w.until("shop", synced(second))
	w.until("other", synced(second))
	if got := w.setting("a"); got != "second" {
		t.Errorf("the ConfigMap has %s", got)
	}
}

// TestACallThatAStandbyReceivesIsNotLost has two agents, of which the one that is called does not lead.
func TestACallThatAStandbyReceivesIsNotLost(t *testing.T) {
	t.Parallel()
	var address string
	lead := func(c *Config) {
		c.LeaderElect, c.LeaderElectNamespace, c.PollInterval = true, c.ApplicationNamespace, time.Hour
	}
	w := newWorld(t, lead)
	first := w.git.Commit(map[string]string{"shop/a.yaml": settings("a", "first")}, "first")
	w.app("shop")
	w.app("elsewhere", from("https://git.invalid/a/b", "", ""))
	w.until("shop", synced(first))
	standby := *w
	log := newLines()
	standby.log, standby.cacheDir = log.logger(), t.TempDir()
	hookAgent(t, &address)(&standby.config)
	standby.config.CacheDir = standby.cacheDir
	standby.start()
	defer standby.stop()
	kubetest.Eventually(t, patience, func() error {
		if !strings.Contains(log.String(), "standing by") {
			return fmt.Errorf("the second agent does not stand by yet")
		}
		return nil
	})
	second := w.git.Commit(map[string]string{"shop/a.yaml": settings("a", "second")}, "second")
	if code := standby.push(address, hookSecret); code != http.StatusAccepted {
		t.Errorf("a call: %d", code)
	}
	w.until("shop", synced(second))
	kubetest.Eventually(t, patience, func() error {
		if !strings.Contains(log.String(), "told the leader") {
			return fmt.Errorf("the log has no word of it: %s", log.String())
		}
		return nil
	})
	if got := w.get("elsewhere").Annotations[v1alpha1.AnnotationRefresh]; got != "" {
		t.Errorf("an Application of another repository is asked to refresh: %s", got)
	}
}

// TestManyApplicationsOfOneRepositoryAskOnce counts the questions to the server after a start and after a push.
func TestManyApplicationsOfOneRepositoryAskOnce(t *testing.T) {
	t.Parallel()
	var address string
	w := newWorld(t, hookAgent(t, &address))
	const apps = 30
	files := map[string]string{}
	for i := range apps {
		files[fmt.Sprintf("app-%d/a.yaml", i)] = settings(fmt.Sprintf("settings-%d", i), "first")
	}
	first := w.git.Commit(files, "first")
	w.manyApps(apps)
	w.allAt(first, apps)
	few := func(when string, before int) {
		t.Helper()
		// Several workers may begin at the same moment, and a fetch asks once more.
		if n := w.git.Requests().Refs - before; n == 0 || n > apps/2 {
			t.Errorf("%s the server was asked %d times for %d Applications", when, n, apps)
		}
	}
	w.stop()
	before := w.git.Requests().Refs
	w.start()
	kubetest.Eventually(t, patience, func() error {
		if n := len(w.controller.states.all()); n < apps || w.passes() < apps {
			return fmt.Errorf("%d of %d Applications are known, %d passes", n, apps, w.passes())
		}
		return nil
	})
	few("after a start", before)
	before = w.git.Requests().Refs
	second := w.git.Commit(map[string]string{"app-7/a.yaml": settings("settings-7", "second")}, "second")
	if code := w.push(address, hookSecret); code != http.StatusAccepted {
		t.Errorf("a call: %d", code)
	}
	w.allAt(second, apps)
	few("after a push", before)
}
