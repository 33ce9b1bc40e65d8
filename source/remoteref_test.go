package source

import (
	"strings"
	"testing"
)

func TestParseRemoteRef(t *testing.T) {
	tests := map[string]remoteRef{
		"https://github.com/org/repo//base?ref=v1":                      {repo: "https://github.com/org/repo", dir: "base", revision: "v1"},
		"https://github.com/org/repo?ref=v1":                            {repo: "https://github.com/org/repo", revision: "v1"},
		"https://github.com/org/repo":                                   {repo: "https://github.com/org/repo"},
		"https://github.com/org/repo.js":                                {repo: "https://github.com/org/repo.js"},
		"https://github.com/org/repo/deep/base?ref=main":                {repo: "https://github.com/org/repo", dir: "deep/base", revision: "main"},
		"github.com/org/repo/base?ref=v1&timeout=90s":                   {repo: "https://github.com/org/repo", dir: "base", revision: "v1"},
		"github.com/org/repo//base?version=v1":                          {repo: "https://github.com/org/repo", dir: "base", revision: "v1"},
		"git::https://git.example.com/a/b/c.git//x?ref=v1":              {repo: "https://git.example.com/a/b/c.git", dir: "x", revision: "v1"},
		"https://git.example.com/a/b/c.git/x/y":                         {repo: "https://git.example.com/a/b/c.git", dir: "x/y"},
		"https://git.example.com/a/b/c//x":                              {repo: "https://git.example.com/a/b/c", dir: "x"},
		"https://dev.azure.com/o/p/_git/r/x?ref=v1":                     {repo: "https://dev.azure.com/o/p/_git/r", dir: "x", revision: "v1"},
		"ssh://git@git.example.com:2222/org/repo.git/base":              {repo: "ssh://git@git.example.com:2222/org/repo.git", dir: "base"},
		"git@github.com:org/repo//base?ref=v1":                          {repo: "git@github.com:org/repo", dir: "base", revision: "v1"},
		"git@github.com:org/repo.git":                                   {repo: "git@github.com:org/repo.git"},
		"https://github.com/org/repo/releases/download/v1/install.yaml": {file: "https://github.com/org/repo/releases/download/v1/install.yaml"},
		"https://raw.example.com/org/repo/main/base.yaml?token=x":       {file: "https://raw.example.com/org/repo/main/base.yaml?token=x"},
		"https://example.com/manifests":                                 {file: "https://example.com/manifests"},
	}
	for raw, want := range tests {
		got, err := parseRemoteRef(raw)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", raw, got, err)
		}
		if again, err := parseRemoteRef(got.input()); err != nil || again.repo != got.repo || again.revision != got.revision || again.file != got.file {
			t.Errorf("%s: its input %s reads as %+v, %v", raw, got.input(), again, err)
		}
	}
	for raw, want := range map[string]string{
		"http://github.com/org/repo":         "only https and ssh are fetched, not http",
		"file:///etc//x":                     "only https and ssh are fetched, not file",
		"git://github.com/org/repo":          "only https and ssh are fetched, not git",
		"github.com/org":                     "it names no repository",
		"github.com/org/repo//../../x?ref=a": "leaves the repository",
	} {
		if got, err := parseRemoteRef(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %s", raw, got, err, want)
		}
	}
}

func TestAllowedRemotes(t *testing.T) {
	allowed, err := NewAllowedRemotes([]string{"https://GitHub.com:443/org", "https://git.example.com", "git@gitlab.com:team/", "ssh://ssh.example.com/a/b.git"})
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]bool{
		"https://github.com/org/repo":             true,
		"https://github.com/org":                  true,
		"https://github.com/org/repo/x.yaml?a=..": true,
		"https://github.com/organization/repo":    false,
		"https://github.com/":                     false,
		"https://github.com:444/org/repo":         false,
		"https://github.com.evil.com/org/repo":    false,
		"https://github.com@evil.com/org/repo":    false,
		"https://user:pw@github.com/org/repo":     false,
		"https://github.com/org/../evil/repo":     false,
		"https://github.com/org/%2e%2e/evil":      false,
		"https://github.com/org%2f..%2fevil":      false,
		`https://github.com/org\..\evil`:          false,
		"https://github.com/evil/../org/repo":     false,
		"http://github.com/org/repo":              false,
		"ssh://git@github.com/org/repo":           false,
		"https://git.example.com/any/thing":       true,
		"git@gitlab.com:team/repo":                true,
		"ssh://git@gitlab.com/team/repo":          true,
		"ssh://root@gitlab.com/team/repo":         false,
		"git@gitlab.com:teams/repo":               false,
		"ssh://any@ssh.example.com/a/b":           true,
		"file:///org":                             false,
	} {
		if err := allowed.check(url); (err == nil) != want {
			t.Errorf("%s: got %v", url, err)
		}
	}
	for prefix, want := range map[string]string{
		"http://github.com/":        "must begin with https:// or ssh://",
		"github.com/org":            "must begin with https:// or ssh://",
		"https://u:p@github.com/":   "must have no credentials in it",
		"https://github.com/a?b=c":  "must have no query",
		"https:///a":                "needs a host",
		"https://github.com/a/../b": "has dots for folders",
	} {
		if _, err := NewAllowedRemotes([]string{prefix}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: got %v, want %s", prefix, err, want)
		}
	}
}
