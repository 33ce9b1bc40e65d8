package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// sshSession speaks to git-upload-pack on an SSH server. The connection closes with the context it was dialled with.
type sshSession struct {
	client *ssh.Client
	sess   *ssh.Session
	stdin  io.WriteCloser
	stdout io.Reader
	stderr *firstLines
	stop   func() bool
	sent   bool // a request for a pack
}

func dialSSH(ctx context.Context, u remoteURL, auth Auth) (session, error) {
	addr := u.host
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), "22")
	}
	keys, err := hostKeys(auth)
	if err != nil {
		return nil, err
	}
	methods, closeAgent, err := sshAuth(u, auth)
	if err != nil {
		return nil, err
	}
	defer closeAgent()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	user := u.username
	if user == "" {
		user = "git"
	}
	c, chans, reqs, err := ssh.NewClientConn(conn, addr, &ssh.ClientConfig{
		User:              user,
		Auth:              methods,
		HostKeyCallback:   keys.HostKeyCallback(),
		HostKeyAlgorithms: keys.HostKeyAlgorithms(addr),
	})
	if err != nil {
		stop()
		conn.Close()
		return nil, explainSSH(ctx, addr, err)
	}
	s := &sshSession{client: ssh.NewClient(c, chans, reqs), stop: stop, stderr: &firstLines{}}
	if err := s.start(u.path); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// errHostKey is returned where a server is not who the known hosts say.
var errHostKey = errors.New("host key")

func explainSSH(ctx context.Context, addr string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case knownhosts.IsHostKeyChanged(err):
		return fmt.Errorf("%w: the key of %s is not the one in known_hosts: if the server's key has changed on purpose, update known_hosts", errHostKey, addr)
	case knownhosts.IsHostUnknown(err):
		return fmt.Errorf("%w: %s is not in known_hosts: add its key to the Secret's key known_hosts, as `ssh-keyscan` prints it", errHostKey, addr)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return transport.ErrAuthenticationRequired
	}
	return err
}

// hostKeys returns the keys to expect of servers: those given, or else the user's own known_hosts.
func hostKeys(auth Auth) (*knownhosts.HostKeyDB, error) {
	if len(auth.KnownHosts) == 0 {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("%w: the Secret has no key known_hosts", errHostKey)
		}
		db, err := knownhosts.NewDB(filepath.Join(home, ".ssh", "known_hosts"))
		if err != nil {
			return nil, fmt.Errorf("%w: no known_hosts is given, in a Secret or in ~/.ssh: the server could be anyone", errHostKey)
		}
		return db, nil
	}
	// The library reads known hosts from files only.
	f, err := os.CreateTemp("", "known_hosts-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(auth.KnownHosts)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	db, err := knownhosts.NewDB(f.Name())
	if err != nil {
		return nil, fmt.Errorf("%w: known_hosts cannot be read: %s", errHostKey, strings.ReplaceAll(err.Error(), f.Name(), "known_hosts"))
	}
	return db, nil
}

// sshAuth returns how to log in: with the identity or the password given, or else with the user's SSH agent.
func sshAuth(u remoteURL, auth Auth) ([]ssh.AuthMethod, func(), error) {
	nothing := func() {}
	switch password := auth.Password; {
	case len(auth.Identity) > 0:
		signer, err := ssh.ParsePrivateKey(auth.Identity)
		var encrypted *ssh.PassphraseMissingError
		if errors.As(err, &encrypted) {
			if auth.IdentityPassword == "" {
				return nil, nothing, errors.New("the Secret's key identity is encrypted: set the key password as well")
			}
			signer, err = ssh.ParsePrivateKeyWithPassphrase(auth.Identity, []byte(auth.IdentityPassword))
		}
		if err != nil {
			return nil, nothing, errors.New("the Secret's key identity is no private key in PEM, or its password is wrong")
		}
		return []ssh.AuthMethod{ssh.PublicKeys(signer)}, nothing, nil
	case password != "" || u.password != "":
		if password == "" {
			password = u.password
		}
		return []ssh.AuthMethod{ssh.Password(password)}, nothing, nil
	}
	conn, err := net.Dial("unix", os.Getenv("SSH_AUTH_SOCK"))
	if err != nil {
		return nil, nothing, transport.ErrAuthenticationRequired
	}
	return []ssh.AuthMethod{ssh.PublicKeysCallback(agent.NewClient(conn).Signers)}, func() { conn.Close() }, nil
}

func (s *sshSession) start(repository string) error {
	sess, err := s.client.NewSession()
	if err != nil {
		return err
	}
	s.sess = sess
	if s.stdin, err = sess.StdinPipe(); err != nil {
		return err
	}
	if s.stdout, err = sess.StdoutPipe(); err != nil {
		return err
	}
	sess.Stderr = s.stderr
	return sess.Start("git-upload-pack '" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(repository) + "'")
}

func (s *sshSession) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	if err := refs.Decode(s.stdout); err != nil {
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, packp.ErrEmptyAdvRefs):
			return nil, transport.ErrEmptyRemoteRepository
		case errors.Is(err, packp.ErrEmptyInput):
			// Servers say why on standard error, each in its own words.
			_ = s.sess.Wait()
			return nil, fmt.Errorf("%w: %s", transport.ErrRepositoryNotFound, s.stderr)
		}
		return nil, err
	}
	if refs.IsEmpty() {
		return nil, transport.ErrEmptyRemoteRepository
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

func (s *sshSession) UploadPack(_ context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	s.sent = true
	if err := req.UploadRequest.Encode(s.stdin); err != nil {
		return nil, err
	}
	if err := req.UploadHaves.Encode(s.stdin, false); err != nil {
		return nil, err
	}
	if err := pktline.NewEncoder(s.stdin).EncodeString("done\n"); err != nil {
		return nil, err
	}
	resp := packp.NewUploadPackResponse(req)
	return resp, resp.Decode(io.NopCloser(s.stdout))
}

func (s *sshSession) Close() error {
	if s.stdin != nil && !s.sent {
		_ = pktline.NewEncoder(s.stdin).Flush() // tells the server that nothing is wanted
	}
	s.stop()
	return s.client.Close()
}

// firstLines keeps the beginning of what a server says on standard error.
type firstLines struct{ b strings.Builder }

func (f *firstLines) Write(p []byte) (int, error) {
	if room := 200 - f.b.Len(); room > 0 {
		f.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (f *firstLines) String() string { return strings.Join(strings.Fields(f.b.String()), " ") }
