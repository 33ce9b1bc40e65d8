package sync

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/source/webhook"
)

// Bounds of what anybody can make the receiver of webhooks do.
const (
	hookConnections = 128
	hooksPerSecond  = 10 // of one source
	hooksAtOnce     = 60
	hookSources     = 4096 // whose rate is remembered
	hookHeaderBytes = 32 << 10
	hookReadTimeout = 15 * time.Second
)

// hooks receives the calls by which Git servers tell of pushes, at /webhook/PROVIDER. A call only ever leads to a look
// at Git for the Applications of a repository, and only if it proves to know the provider's secret.
type hooks struct {
	dir     string // one file for each provider, with its secret
	log     *slog.Logger
	count   func(provider string, code int)
	trigger func(webhook.Event) bool // false where it cannot take any more now

	sources  *lru.Cache // *rate.Limiter by address
	failures *rate.Limiter
}

func newHooks(dir string, log *slog.Logger, count func(string, int), trigger func(webhook.Event) bool) *hooks {
	return &hooks{dir: dir, log: log, count: count, trigger: trigger, sources: lru.New(hookSources), failures: rate.NewLimiter(1, 10)}
}

func (h *hooks) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhook/{provider}", func(w http.ResponseWriter, r *http.Request) {
		provider := webhook.Provider(r.PathValue("provider"))
		code := h.receive(w, r, provider)
		if !provider.Known() {
			provider = "unknown"
		}
		h.count(string(provider), code)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(http.StatusText(code) + "\n"))
	})
	return mux
}

// receive takes in one call and returns the code to answer with.
func (h *hooks) receive(w http.ResponseWriter, r *http.Request, provider webhook.Provider) int {
	if !h.allow(r.RemoteAddr) {
		w.Header().Set("Retry-After", "1")
		return http.StatusTooManyRequests
	}
	secret, err := h.secret(provider)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h.refuse(r, provider, http.StatusNotFound, "there is no secret for this provider: add it as a file of that name")
	case err != nil:
		return h.refuse(r, provider, http.StatusInternalServerError, "reading the provider's secret: "+err.Error())
	}
	event, err := webhook.Receive(r, provider, secret)
	if err != nil {
		return h.refuse(r, provider, webhook.Status(err), err.Error())
	}
	if len(event.URLs) > 0 && !h.trigger(event) {
		return h.refuse(r, provider, http.StatusServiceUnavailable, "too many calls are waiting")
	}
	return http.StatusAccepted
}

// refuse logs why a call is refused, but not for everybody who calls again and again.
func (h *hooks) refuse(r *http.Request, provider webhook.Provider, code int, why string) int {
	if h.failures.Allow() {
		h.log.Warn("refusing a webhook call", "provider", truncate(string(provider), 40), "from", r.RemoteAddr, "code", code, "reason", why)
	}
	return code
}

// secret reads the secret anew with each call, so that another one counts at once.
func (h *hooks) secret(provider webhook.Provider) ([]byte, error) {
	if !provider.Known() { // also: it becomes a part of a path
		return nil, fs.ErrNotExist
	}
	secret, err := os.ReadFile(filepath.Join(h.dir, string(provider)))
	if err != nil {
		return nil, err
	}
	if secret = bytes.TrimRight(secret, "\r\n"); len(secret) == 0 {
		return nil, fs.ErrNotExist
	}
	return secret, nil
}

// allow reports whether a source may call now.
func (h *hooks) allow(remote string) bool {
	key := remote
	if at, err := netip.ParseAddrPort(remote); err == nil {
		key = at.Addr().Unmap().String()
		if addr := at.Addr().Unmap(); addr.Is6() {
			// One customer of a provider has at least so many addresses.
			if net, err := addr.WithZone("").Prefix(64); err == nil {
				key = net.String()
			}
		}
	}
	limiter, ok := h.sources.Get(key)
	if !ok {
		limiter = rate.NewLimiter(hooksPerSecond, hooksAtOnce)
		h.sources.Add(key, limiter)
	}
	return limiter.(*rate.Limiter).Allow()
}

// serve answers calls until ctx is done.
func (h *hooks) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: h.handler(), ReadHeaderTimeout: hookReadTimeout, ReadTimeout: hookReadTimeout, WriteTimeout: 2 * hookReadTimeout,
		IdleTimeout: hookReadTimeout, MaxHeaderBytes: hookHeaderBytes, ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(netutil.LimitListener(listener, hookConnections))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// describe is an event for the log: what it says is the caller's, and not believed.
func describe(e webhook.Event) []any {
	url, ref := "", ""
	if len(e.URLs) > 0 {
		url = truncate(source.RedactURL(e.URLs[0]), 200)
	}
	if len(e.Refs) > 0 {
		ref = truncate(e.Refs[0], 200)
	}
	return []any{"repository", url, "ref", ref, "refs", strconv.Itoa(len(e.Refs))}
}
