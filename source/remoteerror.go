package source

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

var errSHA256 = errors.New("the repository names its objects by SHA-256, which is not supported: make it anew with SHA-1")

// explainRemote returns what to tell of an error of talking to a server: what is wrong and what to do, without
// credentials and without the pages that servers answer with.
func explainRemote(err error, u remoteURL, auth Auth) error {
	var dns *net.DNSError
	var op *net.OpError
	var unknownCA x509.UnknownAuthorityError
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired) || errors.Is(err, transport.ErrAuthorizationFailed):
		return fmt.Errorf("%w: %s", ErrAuthentication, authHint(u, auth))
	case errors.Is(err, transport.ErrRepositoryNotFound):
		if u.scheme == "file" {
			return err
		}
		return fmt.Errorf("%w: check the URL; some servers also say so to those who may not read it: %s", transport.ErrRepositoryNotFound, authHint(u, auth))
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return errors.New("the repository is empty: push a commit to it")
	case strings.Contains(err.Error(), "object-format=sha256"):
		return errSHA256
	case errors.As(err, &unknownCA):
		return errors.New("the server's certificate is signed by an unknown authority: add its CA to the Secret's key ca.crt")
	case errors.As(err, &dns):
		return fmt.Errorf("host %s cannot be looked up: check the URL and the cluster's DNS", dns.Name)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%s cannot be reached: %w", u.host, op.Err)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // ue repeats the URL
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if clean := redact(err.Error()); clean != err.Error() {
		return errors.New(clean)
	}
	return err
}

// authHint says which keys of the Secret to set.
func authHint(u remoteURL, auth Auth) string {
	if u.scheme == "ssh" {
		switch {
		case len(auth.Identity) > 0:
			return "the server does not take the Secret's key identity: add its public half to the repository's deploy keys"
		case auth.Password != "":
			return "the server does not take the Secret's key password"
		}
		return "set the Secret's keys identity (a private key) and known_hosts"
	}
	switch {
	case auth.BearerToken != "":
		return "the server does not take the Secret's key bearerToken; most servers want a token as username and password instead"
	case auth.Password != "":
		return "the server does not take the Secret's keys username and password"
	}
	return "set the Secret's keys username and password (a token goes into password), or bearerToken"
}
