package source

import (
	"strings"
	"testing"
)

func TestTheLongestPrefixWins(t *testing.T) {
	var ts Templates
	for _, prefix := range []string{
		"https://github.com", "https://github.com/acme", "https://github.com/acme/shop.git", "https://github.com:8443/acme",
		"git@github.com:acme/", "ssh://github.com", "ssh://deploy@git.example.com:2222/team", "https://org@dev.azure.com/org/",
	} {
		tmpl, err := NewTemplate(prefix, prefix, Auth{Password: prefix})
		if err != nil {
			t.Fatal(err)
		}
		ts = append(ts, tmpl)
	}
	for url, want := range map[string]string{
		"https://github.com/acme/shop":                      "https://github.com/acme/shop.git",
		"https://github.com/acme/shop.git":                  "https://github.com/acme/shop.git",
		"https://GitHub.com:443/acme/shop/":                 "https://github.com/acme/shop.git",
		"https://github.com/acme/shop-evil":                 "https://github.com/acme",
		"https://github.com/acme-evil/shop":                 "https://github.com",
		"https://github.com/acme/a/b/c":                     "https://github.com/acme",
		"https://github.com:8443/acme/shop":                 "https://github.com:8443/acme",
		"https://github.com:8443/acme-evil/shop":            "",
		"https://github.com.evil.example/acme/shop":         "",
		"https://evil.example/github.com/acme/shop":         "",
		"https://github.com@evil.example/acme/shop":         "",
		"http://github.com/acme/shop":                       "", // never in the clear what is for TLS
		"https://github.com/acme/../acme-evil/shop":         "",
		"https://github.com/acme/%2e%2e/acme-evil/shop":     "",
		"https://github.com/acme%2f..%2facme-evil/shop":     "",
		"https://github.com/acme//shop":                     "",
		"https://github.com/acme/%252e%252e/acme-evil/shop": "",
		"git@github.com:acme/shop":                          "git@github.com:acme/",
		"ssh://git@github.com:22/acme/shop.git":             "git@github.com:acme/",
		"git@github.com:acme-evil/shop":                     "ssh://github.com",
		"other@github.com:acme/shop":                        "ssh://github.com",
		"ssh://deploy@git.example.com:2222/team/shop":       "ssh://deploy@git.example.com:2222/team",
		"ssh://deploy@git.example.com/team/shop":            "",
		"https://me@dev.azure.com/org/project/_git/repo":    "https://org@dev.azure.com/org/",
		"file:///github.com/acme/shop":                      "",
		"nothing":                                           "",
	} {
		got, ok, err := ts.For(url)
		if err != nil || got.Name != want || ok != (want != "") || got.Auth.Password != want {
			t.Errorf("For(%s) = %q, %t, %v, want %q", url, got.Name, ok, err, want)
		}
	}
}

func TestTemplatesForTheSameURLs(t *testing.T) {
	var ts Templates
	for name, prefix := range map[string]string{"one": "https://github.com/acme", "two": "https://GitHub.com:443/acme/"} {
		tmpl, err := NewTemplate(name, prefix, Auth{})
		if err != nil {
			t.Fatal(err)
		}
		ts = append(ts, tmpl)
	}
	if _, ok, err := ts.For("https://github.com/acme/shop"); ok || err == nil || !strings.Contains(err.Error(), "are for the same URLs: keep one of them") {
		t.Errorf("For = %t, %v, want an error", ok, err)
	}
	if _, ok, err := ts.For("https://github.com/other/shop"); ok || err != nil {
		t.Errorf("For another = %t, %v, want nothing", ok, err)
	}
}

func TestPrefixesThatAreNone(t *testing.T) {
	for _, prefix := range []string{"", "github.com/acme", "https://", "https://user:SECRET@%zz/x", "/srv/git"} {
		if _, err := NewTemplate("t", prefix, Auth{}); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("NewTemplate(%q): %v", prefix, err)
		}
	}
}

func TestSameServer(t *testing.T) {
	const at = "https://git.example.com/team/shop.git"
	for url, want := range map[string]bool{
		"https://git.example.com/lib":      true,
		"https://git.example.com:443/lib":  true,
		"https://git.example.com:8443/lib": false,
		"http://git.example.com/lib":       false,
		"git@git.example.com:lib":          false,
		"https://example.com/lib":          false,
		"nothing":                          false,
	} {
		if got := SameServer(at, url); got != want {
			t.Errorf("SameServer(%s) = %t, want %t", url, got, want)
		}
	}
}
