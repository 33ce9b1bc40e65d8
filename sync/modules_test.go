package sync

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
)

// withModule commits a folder app of a repository, with a kustomization over a submodule.
func withModule(repo *gitserver.Repository, app, url, commit string) string {
	return repo.CommitTo("main", "module for "+app,
		gitserver.Change{Path: "lib", Content: commit, Gitlink: true},
		gitserver.Change{Path: ".gitmodules", Content: fmt.Sprintf("[submodule \"lib\"]\n\tpath = lib\n\turl = %s\n", url)},
		gitserver.Change{Path: app + "/kustomization.yaml", Content: "resources: [../lib/base]\n"})
}

func TestSubmodules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lib := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "analytical-engine"})
	pinned := lib.CommitTo("main", "lib", gitserver.Change{Path: "base/kustomization.yaml", Content: "resources: [a.yaml]\n"},
		gitserver.Change{Path: "base/a.yaml", Content: settings("from-lib", "good")})
	first := withModule(w.git, "shop", lib.URL(), pinned)

	// Whoever can push to the repository must not choose whom the agent talks to.
	w.app("shop")
	app := w.until("shop", says(v1alpha1.ConditionFetched, "submodule lib", "is on another server than the repository: allow it in the agent's setting submodule-hosts"))
	if n := lib.Requests(); n.Refs+n.Packs != 0 || app.Status.Sync.Revision != "" {
		t.Errorf("the server was asked %+v", n)
	}
	// A server that there are credentials for is one of ours, and gets its own.
	w.labelledSecret("lib", templateSelector, "url", strings.TrimSuffix(lib.URL(), "/repo.git"), "username", "ada", "password", "analytical-engine")
	w.refresh("shop")
	w.until("shop", synced(first))
	if got := w.setting("from-lib"); got != "good" {
		t.Errorf("the submodule's ConfigMap has %q", got)
	}

	// Switched off, a submodule is an empty folder.
	off := false
	w.app("off", func(app *v1alpha1.Application) { app.Spec.Source.Path, app.Spec.Source.Submodules = "shop", &off })
	w.until("off", says(v1alpha1.ConditionRendered, "lib"))
}

func TestSubmodulesOnTheSameServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The repository itself is the submodule, by a relative URL, and the Secret that the Application names is for its server.
	repo := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "analytical-engine"})
	lib := repo.CommitTo("main", "lib", gitserver.Change{Path: "base/kustomization.yaml", Content: "resources: [a.yaml]\n"},
		gitserver.Change{Path: "base/a.yaml", Content: settings("relative", "good")})
	first := withModule(repo, "shop", "../repo.git", lib)
	w.secret("git", "username", "ada", "password", "analytical-engine")
	w.app("shop", from(repo.URL(), "", "git"))
	w.until("shop", synced(first))

	// To another server it is not shown, allowed or not.
	elsewhere := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "analytical-engine"})
	pinned := elsewhere.CommitTo("main", "lib", gitserver.Change{Path: "base/a.yaml", Content: settings("elsewhere", "good")})
	withModule(repo, "shop", elsewhere.URL(), pinned)
	w.stop()
	w.config.SubmoduleHosts = []string{"127.0.0.1:*"}
	w.start()
	w.until("shop", says(v1alpha1.ConditionFetched, "submodule lib", "authentication failed: set the Secret's keys username and password"))
	w.heals("relative")
}
