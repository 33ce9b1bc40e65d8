package sync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/trueup/trueup/sync/v1alpha1"
)

const labelled = `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels: {tier: front}
data:
  mode: production
`

func TestKubectlEditIsHealedAndTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment, "shop/settings.yaml": labelled}, "first")
	w.app("shop")
	w.until("shop", synced(commit))

	image := func() string {
		return w.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
	}
	w.kubectl("set", "image", "deployment/web", "web=nginx:latest")
	w.eventually("nginx:1.29", image)
	w.kubectl("label", "configmap", "settings", "tier=back", "--overwrite")
	w.kubectl("label", "configmap", "settings", "team=blue")
	w.eventually("front blue", func() string {
		return w.kubectl("get", "configmap", "settings", "-o", "jsonpath={.metadata.labels.tier} {.metadata.labels.team}")
	})
	w.kubectl("scale", "deployment", "web", "--replicas=5")
	w.eventually("2", w.replicas)
	w.kubectl("delete", "configmap", "settings")
	w.eventually("production", func() string { return w.setting("settings") })

	app := w.until("shop", synced(commit))
	if len(app.Status.Drift) != 0 {
		t.Errorf("what was healed is no drift any longer, got %+v", app.Status.Drift)
	}
	if h := app.Status.History; h[0].InitiatedBy != "self-heal" || h[0].Revision != commit {
		t.Errorf("the history should say that the last sync was self-heal, got %+v", h)
	}
	if h := app.Status.History; len(h) != 2 || h[0].Healed != 3 || h[0].Created != 1 {
		t.Errorf("the history should have the healing as one record of three objects healed and one made anew, got %+v", h)
	}
	for _, words := range []string{
		`Deployment ` + w.ns + `/web: .spec.template.spec.containers[name="web"].image: changed by kubectl-set`,
		`ConfigMap ` + w.ns + `/settings: .metadata.labels.tier: changed by kubectl-label`,
		`Deployment ` + w.ns + `/web: .spec.replicas: changed by kubectl (scale)`,
		`ConfigMap ` + w.ns + `/settings: was deleted, and is made anew`,
	} {
		w.eventually("told", func() string {
			if got := w.kubectl("get", "events", "--field-selector=reason=Healed,involvedObject.name=shop", "-o", "jsonpath={.items[*].message}"); !strings.Contains(got, words) {
				return fmt.Sprintf("no Event Healed with %q: %s", words, got)
			}
			return "told"
		})
	}
}

func TestKubectlEditIsShownWithManagerAndTimeWithoutSelfHeal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment, "shop/settings.yaml": labelled}, "first")
	w.app("shop", func(app *v1alpha1.Application) { app.Spec.SyncPolicy.Automated.SelfHeal = false })
	w.until("shop", synced(commit))
	mark, before := w.AuditMark(t), time.Now().Add(-time.Second).Truncate(time.Second)
	w.kubectl("set", "image", "deployment/web", "web=nginx:latest")
	w.kubectl("label", "configmap", "settings", "tier=back", "team=blue", "--overwrite")
	app := w.until("shop", func(app *v1alpha1.Application) error {
		if app.Status.Sync.Status != v1alpha1.OutOfSync || len(app.Status.Drift) != 2 {
			return fmt.Errorf("want OutOfSync with two fields")
		}
		return nil
	})
	for path, manager := range map[string]string{`.spec.template.spec.containers[name="web"].image`: "kubectl-set", ".metadata.labels.tier": "kubectl-label"} {
		d := drift(app, path)
		if d == nil || d.Manager != manager || d.Operation != "Update" || d.Decision != "Enforce" || d.Time == nil || d.Time.Time.Before(before) {
			t.Errorf("%s: want it changed by %s just now, got %+v", path, manager, d)
		}
	}
	if ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(ready.Message, "changed by kubectl-") {
		t.Errorf("the condition Ready should say who changed what, got %q", ready.Message)
	}
	if got := w.writes(mark); len(got) != 0 {
		t.Errorf("without selfHeal nothing is put back, yet the agent wrote %v", got)
	}
	// A new commit does not bring back what it does not touch: that is for a person to ask.
	w.kubectl("annotate", "application", "shop", v1alpha1.AnnotationSync+`=now`)
	app = w.until("shop", synced(commit))
	if len(app.Status.Drift) != 0 || app.Status.History[0].InitiatedBy != "a person" {
		t.Errorf("want the drift gone by a person's word, got %+v and %+v", app.Status.Drift, app.Status.History[0])
	}
}
