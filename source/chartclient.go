package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// newChartClient returns a client for a chart repository or registry. It sends the credentials of a repository to its own
// server and to those in trusted, and to no other whatever redirects to it; a registry's are up to its own client. It
// follows no redirect from https to http, and does not connect to inner addresses of this machine's network for others than
// the server that the Application names.
func newChartClient(a chartAccess, trusted ...*url.URL) (*http.Client, error) {
	tr, err := newTransport(a.auth)
	if err != nil {
		return nil, err
	}
	tr.DialContext = guardOthers(a, tr)
	client := &http.Client{Transport: tr, CheckRedirect: checkChartRedirect}
	if a.url.Scheme != "oci" {
		client.Transport = &serverAuth{Transport: tr, login: httpAuth(a.server(), a.auth), servers: append(trusted, a.url)}
	}
	return client, nil
}

// serverAuth logs in to some servers, and not to others.
type serverAuth struct {
	*http.Transport
	login   transport.AuthMethod
	servers []*url.URL
}

func (s *serverAuth) RoundTrip(req *http.Request) (*http.Response, error) {
	login, ok := s.login.(githttp.AuthMethod)
	if ok && slices.ContainsFunc(s.servers, func(u *url.URL) bool { return SameServer(u.String(), req.URL.String()) }) {
		req = req.Clone(req.Context())
		login.SetAuth(req)
	}
	return s.Transport.RoundTrip(req)
}

func checkChartRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= 10:
		return errors.New("the server redirects more than 10 times")
	case req.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https":
		return fmt.Errorf("the server redirects from https to %s, at %s", req.URL.Scheme, req.URL.Host)
	}
	return nil
}

// guardOthers returns a dialer that keeps away from inner addresses where it is not told by the Application or a proxy's
// setting, but by what a server has answered, whom to dial.
func guardOthers(a chartAccess, tr *http.Transport) func(ctx context.Context, network, address string) (net.Conn, error) {
	named := []string{a.url.Hostname()}
	for _, scheme := range []string{"http", "https"} {
		if proxy, err := tr.Proxy(&http.Request{URL: &url.URL{Scheme: scheme, Host: a.url.Host}}); err == nil && proxy != nil {
			named = append(named, proxy.Hostname())
		}
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		dialer := &net.Dialer{Timeout: 30 * time.Second}
		if !slices.Contains(named, host) {
			dialer.Control = noInnerAddress(host)
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// validators are what a server names a state of a file by.
type validators struct{ etag, modified string }

// errUnchanged says that a file is as the validators have it.
var errUnchanged = errors.New("it is unchanged")

// get asks for a file, and returns the answer if it is there. known is the state that is there already, if any. An archive is
// taken as it is, where an index may come compressed.
func get(ctx context.Context, client *http.Client, u *url.URL, known validators) (*http.Response, error) {
	plain := *u
	plain.User, plain.Fragment = nil, ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, plain.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("the URL %s is malformed", RedactURL(u.String()))
	}
	if path.Base(u.Path) != indexFile {
		req.Header.Set("Accept-Encoding", "identity")
	}
	if known.etag != "" {
		req.Header.Set("If-None-Match", known.etag)
	}
	if known.modified != "" {
		req.Header.Set("If-Modified-Since", known.modified)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && known != validators{}:
		return nil, errUnchanged
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, transport.ErrAuthenticationRequired
	}
	return nil, fmt.Errorf("the server answers %d %s for %s", resp.StatusCode, http.StatusText(resp.StatusCode), RedactURL(u.String()))
}

func validatorsOf(resp *http.Response) validators {
	return validators{validator(resp, "Etag"), validator(resp, "Last-Modified")}
}

// validator returns what a server names a state of a file by, "" if that is too long to remember it of thousands of files.
func validator(resp *http.Response, header string) string {
	const most = 1 << 10
	if v := resp.Header.Get(header); len(v) <= most {
		return v
	}
	return ""
}

// query is that of a URL in a text, where tokens and signatures are.
var query = regexp.MustCompile(`(https?://[^\s"'?]*)\?[^\s"']*`)

// explainChart returns what to tell of an error of talking to a chart repository or registry, without the queries of URLs
// and in short.
func explainChart(err error, a chartAccess) error {
	if err == nil {
		return nil
	}
	err = explainAnswer(err, a)
	if text := err.Error(); query.MatchString(text) {
		err = shortError{err, query.ReplaceAllString(text, "$1")}
	}
	return shorten(err)
}

func explainAnswer(err error, a chartAccess) error {
	var answer *errcode.ErrorResponse
	switch {
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		err = transport.ErrAuthenticationRequired
	case errors.Is(err, errdef.ErrNotFound):
		err = fmt.Errorf("%w: the registry has no such chart or version; some registries also say so to those who may not read it", ErrRevision)
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		err = transport.ErrAuthenticationRequired
	case errors.As(err, &answer):
		// Its own text has the URL in it, with the signature that storage is asked with.
		code := ""
		for _, e := range answer.Errors {
			code += fmt.Sprintf(" (%.100s)", e.Code)
		}
		err = fmt.Errorf("the registry answers %d %s%s", answer.StatusCode, http.StatusText(answer.StatusCode), code)
	}
	server := a.server()
	var of *url.Error
	if errors.As(err, &of) {
		// It may be another that the index or a redirect has named.
		if u, bad := url.Parse(of.URL); bad == nil {
			server.host = u.Host
		}
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s closes the connection without an answer", server.host)
		}
	}
	return explainRemote(err, server, a.auth)
}

// urlKey names a URL without keeping what may be secret in it.
func urlKey(u *url.URL) string {
	sum := sha256.Sum256([]byte(u.String()))
	return hex.EncodeToString(sum[:])
}
