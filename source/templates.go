package source

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// A Template holds the credentials for all repositories whose URLs begin with a prefix. It never prints them.
type Template struct {
	Name   string // what errors call it
	Auth   Auth
	Err    error // why it cannot be used: whoever it is for is told
	prefix urlPrefix
}

// NewTemplate returns a template for the repositories below a prefix: a host, or a host and the first segments of a path.
func NewTemplate(name, prefix string, auth Auth) (Template, error) {
	p, err := parsePrefix(prefix)
	if err != nil {
		return Template{}, err
	}
	return Template{Name: name, Auth: auth, prefix: p}, nil
}

// Templates are the templates that there are to choose from.
type Templates []Template

// For returns the template with the longest prefix of a repository's URL, false if there is none. Segments of the path
// are compared as a whole: https://host/acme is no prefix of https://host/acme-evil/x. It is an error if two are as long.
func (ts Templates) For(rawURL string) (Template, bool, error) {
	u, err := parsePrefix(rawURL)
	if err != nil || !u.plain() {
		return Template{}, false, nil // no URL of a repository, or one that the server may read as another
	}
	var best []Template
	for _, t := range ts {
		switch {
		case !t.prefix.covers(u):
		case len(best) == 0 || len(t.prefix.segments) == len(best[0].prefix.segments):
			best = append(best, t)
		case len(t.prefix.segments) > len(best[0].prefix.segments):
			best = []Template{t}
		}
	}
	if len(best) == 0 {
		return Template{}, false, nil
	}
	// One that asks for a user says more than one that does not.
	slices.SortStableFunc(best, func(a, b Template) int { return strings.Compare(b.prefix.user, a.prefix.user) })
	if len(best) > 1 && best[0].prefix.user == best[1].prefix.user {
		return Template{}, false, fmt.Errorf("%s and %s are for the same URLs: keep one of them", best[0].Name, best[1].Name)
	}
	return best[0], best[0].Err == nil, best[0].Err
}

// Covers reports whether the template is for a repository, if no other one is more so.
func (t Template) Covers(rawURL string) bool {
	u, err := parsePrefix(rawURL)
	return err == nil && t.prefix.covers(u)
}

// urlPrefix is the URL of a repository or of what is above several.
type urlPrefix struct {
	scheme, host string
	user         string // SSH's, where the user decides what a path means; "" is any in a prefix
	segments     []string
}

var scpLikePrefix = regexp.MustCompile(`^(?:([^@/:\s]+)@)?(\[[0-9a-fA-F:]+\]|[^@/:\s\[\]]+):([^\s]*)$`)

func parsePrefix(raw string) (urlPrefix, error) {
	if !strings.Contains(raw, "://") {
		m := scpLikePrefix.FindStringSubmatch(raw)
		if m == nil {
			return urlPrefix{}, fmt.Errorf("%q is no URL: write https://HOST/PATH, ssh://HOST/PATH or user@HOST:PATH", RedactURL(raw))
		}
		return urlPrefix{scheme: "ssh", host: withoutPort("ssh", m[2]), user: m[1], segments: segments(m[3])}, nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return urlPrefix{}, fmt.Errorf("%q is no URL with a host", RedactURL(raw))
	}
	p := urlPrefix{scheme: strings.ToLower(u.Scheme), segments: segments(u.Path)}
	p.host = withoutPort(p.scheme, u.Host)
	if p.scheme == "ssh" {
		p.user = u.User.Username()
	}
	return p, nil
}

// segments are those of a path, the ending .git aside.
func segments(path string) []string {
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// withoutPort returns a host in lower case without the port that its scheme has anyway.
func withoutPort(scheme, host string) string {
	host = strings.ToLower(host)
	if port := map[string]string{"https": ":443", "oci": ":443", "http": ":80", "ssh": ":22"}[scheme]; port != "" {
		host = strings.TrimSuffix(host, port)
	}
	return host
}

// plain reports whether a path means what it says, to every server.
func (p urlPrefix) plain() bool {
	return !slices.ContainsFunc(p.segments, func(s string) bool { return s == "" || s == "." || s == ".." || strings.ContainsAny(s, `\%`) })
}

func (p urlPrefix) covers(u urlPrefix) bool {
	return p.scheme == u.scheme && p.host == u.host && (p.user == "" || p.user == u.user) &&
		len(p.segments) <= len(u.segments) && slices.Equal(p.segments, u.segments[:len(p.segments)])
}

// SameServer reports whether two URLs are of one server: reached the same way, at the same host and port. Credentials for
// the one may be shown to the other.
func SameServer(a, b string) bool {
	p, err := parsePrefix(a)
	q, err2 := parsePrefix(b)
	return err == nil && err2 == nil && p.scheme == q.scheme && p.host == q.host
}

// Host returns the host of a repository's URL, with the port unless it is the scheme's, "" if it has none.
func Host(rawURL string) string {
	p, err := parsePrefix(rawURL)
	if err != nil {
		return ""
	}
	return p.host
}

// HasPassword reports whether a repository's URL has credentials in it.
func HasPassword(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	password, _ := u.User.Password()
	return password != ""
}
