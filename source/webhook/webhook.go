// Package webhook reads the calls by which Git servers tell of pushes. It checks who calls before it looks at what they
// say, and what they say is only ever a reason to look: which repositories to ask for their references now. Start reading
// at Receive.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// MaxBody is how large a call may be.
const MaxBody = 1 << 20

// A Provider is a kind of Git server.
type Provider string

const (
	GitHub          Provider = "github"
	GitLab          Provider = "gitlab"
	Gitea           Provider = "gitea" // Forgejo and Gogs too
	Bitbucket       Provider = "bitbucket"
	BitbucketServer Provider = "bitbucket-server"
	AzureDevOps     Provider = "azure-devops"
	Generic         Provider = "generic"
)

// Providers returns all of them.
func Providers() []Provider { return slices.Sorted(maps.Keys(providers)) }

// Known reports whether there is such a provider.
func (p Provider) Known() bool {
	_, ok := providers[p]
	return ok
}

// Errors to answer with a status of their own: see Status.
var (
	ErrUnauthorized = errors.New("the call is not signed with the webhook's secret")
	ErrTooLarge     = fmt.Errorf("the call is larger than %d KiB", MaxBody>>10)
	ErrMalformed    = errors.New("the call is malformed")
)

// Status returns the HTTP status to answer a call with.
func Status(err error) int {
	switch {
	case err == nil:
		return http.StatusAccepted
	case errors.Is(err, ErrUnauthorized):
		return http.StatusUnauthorized
	case errors.Is(err, ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	default:
		return http.StatusBadRequest
	}
}

// An Event is what a call tells: that something was pushed to a repository.
type Event struct {
	// URLs are those of the one repository, as the server knows them. There are none in a call that tells of no push,
	// such as a ping.
	URLs []string
	// Refs are the references that moved, refs/heads/… or refs/tags/…, as far as the call says.
	Refs []string
}

// Matches reports whether the event is for the repository at an Application's URL, whichever way that is written.
func (e Event) Matches(repoURL string) bool {
	want := identity(repoURL)
	for _, u := range e.URLs {
		if want != "" && identity(u) == want {
			return true
		}
	}
	return false
}

// identity returns host and path of a URL, "" if it is none: the same repository is reached over SSH and HTTPS.
func identity(raw string) string {
	var host, path string
	if scheme, _, ok := strings.Cut(raw, "://"); ok && scheme != "" {
		u, err := url.Parse(raw)
		if err != nil {
			return ""
		}
		host, path = u.Hostname(), u.Path
	} else if before, after, ok := strings.Cut(raw, ":"); ok && !strings.Contains(before, "/") {
		host, path = before[strings.LastIndexByte(before, '@')+1:], after
	}
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if host == "" || path == "" {
		return ""
	}
	return strings.ToLower(host + "/" + path)
}

// Receive reads a call and returns what it tells. It returns ErrUnauthorized before anything of the body is parsed if
// the call does not prove to know the secret, which must not be empty.
func Receive(req *http.Request, provider Provider, secret []byte) (Event, error) {
	body, err := io.ReadAll(io.LimitReader(req.Body, MaxBody+1))
	if err != nil {
		return Event{}, ErrMalformed
	}
	if len(body) > MaxBody {
		return Event{}, ErrTooLarge
	}
	return Parse(provider, req.Header, body, secret)
}

// Parse is Receive for a body that is read already.
func Parse(provider Provider, header http.Header, body, secret []byte) (Event, error) {
	p, ok := providers[provider]
	if !ok {
		return Event{}, fmt.Errorf("%w: there is no provider %q", ErrMalformed, provider)
	}
	if len(secret) == 0 || !p.authentic(header, body, secret) {
		return Event{}, ErrUnauthorized
	}
	if !p.isPush(header) {
		return Event{}, nil
	}
	if form, err := formPayload(header, body); err == nil {
		body = form
	}
	return p.parse(body)
}

// formPayload returns the JSON in a form, which GitHub and its likes can be set to send.
func formPayload(header http.Header, body []byte) ([]byte, error) {
	if !strings.HasPrefix(header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return nil, ErrMalformed
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	return []byte(form.Get("payload")), nil
}

// provider is how one kind of server calls.
type provider struct {
	authentic func(header http.Header, body, secret []byte) bool
	isPush    func(header http.Header) bool
	parse     func(body []byte) (Event, error)
}

// signed checks a header with the HMAC-SHA-256 of the body in hexadecimal digits.
func signed(prefix string, names ...string) func(http.Header, []byte, []byte) bool {
	return func(header http.Header, body, secret []byte) bool {
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		want := mac.Sum(nil)
		for _, name := range names {
			value, ok := strings.CutPrefix(header.Get(name), prefix)
			if got, err := hex.DecodeString(value); ok && err == nil && hmac.Equal(got, want) {
				return true
			}
		}
		return false
	}
}

// same compares in a time that tells nothing of where they differ, nor of how long the secret is.
func same(got string, want []byte) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256(want)
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// event reports whether one of several headers has one of several values.
func event(names []string, values ...string) func(http.Header) bool {
	return func(header http.Header) bool {
		for _, name := range names {
			for _, v := range values {
				if header.Get(name) == v {
					return true
				}
			}
		}
		return false
	}
}

func unmarshal(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: it is no JSON of a push", ErrMalformed)
	}
	return nil
}

// newEvent leaves out what is empty.
func newEvent(urls, refs []string) (Event, error) {
	var e Event
	for _, u := range urls {
		if identity(u) != "" {
			e.URLs = append(e.URLs, u)
		}
	}
	for _, r := range refs {
		if r != "" {
			e.Refs = append(e.Refs, r)
		}
	}
	if len(e.URLs) == 0 {
		return Event{}, fmt.Errorf("%w: it names no repository", ErrMalformed)
	}
	return e, nil
}
