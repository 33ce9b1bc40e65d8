package source

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// A remoteURL is the URL of a repository, parsed.
type remoteURL struct {
	scheme             string // https, http, ssh or file
	host               string // with the port, if one is given
	path               string
	username, password string // as given in the URL
}

var scpLike = regexp.MustCompile(`^(?:([^@/:\s]+)@)?(\[[0-9a-fA-F:]+\]|[^@/:\s\[\]]+):([^\s]+)$`)

// parseURL reads https://, http://, ssh:// and file:// URLs and the scp-like user@host:path.
func parseURL(raw string) (remoteURL, error) {
	if !strings.Contains(raw, "://") {
		if m := scpLike.FindStringSubmatch(raw); m != nil {
			return remoteURL{scheme: "ssh", host: m[2], path: m[3], username: m[1]}, nil
		}
		if filepath.IsAbs(raw) {
			return remoteURL{}, fmt.Errorf("repository URL %q has no scheme: for a folder on this machine write file://%s", raw, raw)
		}
		return remoteURL{}, fmt.Errorf("repository URL %q has no scheme: write https://…, ssh://…, file://… or user@host:path", redact(raw))
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse repeats the URL, password and all.
		return remoteURL{}, fmt.Errorf("repository URL %q is malformed", redact(raw))
	}
	out := remoteURL{scheme: strings.ToLower(u.Scheme), host: strings.ToLower(u.Host), path: u.Path}
	if u.User != nil {
		out.username = u.User.Username()
		out.password, _ = u.User.Password()
	}
	switch out.scheme {
	case "http", "https", "ssh":
		if out.host == "" || strings.Trim(out.path, "/") == "" {
			return remoteURL{}, fmt.Errorf("repository URL %q needs a host and a path", redact(raw))
		}
	case "file":
		if out.host != "" && out.host != "localhost" {
			return remoteURL{}, fmt.Errorf("repository URL %q needs three slashes: file:///path", redact(raw))
		}
		out.host = ""
	default:
		return remoteURL{}, fmt.Errorf("repository URL %q: scheme %s is not supported: use https, http, ssh or file", redact(raw), out.scheme)
	}
	return out, nil
}

// String returns the URL without credentials. It is the same for the different ways to write the same repository, and
// so is the key of its clone.
func (u remoteURL) String() string {
	host := u.host
	switch {
	case u.scheme == "https":
		host = strings.TrimSuffix(host, ":443")
	case u.scheme == "http":
		host = strings.TrimSuffix(host, ":80")
	case u.scheme == "ssh":
		host = strings.TrimSuffix(host, ":22")
	}
	if u.scheme == "ssh" && u.username != "" {
		// Over SSH the user decides what a path means.
		host = u.username + "@" + host
	}
	p := strings.Trim(u.path, "/")
	if u.scheme == "ssh" && !strings.HasPrefix(u.path, "/") {
		p = "~/" + p // host:path is below the home of the user, ssh://host/path is not
	}
	if u.scheme != "file" {
		p = strings.TrimSuffix(p, ".git")
	}
	return u.scheme + "://" + host + "/" + p
}

// raw returns the URL in a form that parseURL reads as the same, without the password.
func (u remoteURL) raw() string {
	user := u.username
	if user != "" {
		user += "@"
	}
	if u.scheme == "ssh" && !strings.HasPrefix(u.path, "/") {
		return user + u.host + ":" + u.path
	}
	return u.scheme + "://" + user + u.host + (&url.URL{Path: u.path}).EscapedPath()
}

// A password may have any character in it, also where that makes the URL malformed.
var userinfo = regexp.MustCompile(`://\S*@`)

// redact takes the password, and the username with it, out of whatever looks like a URL in s.
func redact(s string) string { return userinfo.ReplaceAllString(s, "://") }

// RedactURL takes out of a repository's URL what may be secret: the credentials and the query. It need not be well formed.
func RedactURL(raw string) string {
	base, _, _ := strings.Cut(redact(raw), "?")
	return base
}
