package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const secret = "hook-secret"

func mac(body, key string) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(body))
	return hex.EncodeToString(h.Sum(nil))
}

// call is a call as a provider makes it: what it tells, and how it proves who it is.
type call struct {
	event   http.Header
	body    string
	proof   func(body, secret string) (header, value string)
	want    Event
	matches []string
}

func header(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(kv); i += 2 {
		h.Set(kv[i], kv[i+1])
	}
	return h
}

func hub(name, prefix string) func(string, string) (string, string) {
	return func(body, key string) (string, string) { return name, prefix + mac(body, key) }
}

var calls = map[Provider]call{
	GitHub: {
		event: header("X-GitHub-Event", "push"),
		body:  `{"ref":"refs/heads/main","repository":{"full_name":"Org/Repo","clone_url":"https://github.com/Org/Repo.git","ssh_url":"git@github.com:Org/Repo.git","git_url":"git://github.com/Org/Repo.git","html_url":"https://github.com/Org/Repo"},"commits":[]}`,
		proof: hub("X-Hub-Signature-256", "sha256="),
		want: Event{
			URLs: []string{"https://github.com/Org/Repo.git", "git@github.com:Org/Repo.git", "git://github.com/Org/Repo.git", "https://github.com/Org/Repo"},
			Refs: []string{"refs/heads/main"},
		},
		matches: []string{"https://github.com/org/repo", "https://user:pw@github.com/Org/Repo.git", "git@github.com:Org/Repo", "ssh://git@github.com:22/Org/Repo.git", "ssh://git@github.com/Org/Repo"},
	},
	Gitea: {
		event:   header("X-Gitea-Event", "push"),
		body:    `{"ref":"refs/tags/v1","repository":{"clone_url":"http://gitea:3000/org/repo.git","ssh_url":"ssh://git@gitea:2222/org/repo.git","html_url":"http://gitea:3000/org/repo"}}`,
		proof:   hub("X-Gitea-Signature", ""),
		want:    Event{URLs: []string{"http://gitea:3000/org/repo.git", "ssh://git@gitea:2222/org/repo.git", "http://gitea:3000/org/repo"}, Refs: []string{"refs/tags/v1"}},
		matches: []string{"http://gitea:3000/org/repo", "git@gitea:org/repo.git"},
	},
	GitLab: {
		event:   header("X-Gitlab-Event", "Push Hook"),
		body:    `{"event_name":"push","ref":"refs/heads/main","project":{"git_http_url":"https://gitlab.com/a/b/c.git","git_ssh_url":"git@gitlab.com:a/b/c.git","web_url":"https://gitlab.com/a/b/c"}}`,
		proof:   func(_, key string) (string, string) { return "X-Gitlab-Token", key },
		want:    Event{URLs: []string{"https://gitlab.com/a/b/c.git", "git@gitlab.com:a/b/c.git", "https://gitlab.com/a/b/c"}, Refs: []string{"refs/heads/main"}},
		matches: []string{"https://gitlab.com/a/b/c.git"},
	},
	Bitbucket: {
		event:   header("X-Event-Key", "repo:push"),
		body:    `{"push":{"changes":[{"new":{"type":"branch","name":"main"},"old":{"type":"branch","name":"main"}},{"new":null,"old":{"type":"tag","name":"v1"}}]},"repository":{"full_name":"org/repo","links":{"html":{"href":"https://bitbucket.org/org/repo"}}}}`,
		proof:   hub("X-Hub-Signature", "sha256="),
		want:    Event{URLs: []string{"https://bitbucket.org/org/repo"}, Refs: []string{"refs/heads/main", "refs/tags/v1"}},
		matches: []string{"git@bitbucket.org:org/repo.git"},
	},
	BitbucketServer: {
		event:   header("X-Event-Key", "repo:refs_changed"),
		body:    `{"repository":{"slug":"repo","links":{"clone":[{"href":"https://bb.example.com/scm/p/repo.git","name":"http"},{"href":"ssh://git@bb.example.com:7999/p/repo.git","name":"ssh"}]}},"changes":[{"ref":{"id":"refs/heads/main"},"type":"UPDATE"}]}`,
		proof:   hub("X-Hub-Signature", "sha256="),
		want:    Event{URLs: []string{"https://bb.example.com/scm/p/repo.git", "ssh://git@bb.example.com:7999/p/repo.git"}, Refs: []string{"refs/heads/main"}},
		matches: []string{"https://bb.example.com/scm/p/repo", "ssh://git@bb.example.com:7999/p/repo"},
	},
	AzureDevOps: {
		event: header(),
		body:  `{"eventType":"git.push","resource":{"repository":{"remoteUrl":"https://org@dev.azure.com/org/project/_git/repo"},"refUpdates":[{"name":"refs/heads/main"}]}}`,
		proof: func(_, key string) (string, string) {
			return "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(key))
		},
		want:    Event{URLs: []string{"https://org@dev.azure.com/org/project/_git/repo"}, Refs: []string{"refs/heads/main"}},
		matches: []string{"https://dev.azure.com/org/project/_git/repo"},
	},
	Generic: {
		event:   header(),
		body:    `{"url":"https://git.example.com/a/b.git"}`,
		proof:   hub("X-Signature", "sha256="),
		want:    Event{URLs: []string{"https://git.example.com/a/b.git"}},
		matches: []string{"https://git.example.com/a/b"},
	},
}

func secretOf(p Provider) string {
	if p == AzureDevOps {
		return "user:" + secret
	}
	return secret
}

func (c call) header(body, key string) http.Header {
	h := c.event.Clone()
	name, value := c.proof(body, key)
	h.Set(name, value)
	return h
}

func TestEachProvider(t *testing.T) {
	if len(calls) != len(providers) {
		t.Fatalf("%d providers are tested of %d", len(calls), len(providers))
	}
	for provider, c := range calls {
		key := secretOf(provider)
		t.Run(string(provider), func(t *testing.T) {
			got, err := Parse(provider, c.header(c.body, key), []byte(c.body), []byte(key))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			for _, u := range c.matches {
				if !got.Matches(u) {
					t.Errorf("it does not match %s", u)
				}
			}
			for _, u := range []string{"https://example.com/other/repo", "", "https://github.com/", "/srv/repo", "file:///org/repo"} {
				if got.Matches(u) {
					t.Errorf("it matches %q", u)
				}
			}
		})
		t.Run(string(provider)+" without proof", func(t *testing.T) {
			forged := c.header(c.body, key+"x")
			empty := c.event.Clone()
			name, _ := c.proof(c.body, key)
			empty.Set(name, "")
			for what, try := range map[string]struct {
				header    http.Header
				body, key string
			}{
				"none":             {c.event, c.body, key},
				"an empty one":     {empty, c.body, key},
				"another secret":   {forged, c.body, key},
				"no secret is set": {c.header(c.body, ""), c.body, ""},
				"a broken body":    {forged, `{"ref":`, key},
			} {
				if e, err := Parse(provider, try.header, []byte(try.body), []byte(try.key)); !errors.Is(err, ErrUnauthorized) {
					t.Errorf("%s: %v, %v, want ErrUnauthorized", what, e, err)
				}
			}
			if provider != GitLab && provider != AzureDevOps { // their proof does not cover the body
				if e, err := Parse(provider, c.header(c.body, key), []byte(c.body+" "), []byte(key)); !errors.Is(err, ErrUnauthorized) {
					t.Errorf("a changed body: %v, %v, want ErrUnauthorized", e, err)
				}
			}
		})
		t.Run(string(provider)+" with nonsense", func(t *testing.T) {
			for _, body := range []string{"", "{", "[]", "null", `{"repository":1}`, `{"project":[]}`, `{"eventType":"git.push"}`, `{"url":"::"}`, `{"repository":{"clone_url":"nothing"}}`} {
				e, err := Parse(provider, c.header(body, key), []byte(body), []byte(key))
				if err == nil && len(e.URLs) != 0 {
					t.Errorf("%s: %v", body, e)
				}
				if err != nil && !errors.Is(err, ErrMalformed) {
					t.Errorf("%s: %v, want ErrMalformed", body, err)
				}
			}
		})
	}
}

func TestCallsThatTellOfNoPush(t *testing.T) {
	for name, tc := range map[string]struct {
		provider Provider
		event    http.Header
		body     string
	}{
		"GitHub's ping":           {GitHub, header("X-GitHub-Event", "ping"), `{"zen":"x"}`},
		"an issue":                {Gitea, header("X-Gitea-Event", "issues"), `{}`},
		"a GitLab user is made":   {GitLab, header("X-Gitlab-Event", "System Hook"), `{"event_name":"user_create"}`},
		"Bitbucket's diagnostics": {BitbucketServer, header("X-Event-Key", "diagnostics:ping"), `{"test":true}`},
		"a pull request":          {AzureDevOps, header(), `{"eventType":"git.pullrequest.created"}`},
	} {
		t.Run(name, func(t *testing.T) {
			key := secretOf(tc.provider)
			c := calls[tc.provider]
			c.event = tc.event
			e, err := Parse(tc.provider, c.header(tc.body, key), []byte(tc.body), []byte(key))
			if err != nil || len(e.URLs) != 0 {
				t.Errorf("Parse = %v, %v, want nothing", e, err)
			}
		})
	}
}

func TestReceive(t *testing.T) {
	c := calls[GitHub]
	form := "payload=" + url.QueryEscape(c.body)
	formHeader := c.header(form, secret)
	formHeader.Set("Content-Type", "application/x-www-form-urlencoded")
	large := strings.Repeat(" ", MaxBody) + "{}"
	for name, tc := range map[string]struct {
		provider Provider
		header   http.Header
		body     io.Reader
		status   int
	}{
		"JSON":               {GitHub, c.header(c.body, secret), strings.NewReader(c.body), http.StatusAccepted},
		"a form":             {GitHub, formHeader, strings.NewReader(form), http.StatusAccepted},
		"a forged call":      {GitHub, c.header(c.body, "x"), strings.NewReader(c.body), http.StatusUnauthorized},
		"a large call":       {GitHub, c.header(large, secret), strings.NewReader(large), http.StatusRequestEntityTooLarge},
		"a call without end": {GitHub, c.header("", secret), endless{}, http.StatusRequestEntityTooLarge},
		"a call that breaks": {GitHub, c.header("", secret), io.MultiReader(strings.NewReader("{"), broken{}), http.StatusBadRequest},
		"nonsense, signed":   {GitHub, c.header("{", secret), strings.NewReader("{"), http.StatusBadRequest},
		"no such provider":   {"svn", c.header(c.body, secret), strings.NewReader(c.body), http.StatusBadRequest},
		"nothing, signed":    {Generic, header("X-Signature", "sha256="+mac("", secret)), bytes.NewReader(nil), http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest(http.MethodPost, "/", tc.body)
			req.Header = tc.header
			e, err := Receive(req, tc.provider, []byte(secret))
			if got := Status(err); got != tc.status {
				t.Errorf("status %d (%v), want %d", got, err, tc.status)
			}
			if (err == nil) != (len(e.URLs) > 0) {
				t.Errorf("event %v with error %v", e, err)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("reset") }

func FuzzParse(f *testing.F) {
	for provider, c := range calls {
		f.Add(string(provider), c.body, "https://github.com/org/repo")
	}
	f.Fuzz(func(t *testing.T, name, body, repo string) {
		provider := Provider(name)
		c, ok := calls[provider]
		if !ok {
			return
		}
		key := secretOf(provider)
		e, err := Parse(provider, c.header(body, key), []byte(body), []byte(key))
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("Parse: %v", err)
		}
		if err != nil && len(e.URLs) > 0 {
			t.Errorf("both an event and an error: %v, %v", e, err)
		}
		e.Matches(repo)
		if _, err := Parse(provider, c.event, []byte(body), []byte(key)); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("without proof: %v", err)
		}
	})
}
