package source

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want, err string }{
		"https":                            {raw: "https://example.com/org/repo", want: "https://example.com/org/repo"},
		"ways to write the same":           {raw: "https://user:pw@Example.com:443/org/repo.git/", want: "https://example.com/org/repo"},
		"a port":                           {raw: "http://example.com:8080/r", want: "http://example.com:8080/r"},
		"ssh":                              {raw: "ssh://git@example.com/org/repo.git", want: "ssh://git@example.com/org/repo"},
		"scp-like":                         {raw: "git@example.com:org/repo.git", want: "ssh://git@example.com/~/org/repo"},
		"scp-like with an absolute path":   {raw: "git@example.com:/org/repo.git", want: "ssh://git@example.com/org/repo"},
		"a folder":                         {raw: "file:///srv/repo.git", want: "file:///srv/repo.git"},
		"a folder without scheme":          {raw: "/srv/repo", err: "write file:///srv/repo"},
		"a folder with two slashes":        {raw: "file://srv/repo", err: "three slashes"},
		"no scheme":                        {raw: "example.com/org/repo", err: "has no scheme"},
		"a scheme that Git has and we not": {raw: "git://example.com/r", err: "scheme git is not supported"},
		"a scheme that runs programs":      {raw: "ext::sh -c x", err: "no scheme"},
		"no path":                          {raw: "https://example.com/", err: "needs a host and a path"},
		"malformed":                        {raw: "https://u:pa%ss@example.com/r", err: `"https://example.com/r" is malformed`},
		"nothing":                          {raw: "", err: "has no scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := parseURL(tc.raw)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error = %v, want %q", err, tc.err)
				}
				if strings.Contains(err.Error(), "pa%ss") {
					t.Errorf("the error tells the password: %v", err)
				}
				return
			}
			if err != nil || u.String() != tc.want {
				t.Errorf("parseURL = %s, %v, want %s", u, err, tc.want)
			}
		})
	}
}

func TestRedactURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://user:secret@host/x.git":         "https://host/x.git",
		"https://user:sec%ret@host/x.git":        "https://host/x.git",
		"https://user:sec/ret@host/x.git":        "https://host/x.git",
		"https://user:sec@ret@host/x.git":        "https://host/x.git",
		"https://host/x.git?access_token=secret": "https://host/x.git",
		"git@host:x.git":                         "git@host:x.git",
	} {
		if got := RedactURL(raw); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}
