package gitserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Requests counts what clients asked for since the server was made.
type Requests struct {
	Refs  int // for the references
	Packs int // for objects
	Bytes int // sent in answer, bodies only
}

// Requests returns what clients asked for over HTTP and SSH.
func (r *Repository) Requests() Requests {
	n := r.http.requests()
	if r.ssh != nil {
		more := r.ssh.requests()
		n.Refs, n.Packs, n.Bytes = n.Refs+more.Refs, n.Packs+more.Packs, n.Bytes+more.Bytes
	}
	return n
}

// Intercept puts a handler in front of git's, to answer in its stead. nil takes it away.
func (r *Repository) Intercept(middleware func(git http.Handler) http.Handler) {
	r.http.mu.Lock()
	defer r.http.mu.Unlock()
	r.http.middleware = middleware
}

type httpServer struct {
	opts Options
	git  http.Handler
	addr string // of the first start, taken again by the next
	ca   []byte
	cert tls.Certificate

	mu         sync.Mutex
	server     *http.Server
	middleware func(http.Handler) http.Handler
	counts     Requests
}

func newHTTPServer(dir string, opts Options) (*httpServer, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	s := &httpServer{opts: opts, addr: "127.0.0.1:0", git: &cgi.Handler{
		Path:   git,
		Args:   []string{"http-backend"},
		Env:    append(environment(), "GIT_PROJECT_ROOT="+filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1"),
		Stderr: io.Discard,
		Logger: log.New(io.Discard, "", 0),
	}}
	if opts.TLS {
		if s.ca, s.cert, err = newCertificate(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *httpServer) start() error {
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr = l.Addr().String()
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	if s.opts.TLS {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{s.cert}, MinVersion: tls.VersionTLS12})
	}
	go s.server.Serve(l) // it ends with http.ErrServerClosed
	return nil
}

func (s *httpServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Close()
}

func (s *httpServer) url() string {
	scheme := "http"
	if s.opts.TLS {
		scheme = "https"
	}
	return scheme + "://" + s.addr + "/repo.git"
}

func (s *httpServer) requests() Requests {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (s *httpServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !s.authorized(req) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	switch {
	case strings.HasSuffix(req.URL.Path, "/info/refs"):
		s.counts.Refs++
	case strings.HasSuffix(req.URL.Path, "/git-upload-pack"):
		s.counts.Packs++
	}
	handler := s.git
	if s.middleware != nil {
		handler = s.middleware(handler)
	}
	s.mu.Unlock()
	handler.ServeHTTP(&countingWriter{w, s}, req)
}

func (s *httpServer) authorized(req *http.Request) bool {
	switch {
	case s.opts.Token != "":
		return req.Header.Get("Authorization") == "Bearer "+s.opts.Token
	case s.opts.Password != "":
		username, password, ok := req.BasicAuth()
		return ok && username == s.opts.Username && password == s.opts.Password
	}
	return true
}

type countingWriter struct {
	http.ResponseWriter
	server *httpServer
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.counts.Bytes += n
	return n, err
}

// newCertificate returns a certificate for loopback, and in PEM that of the authority that signed it.
func newCertificate() ([]byte, tls.Certificate, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "gitserver CA"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "gitserver"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}, nil
}
