package sync

import (
	"fmt"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
)

func TestRemoteBases(t *testing.T) {
	t.Parallel()
	other := gitserver.New(t, t.TempDir(), gitserver.Options{TLS: true, Username: "ada", Password: "analytical-engine"})
	other.Commit(map[string]string{"base/kustomization.yaml": "resources: [settings.yaml]\n", "base/settings.yaml": settings("remote", "first")}, "first")
	w := newWorld(t, func(c *Config) { c.KustomizeAllowedRemotes = []string{other.URL()} })
	commit := w.git.Commit(map[string]string{"shop/kustomization.yaml": fmt.Sprintf("resources: [\"%s//base?ref=main\"]\n", other.URL())}, "first")
	w.app("shop")
	w.until("shop", says(v1alpha1.ConditionRendered, "shop/kustomization.yaml:1: resources: fetching "+other.URL()))
	w.labelledSecret("other", templateSelector, "url", other.URL(), "username", "ada", "password", "analytical-engine", "ca.crt", string(other.CA()))
	w.until("shop", synced(commit))
	if got := w.setting("remote"); got != "first" {
		t.Errorf("the setting is %q", got)
	}
	// A commit to the other repository is one to this Application.
	other.Commit(map[string]string{"base/settings.yaml": settings("remote", "second")}, "second")
	w.until("shop", func(app *v1alpha1.Application) error {
		if got := w.setting("remote"); got != "second" {
			return fmt.Errorf("the setting is %q", got)
		}
		return synced(commit)(app)
	})
	// The last good state runs on while the other server is away.
	other.Stop()
	w.until("shop", says(v1alpha1.ConditionRendered, "fetching "+other.URL()))
	w.heals("remote")
	// An agent that starts now does not know less.
	w.stop()
	w.start()
	w.heals("remote")
	w.hidesEverywhere("analytical-engine")
}
