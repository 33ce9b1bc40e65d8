package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	gosync "sync"
	"syscall"
	"time"
)

// maxRemotes bounds what one render may make the agent fetch.
const maxRemotes = 50

// Remotes are what kustomizations name outside of their repository, as one look finds it: each branch is asked for once,
// and stands for the same commit until the look is over. They may be used concurrently.
type Remotes struct {
	repositories *Repositories
	allowed      AllowedRemotes
	auth         func(ctx context.Context, url string) (Auth, error)
	maxAge       time.Duration
	lastKnown    bool

	mu    gosync.Mutex
	found map[string]*foundRemote
}

type foundRemote struct {
	once gosync.Once
	tree *Tree  // of a repository
	file []byte // else
	hash string // commit, or hash of the content
	err  error
}

// Remotes returns what is below the allowed prefixes of the options. auth returns the credentials for a URL, and may be nil
// for none. What was asked less than maxAge ago is not asked again.
func (r *Repositories) Remotes(auth func(ctx context.Context, url string) (Auth, error), maxAge time.Duration) *Remotes {
	if auth == nil {
		auth = func(context.Context, string) (Auth, error) { return Auth{}, nil }
	}
	return &Remotes{repositories: r, allowed: r.opts.Remotes, auth: auth, maxAge: maxAge, found: map[string]*foundRemote{}}
}

// WithRemotes returns a view of the tree whose kustomizations may name what is in remotes.
func (t *Tree) WithRemotes(remotes *Remotes) *Tree {
	view := *t
	view.remotes = remotes
	return &view
}

// check returns an error for what must not be fetched. A nil Remotes allows nothing.
func (r *Remotes) check(ref remoteRef) error {
	if r == nil {
		return errNotAllowed
	}
	if ref.file != "" {
		return r.allowed.check(ref.file)
	}
	return r.allowed.check(ref.repo)
}

// input is the name of a remote among the inputs of a render; parseRemoteRef reads it.
func (ref remoteRef) input() string {
	if ref.file != "" {
		return ref.file
	}
	return ref.repo + "//?ref=" + url.QueryEscape(ref.revision)
}

// holds reports whether what a render found at a URL is still there.
func (r *Remotes) holds(ctx context.Context, in Input) bool {
	ref, err := parseRemoteRef(in.Path)
	if err != nil {
		return false
	}
	found, err := r.find(ctx, ref)
	return err == nil && found.hash == in.Hash
}

// find fetches a remote, once. It blocks on its server.
func (r *Remotes) find(ctx context.Context, ref remoteRef) (*foundRemote, error) {
	if err := r.check(ref); err != nil {
		return nil, err
	}
	key := ref.file + "\x00" + ref.repo + "\x00" + ref.revision
	r.mu.Lock()
	f, ok := r.found[key]
	if !ok {
		f = &foundRemote{}
		r.found[key] = f
	}
	r.mu.Unlock()
	f.once.Do(func() { f.err = r.fetch(ctx, ref, f) })
	return f, f.err
}

func (r *Remotes) fetch(ctx context.Context, ref remoteRef, f *foundRemote) error {
	tree := func(commit string) (*Tree, error) { return r.repositories.Tree(ctx, ref.repo, commit) }
	if r.lastKnown && r.readLast(ref, f, tree) {
		return nil
	}
	target := ref.repo
	if ref.file != "" {
		target = ref.file
	}
	auth, err := r.auth(ctx, target)
	if err != nil {
		return err
	}
	auth.RedirectsWithin = r.allowed.strings()
	if ref.file != "" {
		if f.file, err = r.repositories.file(ctx, ref.file, auth, r.maxAge); err != nil {
			return err
		}
		f.hash = contentHash(entry{}, f.file)
	} else {
		revision, err := r.repositories.Resolve(ctx, ref.repo, auth, ref.revision, r.maxAge)
		if err != nil {
			return err
		}
		f.hash = revision.Commit
		if f.tree, err = tree(f.hash); err != nil {
			return err
		}
	}
	r.repositories.noteLast(ref, f)
	return nil
}

// remoteFiles are files that were fetched by their URL, for all Applications.
type remoteFiles struct {
	mu    gosync.Mutex
	files map[string]remoteFile // by URL and credentials
	bytes int
}

type remoteFile struct {
	content []byte
	etag    string
	at      time.Time
}

// maxRemoteFileBytes bounds the files that are remembered.
const maxRemoteFileBytes = 64 << 20

// file fetches a file by its URL, unless that was done less than maxAge ago. The server is told what is there already.
func (r *Repositories) file(ctx context.Context, raw string, auth Auth, maxAge time.Duration) ([]byte, error) {
	key := auth.fingerprint() + " " + raw
	r.remoteFiles.mu.Lock()
	known, ok := r.remoteFiles.files[key]
	r.remoteFiles.mu.Unlock()
	start := r.opts.Clock.Now()
	if ok && known.at.After(start.Add(-maxAge)) {
		return known.content, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.Timeout, fmt.Errorf("no answer within %s", r.opts.Timeout))
	defer cancel()
	content, etag, err := download(ctx, raw, auth, known)
	r.opts.OnFetch(RedactURL(raw), r.opts.Clock.Since(start), err)
	if ctx.Err() != nil {
		err = context.Cause(ctx) // also of an answer: a server that sees the connection close may still send an empty one
	}
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", RedactURL(raw), err)
	}
	r.remoteFiles.remember(key, remoteFile{content, etag, start})
	return content, nil
}

func (f *remoteFiles) remember(key string, file remoteFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes += len(file.content) - len(f.files[key].content)
	if f.files == nil || f.bytes > maxRemoteFileBytes {
		f.files, f.bytes = map[string]remoteFile{}, len(file.content)
	}
	f.files[key] = file
}

// download asks for a file; known is what it was before, if that is known.
func download(ctx context.Context, raw string, auth Auth, known remoteFile) (content []byte, etag string, err error) {
	tr, err := newTransport(auth)
	if err != nil {
		return nil, "", err
	}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		return nil, "", errors.New("the URL is malformed")
	}
	switch {
	case auth.BearerToken != "":
		req.Header.Set("Authorization", "Bearer "+auth.BearerToken)
	case auth.Username != "" || auth.Password != "":
		req.SetBasicAuth(auth.Username, auth.Password)
	}
	if known.etag != "" {
		req.Header.Set("If-None-Match", known.etag)
	}
	client := &http.Client{Transport: tr, CheckRedirect: auth.checkRedirect}
	resp, err := client.Do(req)
	if err != nil {
		// The error of the client repeats the URL, query and all.
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, "", err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && known.etag != "":
		return known.content, known.etag, nil
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, "", fmt.Errorf("%w: the server answers %s", ErrAuthentication, resp.Status)
	case resp.StatusCode != http.StatusOK:
		return nil, "", fmt.Errorf("the server answers %s", resp.Status)
	}
	content, err = io.ReadAll(io.LimitReader(resp.Body, maxFileBytes+1))
	if err == nil && len(content) > maxFileBytes {
		err = fmt.Errorf("it has more than the %d MiB that a file may have", maxFileBytes>>20)
	}
	return content, validator(resp, "Etag"), err
}

// checkRedirect refuses to follow a server to where its requests are not allowed to go.
func (a Auth) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("the server redirects more than 10 times")
	}
	if len(a.RedirectsWithin) == 0 {
		return nil
	}
	allowed, err := NewAllowedRemotes(a.RedirectsWithin)
	if err != nil {
		return err
	}
	target := *req.URL
	target.RawQuery = ""
	if err := allowed.check(target.String()); err != nil {
		return fmt.Errorf("the server redirects to %s, which is in none of the agent's kustomize-allowed-remotes", RedactURL(target.String()))
	}
	return nil
}

// metadataServers are where clouds tell the secrets of a machine, besides the link-local addresses: EC2 and GCE by IPv6, and
// Alibaba Cloud.
var metadataServers = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"), netip.MustParseAddr("100.100.100.200")}

func isServer(ip netip.Addr) bool {
	return !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && !ip.IsUnspecified() && !ip.IsMulticast() && !slices.Contains(metadataServers, ip.WithZone(""))
}

// guardDial returns a dialer that keeps away from addresses that no name of a server should have: those of the machine
// itself, and link-local ones, where clouds tell their secrets; unless it is asked for that very address, or for localhost.
func guardDial(hosts []string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dialer := &net.Dialer{Timeout: 30 * time.Second}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		named := false
		for _, allowed := range hosts {
			u, err := url.Parse(allowed)
			named = named || (err == nil && u.Hostname() == host)
		}
		// Whoever is not named is the proxy that somebody has set.
		if _, err := netip.ParseAddr(host); named && err != nil && host != "localhost" {
			dialer.Control = noInnerAddress(host)
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// noInnerAddress refuses addresses of the machine itself, and link-local ones.
func noInnerAddress(host string) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if ip := at.Addr().Unmap(); !isServer(ip) {
			return fmt.Errorf("%s has the address %s, which no server is to have that is not named by it", host, ip)
		}
		return nil
	}
}
