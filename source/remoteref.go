package source

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// A remoteRef is what a kustomization names outside of its repository: a folder of another repository, or a file.
type remoteRef struct {
	repo, dir, revision string
	file                string // the URL of a file; then the others are empty
}

// parseRemoteRef reads a reference as kustomize writes it: host/org/repo//folder?ref=revision, with or without a scheme,
// user@host:org/repo, or the URL of a file. Where kustomize would ask the server to tell the two apart, the name decides:
// a path that ends with an extension is a file, unless // or .git ends the repository before it.
func parseRemoteRef(raw string) (remoteRef, error) {
	raw = strings.TrimSpace(raw)
	rest, query, _ := strings.Cut(strings.TrimPrefix(raw, "git::"), "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return remoteRef{}, errors.New("its query is malformed")
	}
	base, p, err := splitHost(rest)
	if err != nil {
		return remoteRef{}, err
	}
	revision := values.Get("ref")
	if revision == "" {
		revision = values.Get("version")
	}
	repo, dir, marked := splitRepo(p)
	if strings.HasPrefix(base, "https://") && !marked && revision == "" && isFileURL(base, p) {
		return remoteRef{file: strings.TrimPrefix(raw, "git::")}, nil
	}
	if repo == "" {
		return remoteRef{}, errors.New("it names no repository: write host/org/repo//folder?ref=revision")
	}
	if dir, err = cleanPath(dir); err != nil {
		return remoteRef{}, err
	}
	return remoteRef{repo: base + repo, dir: dir, revision: revision}, nil
}

// splitHost returns all up to the path, with a scheme or as user@host: is written, and the path.
func splitHost(s string) (base, p string, err error) {
	switch scheme, rest, ok := strings.Cut(s, "://"); {
	case ok && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "ssh")):
		host, p, _ := strings.Cut(rest, "/")
		return strings.ToLower(scheme) + "://" + host + "/", p, nil
	case ok:
		return "", "", fmt.Errorf("only https and ssh are fetched, not %s", strings.ToLower(scheme))
	}
	if m := scpLike.FindStringSubmatch(s); m != nil && m[1] != "" {
		return m[1] + "@" + m[2] + ":", strings.TrimPrefix(m[3], "/"), nil
	}
	// github.com/org/repo and github.com:org/repo
	if i := strings.IndexAny(s, "/:"); i > 0 {
		return "https://" + strings.ToLower(s[:i]) + "/", s[i+1:], nil
	}
	return "", "", errors.New("it names no host")
}

// splitRepo returns the repository and the folder in a path, and whether something marks where the one ends.
func splitRepo(p string) (repo, dir string, marked bool) {
	if repo, dir, ok := strings.Cut(p, "//"); ok {
		return repo, dir, true
	}
	if i := strings.Index(p+"/", ".git/"); i > 0 {
		return p[:i+4], strings.TrimPrefix(p[i+4:], "/"), true
	}
	segments, n := strings.Split(strings.TrimSuffix(p, "/"), "/"), 2
	if i := slices.Index(segments, "_git"); i >= 0 {
		n, marked = i+2, true // Azure DevOps
	}
	if len(segments) < n || segments[0] == "" {
		return "", "", marked
	}
	return strings.Join(segments[:n], "/"), strings.Join(segments[n:], "/"), marked
}

// forges have repositories of two segments and answer with pages for people where a repository or folder is named.
var forges = []string{"https://github.com/", "https://gitlab.com/", "https://bitbucket.org/", "https://codeberg.org/"}

func isFileURL(base, p string) bool {
	return path.Ext(p) != "" && strings.Count(p, "/") >= 2 || !slices.Contains(forges, base)
}

// AllowedRemotes are the beginnings of URLs that kustomizations may name outside of their repository. The zero value
// allows none.
type AllowedRemotes struct{ prefixes []remotePrefix }

type remotePrefix struct {
	scheme, user, host string
	segments           []string
}

// NewAllowedRemotes reads prefixes: https://host/path, ssh://user@host/path or user@host:path. Whole segments of the path
// count.
func NewAllowedRemotes(prefixes []string) (AllowedRemotes, error) {
	var out AllowedRemotes
	var errs []error
	for _, raw := range prefixes {
		p, err := newRemotePrefix(raw)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", redact(raw), err))
			continue
		}
		out.prefixes = append(out.prefixes, p)
	}
	return out, errors.Join(errs...)
}

func newRemotePrefix(raw string) (remotePrefix, error) {
	if m := scpLike.FindStringSubmatch(raw); m != nil && !strings.Contains(raw, "://") {
		raw = "ssh://" + m[1] + "@" + m[2] + "/" + strings.TrimPrefix(m[3], "/")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return remotePrefix{}, errors.New("is malformed")
	case u.Scheme != "https" && u.Scheme != "ssh":
		return remotePrefix{}, errors.New("must begin with https:// or ssh://")
	case u.Host == "":
		return remotePrefix{}, errors.New("needs a host")
	case u.RawQuery != "" || u.Fragment != "":
		return remotePrefix{}, errors.New("must have no query and no fragment")
	}
	p := remotePrefix{scheme: u.Scheme, host: strings.ToLower(u.Host)}
	if u.User != nil {
		if _, has := u.User.Password(); has || u.Scheme == "https" {
			return remotePrefix{}, errors.New("must have no credentials in it: use credential templates")
		}
		p.user = u.User.Username()
	}
	p.host = strings.TrimSuffix(p.host, map[string]string{"https": ":443", "ssh": ":22"}[u.Scheme])
	// What a server may read in another way than we do is not compared.
	if lower := strings.ToLower(u.EscapedPath()); strings.Contains(lower, "%2f") || strings.Contains(lower, "%2e") || strings.Contains(lower, "%5c") || strings.Contains(lower, `\`) {
		return remotePrefix{}, errors.New("has an encoded slash or dot in its path")
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		switch segment {
		case "":
			continue
		case ".", "..":
			return remotePrefix{}, errors.New("has dots for folders in its path")
		}
		p.segments = append(p.segments, segment)
	}
	return p, nil
}

// contains reports whether a URL is at or below the prefix.
func (p remotePrefix) contains(u remotePrefix) bool {
	if p.scheme != u.scheme || p.host != u.host || (p.user != "" && p.user != u.user) || len(p.segments) > len(u.segments) {
		return false
	}
	for i, segment := range p.segments {
		other := u.segments[i]
		if i == len(p.segments)-1 {
			segment, other = strings.TrimSuffix(segment, ".git"), strings.TrimSuffix(other, ".git")
		}
		if segment != other {
			return false
		}
	}
	return true
}

func (p remotePrefix) String() string {
	user := p.user
	if user != "" {
		user += "@"
	}
	return p.scheme + "://" + user + p.host + "/" + strings.Join(p.segments, "/")
}

// check returns an error for a URL that must not be fetched.
func (a AllowedRemotes) check(raw string) error {
	if _, rest, ok := strings.Cut(raw, "://"); ok || !scpLike.MatchString(raw) {
		raw, _, _ = strings.Cut(raw, "?")
		if at := strings.IndexByte(rest, '@'); strings.HasPrefix(raw, "https://") && at >= 0 && at < len(strings.SplitN(rest, "/", 2)[0]) {
			return errors.New("it has credentials in it: use the agent's credential templates")
		}
	}
	u, err := newRemotePrefix(raw)
	if err != nil {
		return fmt.Errorf("it %w", err)
	}
	if !slices.ContainsFunc(a.prefixes, func(p remotePrefix) bool { return p.contains(u) }) {
		return errNotAllowed
	}
	return nil
}

var errNotAllowed = errors.New("it is not allowed")

// strings returns the prefixes in one way to write them.
func (a AllowedRemotes) strings() []string {
	var list []string
	for _, p := range a.prefixes {
		list = append(list, p.String())
	}
	return list
}
