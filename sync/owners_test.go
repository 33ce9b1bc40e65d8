package sync

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

const hpa = `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 4
  maxReplicas: 8
  metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}
`

func (w *world) replicas() string {
	w.t.Helper()
	return w.kubectl("get", "deployment", "web", "--ignore-not-found", "-o", "jsonpath={.spec.replicas}")
}

// syncedAt wants the Application Synced at a commit, whatever its health: the HPAs here have no metrics.
func syncedAt(commit string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		if s := app.Status.Sync; s.Status != v1alpha1.Synced || s.SyncedRevision != commit {
			return fmt.Errorf("want Synced at %.7s, got %s at %.7s", commit, s.Status, s.SyncedRevision)
		}
		return nil
	}
}

func (w *world) eventually(want string, get func() string) {
	w.t.Helper()
	kubetest.Eventually(w.t, patience, func() error {
		if got := get(); got != want {
			return fmt.Errorf("want %s, got %s", want, got)
		}
		return nil
	})
}

// sizes tells each value of spec.replicas that the Deployment had since it was made, from the ReplicaSet's and the
// Deployment's own events: a value that was there for a moment only is seen too.
func (w *world) sizes() string {
	w.t.Helper()
	return w.kubectl("get", "events", "--field-selector=involvedObject.kind=Deployment", "-o", "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}")
}

func drift(app *v1alpha1.Application, path string) *v1alpha1.FieldDrift {
	for i, d := range app.Status.Drift {
		if d.Path == path {
			return &app.Status.Drift[i]
		}
	}
	return nil
}

func TestAutoscalerOwnsReplicas(t *testing.T) {
	for name, place := range map[string]string{
		"in the same commit":     "shop/hpa.yaml",
		"in another Application": "other/hpa.yaml",
		"made by hand":           "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			files := map[string]string{"shop/web.yaml": deployment}
			if place != "" {
				files[place] = hpa
			} else {
				w.Kubectl(t, hpa, "apply", "-n", w.ns, "-f", "-")
			}
			commit := w.git.Commit(files, "first")
			w.app("shop")
			if strings.HasPrefix(place, "other") {
				w.app("other")
			}
			w.eventually("4", w.replicas)
			yields := func(app *v1alpha1.Application) error {
				d := drift(app, ".spec.replicas")
				if d == nil || d.Decision != "Yield" || !strings.Contains(d.Reason, "replicas is the HPA's") {
					return fmt.Errorf("want replicas yielded to the HPA, got %+v", d)
				}
				return syncedAt(commit)(app)
			}
			w.until("shop", yields)

			// Git changes it: still the HPA's, and the rest of the commit arrives.
			mark := w.AuditMark(t)
			commit = w.git.Commit(map[string]string{"shop/web.yaml": strings.NewReplacer("replicas: 2", "replicas: 1", "nginx:1.29", "nginx:1.30").Replace(deployment)}, "change")
			w.until("shop", yields)
			if got := w.replicas(); got != "4" {
				t.Errorf("replicas after Git changed it: got %s, want 4", got)
			}
			if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"); got != "nginx:1.30" {
				t.Errorf("image: got %s", got)
			}

			// Git drops it, and adds it again.
			commit = w.git.Commit(map[string]string{"shop/web.yaml": strings.ReplaceAll(deployment, "  replicas: 2\n", "")}, "drop")
			w.until("shop", syncedAt(commit))
			commit = w.git.Commit(map[string]string{"shop/web.yaml": deployment}, "add")
			w.until("shop", yields)
			if got := w.replicas(); got != "4" {
				t.Errorf("replicas after Git dropped and added it: got %s, want 4", got)
			}
			for _, e := range w.writes(mark) {
				if e.Subresource == "scale" {
					t.Errorf("the agent scaled: %s", e.URI)
				}
			}

			// The HPA leaves: the value in Git holds again.
			switch {
			case place == "":
				w.kubectl("delete", "hpa", "web")
			default:
				w.git.Remove("no autoscaler", place)
				commit = w.git.Commit(map[string]string{"other/settings.yaml": configMap}, "settings")
				if strings.HasPrefix(place, "other") {
					w.until("other", syncedAt(commit))
				}
			}
			w.eventually("2", w.replicas)
		})
	}
}

func TestKEDAOwnsReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.installKEDA()
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	w.Kubectl(t, "{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: web}, spec: {scaleTargetRef: {name: web}, maxReplicaCount: 9}}", "create", "-n", w.ns, "-f", "-")
	kubetest.Eventually(t, patience, func() error {
		if got := w.controller.autoscalers.of(diff.ID{Group: "apps", Kind: "Deployment", Namespace: w.ns, Name: "web"}); got != "ScaledObject "+w.ns+"/web" {
			return fmt.Errorf("want the ScaledObject to be known, got %q", got)
		}
		return nil
	})
	w.kubectl("scale", "deployment", "web", "--replicas=6") // as KEDA's own HPA does, or KEDA when it scales to zero
	w.until("shop", func(app *v1alpha1.Application) error {
		if d := drift(app, ".spec.replicas"); d == nil || d.Decision != "Yield" {
			return fmt.Errorf("want replicas yielded, got %+v", d)
		}
		return syncedAt(commit)(app)
	})
	w.kubectl("delete", "scaledobject.keda.sh", "web")
	w.eventually("2", w.replicas)
}

func TestReplicasLeavingGitKeepsTheSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	five := strings.ReplaceAll(deployment, "replicas: 2", "replicas: 5")
	commit := w.git.Commit(map[string]string{"shop/web.yaml": five}, "first")
	w.app("shop")
	w.until("shop", syncedAt(commit))

	// In the commit in which the HPA arrives.
	commit = w.git.Commit(map[string]string{"shop/web.yaml": strings.ReplaceAll(deployment, "  replicas: 2\n", ""), "shop/hpa.yaml": hpa}, "autoscaled")
	w.until("shop", syncedAt(commit))
	if got := w.replicas(); got != "5" {
		t.Errorf("replicas: got %s, want 5", got)
	}
	if sizes := w.sizes(); strings.Contains(sizes, "from 5 to") {
		t.Errorf("the Deployment was scaled down meanwhile:\n%s", sizes)
	}
}

func TestReplicasLeavingGitWithoutAutoscaler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	commit = w.git.Commit(map[string]string{"shop/web.yaml": strings.ReplaceAll(deployment, "  replicas: 2\n", "")}, "drop")
	w.until("shop", synced(commit))
	if got := w.replicas(); got != "2" {
		t.Errorf("replicas: got %s, want 2", got)
	}
	mark := w.AuditMark(t)
	w.kubectl("scale", "deployment", "web", "--replicas=3") // nobody declares it any longer
	commit = w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "settings")
	w.until("shop", synced(commit))
	if got := w.replicas(); got != "3" {
		t.Errorf("a size that Git does not declare is a person's: got %s, want 3", got)
	}
	for _, e := range w.writes(mark) {
		if e.Resource == "deployments" {
			t.Errorf("the Deployment should not be written: %s", e.URI)
		}
	}
	commit = w.git.Commit(map[string]string{"shop/web.yaml": deployment}, "add")
	w.until("shop", synced(commit))
	if got := w.replicas(); got != "2" {
		t.Errorf("replicas that Git declares again: got %s, want 2", got)
	}
}

func TestPersonsChangesAreUndone(t *testing.T) {
	t.Parallel()
	service := `apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 80}]
`
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment, "shop/service.yaml": service}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	for name, c := range map[string]struct{ patch, kind, read, want string }{
		"a scaled workload":  {`{"spec":{"replicas":7}}`, "deployment", "{.spec.replicas}", "2"},
		"a sidecar":          {`{"spec":{"template":{"spec":{"containers":[{"name":"debug","image":"busybox"}]}}}}`, "deployment", "{.spec.template.spec.containers[*].name}", "web"},
		"an env variable":    {`{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"DEBUG","value":"1"}]}]}}}}`, "deployment", "{.spec.template.spec.containers[0].env}", ""},
		"a field Git lacks":  {`{"spec":{"paused":true}}`, "deployment", "{.spec.paused}", ""},
		"a changed list key": {`{"spec":{"ports":[{"$patch":"delete","port":80},{"name":"http","port":83,"targetPort":80}]}}`, "service", "{.spec.ports[*].port}", "80"},
		"a second port":      {`{"spec":{"ports":[{"name":"more","port":81,"targetPort":81}]}}`, "service", "{.spec.ports[*].port}", "80"},
		"a removed declared": {`{"spec":{"template":{"spec":{"containers":[{"name":"web","resources":null}]}}}}`, "deployment", "{.spec.template.spec.containers[0].resources.requests.cpu}", "1"},
	} {
		w.kubectl("patch", c.kind, "web", "--field-manager=kubectl-edit", "-p", c.patch)
		kubetest.Eventually(t, patience, func() error {
			if got := w.kubectl("get", c.kind, "web", "-o", "jsonpath="+c.read); got != c.want {
				return fmt.Errorf("%s: want %q, got %q", name, c.want, got)
			}
			return nil
		})
		w.until("shop", synced(commit))
	}
	// What is theirs stays.
	w.kubectl("label", "deployment", "web", "team=blue")
	w.kubectl("annotate", "deployment", "web", "note=mine")
	w.kubectl("rollout", "restart", "deployment", "web")
	mark := w.AuditMark(t)
	generation := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.generation}")
	commit = w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "settings")
	w.until("shop", synced(commit))
	if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.labels.team} {.metadata.annotations.note} {.metadata.generation}"); got != "blue mine "+generation {
		t.Errorf("labels, annotations and the restart are people's own: got %q", got)
	}
	for _, e := range w.writes(mark) {
		if e.Resource == "deployments" {
			t.Errorf("the Deployment should not be written: %s", e.URI)
		}
	}
}

func TestDriftIsSeenAndNamedWithoutSelfHeal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment}, "first")
	w.app("shop", func(app *v1alpha1.Application) { app.Spec.SyncPolicy.Automated.SelfHeal = false })
	w.until("shop", synced(commit))
	w.kubectl("scale", "deployment", "web", "--replicas=3")
	w.until("shop", func(app *v1alpha1.Application) error {
		d := drift(app, ".spec.replicas")
		if app.Status.Sync.Status != v1alpha1.OutOfSync || d == nil || d.Manager != "kubectl" || d.Subresource != "scale" || d.Decision != "Enforce" {
			return fmt.Errorf("want OutOfSync by kubectl's scale, got %s and %+v", app.Status.Sync.Status, d)
		}
		return nil
	})
	if got := w.replicas(); got != "3" {
		t.Errorf("without selfHeal nothing is put back, got %s", got)
	}
	w.kubectl("annotate", "application", "shop", v1alpha1.AnnotationSync+`={"id":"one","by":"anna"}`)
	app := w.until("shop", synced(commit))
	if op := app.Status.OperationState; op == nil || op.ID != "one" || op.Phase != v1alpha1.PhaseSucceeded {
		t.Errorf("the request should be answered, got %+v", op)
	}
	if h := app.Status.History; len(h) == 0 || h[0].InitiatedBy != "anna" || h[0].Healed != 1 {
		t.Errorf("the history should say who asked, got %+v", h)
	}
}
