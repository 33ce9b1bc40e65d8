package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// A session is one conversation with a server: first its references, then, if need be, a pack of objects. go-git's
// session for HTTP is one; those for SSH and for folders are our own, because go-git's do not end with the context and
// run the git program, respectively.
type session interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// dial starts a session. It returns at once for HTTP, which connects at the first question.
func dial(ctx context.Context, u remoteURL, auth Auth) (session, error) {
	switch u.scheme {
	case "file":
		return openLocal(u.path)
	case "ssh":
		return dialSSH(ctx, u, auth)
	default:
		return dialHTTP(u, auth)
	}
}

// newTransport returns an HTTP transport that trusts and goes through what auth says.
func newTransport(auth Auth) (*http.Transport, error) {
	tr := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		// A session makes two requests, minutes apart from the next: keeping its connection open serves nobody.
		MaxIdleConns:    2,
		IdleConnTimeout: 10 * time.Second,
	}
	if len(auth.RedirectsWithin) > 0 {
		tr.DialContext = guardDial(auth.RedirectsWithin)
	}
	if auth.Proxy != "" {
		proxy, err := url.Parse(auth.Proxy)
		if err != nil || proxy.Host == "" {
			return nil, errors.New("the Secret's key proxy is no URL: write http://host:port")
		}
		tr.Proxy = http.ProxyURL(proxy)
	}
	if len(auth.CA) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(auth.CA) {
			return nil, errors.New("the Secret's key ca.crt holds no PEM certificate")
		}
		tr.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return tr, nil
}

func dialHTTP(u remoteURL, auth Auth) (session, error) {
	tr, err := newTransport(auth)
	if err != nil {
		return nil, err
	}
	ep, err := transport.NewEndpoint(u.scheme + "://" + u.host + (&url.URL{Path: u.path}).EscapedPath())
	if err != nil {
		return nil, fmt.Errorf("repository URL %s is malformed", u)
	}
	s, err := githttp.NewClient(&http.Client{Transport: tr, CheckRedirect: auth.checkRedirect}).NewUploadPackSession(ep, httpAuth(u, auth))
	if err != nil {
		return nil, err
	}
	return httpSession{s, tr}, nil
}

// httpAuth returns how to authenticate, nil for not at all. Credentials from a Secret go before those in the URL.
func httpAuth(u remoteURL, auth Auth) transport.AuthMethod {
	switch {
	case auth.BearerToken != "":
		return &githttp.TokenAuth{Token: auth.BearerToken}
	case auth.Password != "" || auth.Username != "":
		// Servers that take a token as the password want some username, and do not care which.
		username := auth.Username
		if username == "" {
			username = "git"
		}
		return &githttp.BasicAuth{Username: username, Password: auth.Password}
	case u.username != "" || u.password != "":
		return &githttp.BasicAuth{Username: u.username, Password: u.password}
	}
	return nil
}

type httpSession struct {
	transport.UploadPackSession
	tr *http.Transport
}

func (s httpSession) Close() error {
	err := s.UploadPackSession.Close()
	s.tr.CloseIdleConnections()
	return err
}
