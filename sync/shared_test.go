package sync

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// appliesToo applies a ConfigMap's mode as another manager, by force.
func (w *world) appliesToo(manager, name, mode string) {
	w.t.Helper()
	w.Kubectl(w.t, settings(name, mode), "-n", w.ns, "apply", "--server-side", "--force-conflicts", "--field-manager="+manager, "-f", "-")
}

func TestGitChangesFieldsThatOthersHaveToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := func(mode string) map[string]string {
		return map[string]string{
			"shop/person.yaml": settings("person", mode), "shop/applier.yaml": settings("applier", mode),
			"shop/both.yaml": settings("both", mode) + "  more: " + mode + "\n",
		}
	}
	first := w.git.Commit(all("one"), "one")
	w.app("shop")
	w.until("shop", synced(first))
	w.appliesToo("kubectl", "person", "one")
	w.appliesToo("flux", "applier", "one")
	w.appliesToo("flux", "both", "one")
	w.kubectl("patch", "configmap", "both", "--type=merge", "--field-manager=operator", "-p", `{"data":{"other":"x"}}`)
	w.looksAgain("shop") // who has the same value takes nothing

	second := w.git.Commit(all("two"), "two")
	app := w.until("shop", func(app *v1alpha1.Application) error {
		if s := app.Status.Sync; s.Status != v1alpha1.OutOfSync || s.Revision != second {
			return fmt.Errorf("want OutOfSync at %.7s, since another applier has two of the fields", second)
		}
		for _, name := range []string{"applier", "both"} {
			if d := driftOf(app, name); d == nil || d.Decision != "Hold" || d.Manager != "flux" {
				return fmt.Errorf("want the mode of %s held, got %+v", name, d)
			}
		}
		return nil
	})
	if d := driftOf(app, "person"); d != nil {
		t.Errorf("a person's field is taken without a word, got %+v", d)
	}
	w.eventually("two", func() string { return w.setting("person") })
	for _, name := range []string{"applier", "both"} {
		if got := w.setting(name); got != "one" {
			t.Errorf("%s is another applier's too and is not to be forced, got %s", name, got)
		}
	}
	w.eventually("two x", func() string {
		return w.kubectl("get", "configmap", "both", "-o", "jsonpath={.data.more} {.data.other}")
	})
	mark := w.AuditMark(t)
	w.refresh("shop")
	w.until("shop", func(app *v1alpha1.Application) error {
		if want := app.Annotations[v1alpha1.AnnotationRefresh]; app.Status.ObservedRefresh != want {
			return fmt.Errorf("want the refresh %s answered", want)
		}
		return nil
	})
	if got := w.writes(mark); len(got) != 0 {
		t.Errorf("what is held costs no request, got %v", got)
	}
}

func driftOf(app *v1alpha1.Application, name string) *v1alpha1.FieldDrift {
	for i, d := range app.Status.Drift {
		if d.Name == name && d.Path == ".data.mode" {
			return &app.Status.Drift[i]
		}
	}
	return nil
}

func TestAdditionsToEmptyValuesAreUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := strings.Replace(deployment, "resources:\n            requests: {cpu: 1000m, memory: 1024Mi}", "resources: {}", 1)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": empty}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	w.kubectl("set", "resources", "deployment", "web", "--limits=cpu=2")
	w.eventually("{}", func() string {
		return w.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].resources}")
	})
	w.until("shop", synced(commit))
}

func TestAutoscalerEditedInAnotherVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/hpa.yaml": hpa}, "first")
	w.app("shop")
	w.until("shop", syncedAt(commit))
	metrics := func() string {
		return w.kubectl("get", "hpa", "web", "-o", "jsonpath={.spec.metrics[*].resource.target.averageUtilization} {.spec.minReplicas}")
	}
	w.kubectl("patch", "hpa.v1.autoscaling", "web", "--type=merge", "--field-manager=kubectl-edit", "-p", `{"spec":{"targetCPUUtilizationPercentage":60,"minReplicas":5}}`)
	w.eventually("80 4", metrics)
	w.until("shop", syncedAt(commit))
	w.isQuiet("shop")
}
