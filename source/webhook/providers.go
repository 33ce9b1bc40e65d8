package webhook

import "net/http"

var providers = map[Provider]provider{
	GitHub: {
		authentic: signed("sha256=", "X-Hub-Signature-256"),
		isPush:    event([]string{"X-GitHub-Event"}, "push", "create", "delete"),
		parse:     parseGitHub,
	},
	Gitea: {
		authentic: signed("", "X-Gitea-Signature", "X-Forgejo-Signature", "X-Gogs-Signature"),
		isPush:    event([]string{"X-Gitea-Event", "X-Forgejo-Event", "X-Gogs-Event"}, "push", "create", "delete"),
		parse:     parseGitHub,
	},
	GitLab: {
		authentic: func(header http.Header, _, secret []byte) bool { return same(header.Get("X-Gitlab-Token"), secret) },
		isPush:    event([]string{"X-Gitlab-Event"}, "Push Hook", "Tag Push Hook", "System Hook"),
		parse:     parseGitLab,
	},
	Bitbucket: {
		authentic: signed("sha256=", "X-Hub-Signature"),
		isPush:    event([]string{"X-Event-Key"}, "repo:push"),
		parse:     parseBitbucket,
	},
	BitbucketServer: {
		authentic: signed("sha256=", "X-Hub-Signature"),
		isPush:    event([]string{"X-Event-Key"}, "repo:refs_changed"),
		parse:     parseBitbucketServer,
	},
	AzureDevOps: {
		// The secret is "username:password" of basic authentication, the one thing that a service hook can send.
		authentic: func(header http.Header, _, secret []byte) bool {
			username, password, ok := (&http.Request{Header: header}).BasicAuth()
			return ok && same(username+":"+password, secret)
		},
		isPush: func(http.Header) bool { return true }, // the body says
		parse:  parseAzureDevOps,
	},
	Generic: {
		authentic: signed("sha256=", "X-Signature"),
		isPush:    func(http.Header) bool { return true },
		parse:     parseGeneric,
	},
}

// parseGitHub reads the calls of GitHub and of those that took its format over.
func parseGitHub(body []byte) (Event, error) {
	var call struct {
		Ref        string
		Repository struct {
			CloneURL string `json:"clone_url"`
			SSHURL   string `json:"ssh_url"`
			GitURL   string `json:"git_url"`
			HTMLURL  string `json:"html_url"`
		}
	}
	if err := unmarshal(body, &call); err != nil {
		return Event{}, err
	}
	r := call.Repository
	return newEvent([]string{r.CloneURL, r.SSHURL, r.GitURL, r.HTMLURL}, []string{call.Ref})
}

func parseGitLab(body []byte) (Event, error) {
	var call struct {
		EventName string `json:"event_name"`
		Ref       string
		Project   struct {
			HTTPURL string `json:"git_http_url"`
			SSHURL  string `json:"git_ssh_url"`
			WebURL  string `json:"web_url"`
		}
	}
	if err := unmarshal(body, &call); err != nil {
		return Event{}, err
	}
	switch call.EventName {
	case "push", "tag_push", "repository_update", "":
	default: // system hooks tell of much else
		return Event{}, nil
	}
	p := call.Project
	return newEvent([]string{p.HTTPURL, p.SSHURL, p.WebURL}, []string{call.Ref})
}

func parseBitbucket(body []byte) (Event, error) {
	type ref struct{ Type, Name string }
	var call struct {
		Repository struct {
			Links struct{ HTML struct{ Href string } }
		}
		Push struct {
			Changes []struct{ New, Old *ref }
		}
	}
	if err := unmarshal(body, &call); err != nil {
		return Event{}, err
	}
	var refs []string
	for _, c := range call.Push.Changes {
		for _, r := range []*ref{c.New, c.Old} {
			if r == nil {
				continue
			}
			prefix := "refs/heads/"
			if r.Type == "tag" {
				prefix = "refs/tags/"
			}
			refs = append(refs, prefix+r.Name)
			break
		}
	}
	return newEvent([]string{call.Repository.Links.HTML.Href}, refs)
}

func parseBitbucketServer(body []byte) (Event, error) {
	var call struct {
		Repository struct {
			Links struct{ Clone []struct{ Href string } }
		}
		Changes []struct{ Ref struct{ ID string } }
	}
	if err := unmarshal(body, &call); err != nil {
		return Event{}, err
	}
	var urls, refs []string
	for _, l := range call.Repository.Links.Clone {
		urls = append(urls, l.Href)
	}
	for _, c := range call.Changes {
		refs = append(refs, c.Ref.ID)
	}
	return newEvent(urls, refs)
}

func parseAzureDevOps(body []byte) (Event, error) {
	var call struct {
		EventType string
		Resource  struct {
			Repository struct{ RemoteURL, SSHURL, WebURL string }
			RefUpdates []struct{ Name string }
		}
	}
	if err := unmarshal(body, &call); err != nil {
		return Event{}, err
	}
	if call.EventType != "git.push" {
		return Event{}, nil
	}
	var refs []string
	for _, u := range call.Resource.RefUpdates {
		refs = append(refs, u.Name)
	}
	r := call.Resource.Repository
	return newEvent([]string{r.RemoteURL, r.SSHURL, r.WebURL}, refs)
}

// parseGeneric reads {"url": "…", "ref": "…"}, for servers and scripts that have no format of their own.
func parseGeneric(body []byte) (Event, error) {
	var call struct{ URL, Ref string }
	if err := unmarshal(body, &call); err != nil {
		return Event{}, err
	}
	return newEvent([]string{call.URL}, []string{call.Ref})
}
