// Package chartserver serves charts to tests, on loopback: as a chart repository over HTTP, and as an OCI registry with the
// handler of a real one. It counts what it is asked for, asks for credentials, and lies, stalls and goes away when it is
// told to. Start reading at New.
package chartserver

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	gosync "sync"

	"github.com/google/go-containerregistry/pkg/registry"
	"sigs.k8s.io/yaml"
)

// Reporter is what New needs of a test.
type Reporter interface {
	Helper()
	Fatal(args ...any)
	Cleanup(func())
}

// Options say what a Server asks for.
type Options struct {
	TLS                bool   // with a certificate of its own CA
	Username, Password string // the repository takes them as they are, the registry gives a token for them
	NoETag             bool   // the repository names no state of its files
}

// A Server is a chart repository below /charts/ and a registry below /v2/.
type Server struct {
	t        Reporter
	opts     Options
	addr     string
	registry http.Handler

	mu         gosync.Mutex
	http       *httptest.Server
	requests   []string
	logins     []string
	files      map[string][]byte // of the repository
	entries    map[string][]Entry
	middleware func(http.Handler) http.Handler
	pageSize   int
}

// An Entry is a version in the index of the repository.
type Entry struct {
	APIVersion string   `json:"apiVersion"`
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Digest     string   `json:"digest,omitempty"`
	URLs       []string `json:"urls"`
	Created    string   `json:"created,omitempty"`
}

// New starts a Server, which stops when the test ends.
func New(t Reporter, opts Options) *Server {
	t.Helper()
	s := &Server{t: t, opts: opts, addr: "127.0.0.1:0", files: map[string][]byte{}, entries: map[string][]Entry{}, pageSize: 1000}
	s.registry = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start starts the Server again where it was.
func (s *Server) Start() {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = listener.Addr().String()
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Listener.Close()
	server.Listener = listener
	if s.opts.TLS {
		server.StartTLS()
	} else {
		server.Start()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.http = server
}

// Stop lets nobody reach the Server.
func (s *Server) Stop() {
	s.mu.Lock()
	server := s.http
	s.http = nil
	s.mu.Unlock()
	if server != nil {
		server.CloseClientConnections()
		server.Close()
	}
}

func (s *Server) base() string {
	if s.opts.TLS {
		return "https://" + s.addr
	}
	return "http://" + s.addr
}

// URL is that of the chart repository.
func (s *Server) URL() string { return s.base() + "/charts" }

// OCIURL is that of a folder of the registry.
func (s *Server) OCIURL() string { return "oci://" + s.addr + "/team" }

// CA is the certificate to trust, as PEM.
func (s *Server) CA() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Publish puts an archive into the repository, as the version of a chart, in place of one that is there. adjust may change
// what the index says of it.
func (s *Server) Publish(name, version string, archive []byte, adjust ...func(*Entry)) (digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest = Digest(archive)
	e := Entry{APIVersion: "v2", Name: name, Version: version, Digest: digest, URLs: []string{name + "-" + version + ".tgz"}}
	s.files["/charts/"+e.URLs[0]] = archive
	for _, f := range adjust {
		f(&e)
	}
	s.entries[name] = append(slices.DeleteFunc(s.entries[name], func(o Entry) bool { return o.Version == version }), e)
	index, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "entries": s.entries, "generated": "2026-01-02T03:04:05Z"})
	must(err)
	s.files["/charts/index.yaml"] = index
	return digest
}

// SetFile puts a file into the repository.
func (s *Server) SetFile(name string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files["/charts/"+name] = content
}

// Requests returns what was asked for since the last call: the method, the path with its query, and the status.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

// Logins returns all credentials that were sent: the headers Authorization, each once.
func (s *Server) Logins() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.logins)
}

// PageTags makes the registry list so many tags at a time.
func (s *Server) PageTags(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = n
}

// Intercept puts a handler in front of everything, behind the check of credentials. nil takes it away.
func (s *Server) Intercept(middleware func(http.Handler) http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.middleware = middleware
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	counted := &statusWriter{w, http.StatusOK}
	asked := req.Method + " " + req.URL.RequestURI()
	s.mu.Lock()
	if login := req.Header.Get("Authorization"); login != "" && !slices.Contains(s.logins, login) {
		s.logins = append(s.logins, login)
	}
	handler := http.Handler(http.HandlerFunc(s.serve))
	if s.middleware != nil {
		handler = s.middleware(handler)
	}
	s.mu.Unlock()
	if s.authorize(counted, req) {
		handler.ServeHTTP(counted, req)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, fmt.Sprintf("%s %d", asked, counted.status))
}

// authorize answers who has not the right credentials.
func (s *Server) authorize(w http.ResponseWriter, req *http.Request) bool {
	if s.opts.Username == "" {
		return true
	}
	user, password, _ := req.BasicAuth()
	known := user == s.opts.Username && password == s.opts.Password
	isRegistry := strings.HasPrefix(req.URL.Path, "/v2/")
	switch {
	case known && !isRegistry:
		return true
	case isRegistry && req.Header.Get("Authorization") == "Bearer "+s.token():
		return true
	case isRegistry:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="tests"`, s.base()))
	default:
		w.Header().Set("WWW-Authenticate", `Basic realm="tests"`)
	}
	http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
	return false
}

func (s *Server) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte("token for " + s.opts.Password))
}

func (s *Server) serve(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.URL.Path == "/token":
		_ = json.NewEncoder(w).Encode(map[string]string{"token": s.token()})
	case strings.HasSuffix(req.URL.Path, "/tags/list"):
		s.listTags(w, req)
	case strings.HasPrefix(req.URL.Path, "/v2/"):
		s.registry.ServeHTTP(w, req)
	default:
		s.serveFile(w, req)
	}
}

func (s *Server) serveFile(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	content, ok := s.files[req.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, req)
		return
	}
	if etag := strconv.Quote(Digest(content)); !s.opts.NoETag {
		w.Header().Set("Etag", etag)
		if req.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	_, _ = w.Write(content)
}

// listTags pages what the registry lists, as it does not say where the next page is.
func (s *Server) listTags(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	size := s.pageSize
	s.mu.Unlock()
	if n, err := strconv.Atoi(req.URL.Query().Get("n")); err == nil {
		size = min(size, n)
	}
	whole := req.Clone(req.Context())
	query := url.Values{}
	if last := req.URL.Query().Get("last"); last != "" {
		query.Set("last", last)
	}
	whole.URL.RawQuery = query.Encode()
	answer := httptest.NewRecorder()
	s.registry.ServeHTTP(answer, whole)
	var list struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &list) != nil {
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		return
	}
	if len(list.Tags) > size {
		list.Tags = list.Tags[:size]
		w.Header().Set("Link", fmt.Sprintf(`<%s?n=%d&last=%s>; rel="next"`, req.URL.Path, size, url.QueryEscape(list.Tags[size-1])))
	}
	_ = json.NewEncoder(w).Encode(list)
}

// File returns a file of the repository as it is.
func (s *Server) File(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files["/charts/"+name]
}
