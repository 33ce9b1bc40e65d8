package sync

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
)

// from lets an Application read another repository, with the credentials of a Secret, "" for none.
func from(url, revision, secret string) func(*v1alpha1.Application) {
	return func(app *v1alpha1.Application) {
		app.Spec.Source = v1alpha1.Source{RepoURL: url, Path: "shop", TargetRevision: revision}
		if secret != "" {
			app.Spec.Source.SecretRef = &v1alpha1.SecretReference{Name: secret}
		}
	}
}

func TestRepositoryThatCannotBeReadChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.Commit(map[string]string{"shop/settings.yaml": settings("settings", "good")}, "first")
	private := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "analytical-engine"})
	private.Commit(map[string]string{"shop/settings.yaml": settings("private", "good")}, "first")
	empty := gitserver.New(t, t.TempDir(), gitserver.Options{})
	gone := gitserver.New(t, t.TempDir(), gitserver.Options{})
	gone.Stop()
	w.kubectl("create", "secret", "generic", "wrong", "--from-literal=username=ada", "--from-literal=password=difference-engine")
	w.kubectl("create", "secret", "generic", "senseless", "--from-literal=pass=difference-engine")

	mark := w.AuditMark(t)
	for name, c := range map[string]struct {
		from      func(*v1alpha1.Application)
		condition string
		says      []string
	}{
		"server-away":        {from(gone.URL(), "", ""), v1alpha1.ConditionFetched, []string{strings.TrimSuffix(gone.URL(), ".git"), "cannot be reached"}},
		"no-such-repository": {from(strings.Replace(w.git.URL(), "repo.git", "typo.git", 1), "", ""), v1alpha1.ConditionFetched, []string{"/typo", "check the URL"}},
		"empty-repository":   {from(empty.URL(), "", ""), v1alpha1.ConditionFetched, []string{"the repository is empty: push a commit to it"}},
		"branch-absent":      {from(w.git.URL(), "mian", ""), v1alpha1.ConditionFetched, []string{`branch or tag "mian" does not exist: it has main`}},
		"commit-absent":      {from(w.git.URL(), strings.Repeat("ab", 20), ""), v1alpha1.ConditionFetched, []string{"commit abab", "does not exist"}},
		"no-credentials":     {from(private.URL(), "", ""), v1alpha1.ConditionFetched, []string{"authentication failed: set the Secret's keys username and password"}},
		"wrong-credentials":  {from(private.URL(), "", "wrong"), v1alpha1.ConditionFetched, []string{"authentication failed: the server does not take the Secret's keys username and password"}},
		"no-such-secret":     {from(private.URL(), "", "forgotten"), v1alpha1.ConditionFetched, []string{"Secret " + w.ns + "/forgotten", "not found"}},
		"senseless-secret":   {from(private.URL(), "", "senseless"), v1alpha1.ConditionFetched, []string{"Secret " + w.ns + "/senseless", "none of the keys that hold credentials: set some of username, password, bearerToken"}},
		"path-absent":        {func(app *v1alpha1.Application) { app.Spec.Source.Path = "shpo" }, v1alpha1.ConditionRendered, []string{`path "shpo" does not exist`, "in its root there are shop"}},
	} {
		w.app(name, c.from)
		t.Run(name, func(t *testing.T) {
			w := w.on(t)
			app := w.until(name, says(c.condition, c.says...))
			if app.Status.Sync.Status != v1alpha1.SyncUnknown || app.Status.Health.Status != "Unknown" || app.Status.Sync.Revision != "" {
				t.Errorf("nothing is known of it, yet the status is %+v and %+v", app.Status.Sync, app.Status.Health)
			}
			for _, c := range app.Status.Conditions {
				if strings.Contains(c.Message, "engine") {
					t.Errorf("a password is shown: %s", c.Message)
				}
			}
		})
	}
	if got := w.writes(mark); len(got) != 0 {
		t.Errorf("nothing could be read, yet the agent wrote %v", got)
	}
	if events := w.kubectl("get", "events", "-o", "yaml"); strings.Contains(events, "difference-engine") {
		t.Errorf("a password is shown: %s", events)
	}

	w.kubectl("patch", "secret", "wrong", "--type=merge", "-p", `{"stringData":{"password":"analytical-engine"}}`)
	w.until("wrong-credentials", synced(private.Rev("main")))
}

// TestSourceGoneAfterAGoodRevision is about sources that could be read once.
func TestSourceGoneAfterAGoodRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(map[string]string{"shop/settings.yaml": settings("branched", "good")}, "first")
	w.git.Branch("release", first)
	private := gitserver.New(t, t.TempDir(), gitserver.Options{Username: "ada", Password: "analytical-engine"})
	secret := private.Commit(map[string]string{"shop/settings.yaml": settings("private", "good")}, "first")
	w.kubectl("create", "secret", "generic", "git", "--from-literal=username=ada", "--from-literal=password=analytical-engine")
	w.app("branched", from(w.git.URL(), "release", ""))
	w.app("private", from(private.URL(), "", "git"))
	w.until("branched", synced(first))
	w.until("private", synced(secret))

	w.git.DeleteBranch("release")
	w.kubectl("patch", "secret", "git", "--type=merge", "-p", `{"stringData":{"password":"outdated"}}`)
	for range 2 { // the second time with an agent that remembers nothing
		for name, words := range map[string]string{"branched": `branch or tag "release" does not exist`, "private": "authentication failed"} {
			w.until(name, says(v1alpha1.ConditionFetched, words))
			w.heals(name)
			app := w.until(name, says(v1alpha1.ConditionFetched, words))
			if s := app.Status.Sync; s.Status != v1alpha1.Synced || s.Revision == "" {
				t.Errorf("the last good revision runs on, so Synced with it was wanted, got %+v", s)
			}
		}
		w.stop()
		w.start()
	}
}

// empties are commits that leave nothing of a folder with two ConfigMaps.
var empties = map[string][]gitserver.Change{
	"all-files-deleted": {{Path: "all-files-deleted/settings.yaml", Delete: true}, {Path: "all-files-deleted/README", Content: "moved"}},
	"only-comments":     {{Path: "only-comments/settings.yaml", Content: "# nothing to see here\n---\n# nor here\n"}},
	"no-resources": {
		{Path: "no-resources/settings.yaml", Delete: true},
		{Path: "no-resources/kustomization.yaml", Content: "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n"},
	},
	"empty-list": {{Path: "empty-list/settings.yaml", Content: "apiVersion: v1\nkind: List\nitems: []\n"}},
}

func TestRevisionWithoutObjectsPrunesNothingUnlessAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := map[string]string{}
	for name := range empties {
		files[name+"/settings.yaml"] = settings(name, "good") + "---\n" + settings(name+"-two", "good")
	}
	first := w.git.Commit(files, "first")
	for name := range empties {
		w.app(name)
	}
	for name := range empties {
		w.until(name, synced(first))
	}
	mark := w.AuditMark(t)
	var changes []gitserver.Change
	for _, c := range empties {
		changes = append(changes, c...)
	}
	second := w.git.CommitTo(gitserver.DefaultBranch, "nothing left", changes...)
	for name := range empties {
		w.until(name, func(app *v1alpha1.Application) error {
			ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
			switch {
			case ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "allowEmpty"):
				return errors.New("want a word about allowEmpty")
			case app.Status.Sync.Status == v1alpha1.Synced || app.Status.Sync.Revision != second:
				return fmt.Errorf("want the new revision, not Synced, got %+v", app.Status.Sync)
			case app.Status.Objects.Total != 2:
				return fmt.Errorf("want two objects, got %+v", app.Status.Objects)
			}
			return nil
		})
	}
	if got := w.writes(mark); len(got) != 0 {
		t.Errorf("nothing may be pruned, yet the agent wrote %v", got)
	}
	// An agent that remembers nothing knows it just as well.
	w.stop()
	w.start()
	for name := range empties {
		w.kubectl("patch", "application", name, "--type=merge", "-p", `{"spec":{"syncPolicy":{"automated":{"allowEmpty":true}}}}`)
	}
	for name := range empties {
		w.until(name, synced(second))
		if got := w.setting(name) + w.setting(name+"-two"); got != "" {
			t.Errorf("%s: both ConfigMaps should be pruned with allowEmpty", name)
		}
	}
}
