package sync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// parcel is a custom resource of the group NAMESPACE.example.com.
func parcel(ns, name, size string) string {
	return fmt.Sprintf("apiVersion: %s.example.com/v1\nkind: Parcel\nmetadata: {name: %s}\nspec: {size: %s}\n", ns, name, size)
}

func parcelDefinition(ns string) string {
	return definitionManifest(ns, "parcels", "Parcel", "size: {type: string}")
}

// forgetLater deletes what an Application has made outside of the test's namespace.
func (w *world) forgetLater(objects ...string) {
	w.t.Cleanup(func() {
		for _, object := range objects {
			_, _ = w.TryKubectl(context.Background(), "", "delete", object, "--wait=false", "--ignore-not-found")
		}
	})
}

func TestDefinitionNamespaceAndCustomResourceInOneCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.allow()
	target := w.ns + "-new"
	w.forgetLater("crd/parcels."+w.ns+".example.com", "namespace/"+target)
	commit := w.git.Commit(map[string]string{
		"shop/a-parcel.yaml": strings.Replace(parcel(w.ns, "here", "small"), "name: here", "name: here, namespace: "+target, 1),
		"shop/b-crd.yaml":    parcelDefinition(w.ns),
		"shop/c-ns.yaml":     "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + target + "}\n",
		"shop/d-parcel.yaml": parcel(w.ns, "there", "big"),
	}, "all at once")
	w.app("shop")
	w.until("shop", synced(commit))
	if got := w.kubectl("get", "parcels."+w.ns+".example.com", "-A", "-o", "jsonpath={.items[*].metadata.name}"); got != "there here" && got != "here there" {
		t.Errorf("want both parcels, got %s", got)
	}
	// Together they go, too: what was made by the definition goes before it.
	w.kubectl("annotate", "crd/parcels."+w.ns+".example.com", "trueup.dev/prune=confirm")
	w.git.Remove("less", "shop/a-parcel.yaml", "shop/b-crd.yaml", "shop/d-parcel.yaml")
	w.gone("crd/parcels." + w.ns + ".example.com")
	w.until("shop", synced(w.git.Rev("main")))
}

func TestCustomResourceWhoseDefinitionComesFromAnotherApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.allow()
	w.forgetLater("crd/parcels." + w.ns + ".example.com")
	commit := w.git.Commit(map[string]string{
		"shop/parcel.yaml":   parcel(w.ns, "one", "small"),
		"shop/settings.yaml": settings("settings", "one"),
		"kinds/crd.yaml":     parcelDefinition(w.ns),
	}, "first")
	mark := w.AuditMark(t)
	w.app("shop")
	w.until("shop", says(v1alpha1.ConditionApplied, "the cluster serves no "+w.ns+".example.com/v1 Parcel", "nothing was changed"))
	if got := w.changes(mark); len(got) != 0 {
		t.Errorf("the sync is to wait for the kind as a whole, yet the agent wrote %v", got)
	}
	w.app("kinds")
	w.until("kinds", synced(commit))
	w.until("shop", synced(commit))
	if got := w.kubectl("get", "parcels."+w.ns+".example.com", "one", "-o", "jsonpath={.spec.size}"); got != "small" {
		t.Errorf("the parcel's size: got %q", got)
	}
}

func TestRightsGrantedLaterAreNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.definition("parcels", "Parcel", "size: {type: string}")
	commit := w.git.Commit(map[string]string{"shop/parcel.yaml": parcel(w.ns, "one", "small"), "shop/settings.yaml": settings("settings", "one")}, "first")
	w.app("shop")
	w.until("shop", says(v1alpha1.ConditionApplied, "shop/parcel.yaml:1", "parcels."+w.ns+".example.com is forbidden", "trueup install --allow"))
	w.allow()
	w.until("shop", synced(commit))
}

// breakGroup makes the API server hand the group NAMESPACE.example.com to a server that is not there, as it does with
// an aggregated API whose pods are down. What is stored stays. It returns how to undo it.
func (w *world) breakGroup() (repair func()) {
	w.t.Helper()
	name := "v1." + w.ns + ".example.com"
	w.Kubectl(w.t, fmt.Sprintf(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: %[1]s, labels: {kube-aggregator.kubernetes.io/automanaged: "false"}}
spec:
  group: %[2]s.example.com
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: down, namespace: %[2]s, port: 443}
`, name, w.ns), "apply", "--server-side", "--force-conflicts", "-f", "-")
	repaired := false
	repair = func() {
		if !repaired {
			repaired = true
			_, _ = w.TryKubectl(context.Background(), "", "delete", "apiservice", name)
		}
	}
	w.t.Cleanup(repair)
	kubetest.Eventually(w.t, patience, func() error {
		if _, err := w.TryKubectl(w.t.Context(), "", "get", "--raw", "/apis/"+w.ns+".example.com/v1/parcels"); err == nil {
			return fmt.Errorf("the group is still served")
		}
		return nil
	})
	return repair
}

// TestAPIServiceIsDown is not parallel: while a group cannot be discovered, other tests would see that too.
func TestAPIServiceIsDown(t *testing.T) {
	w := newWorld(t)
	w.allow()
	w.definition("parcels", "Parcel", "size: {type: string}")
	w.git.Commit(map[string]string{
		"shop/one.yaml": parcel(w.ns, "one", "small"), "shop/two.yaml": parcel(w.ns, "two", "small"),
		"shop/settings.yaml": settings("settings", "one"),
		"gone/parcel.yaml":   parcel(w.ns, "three", "small"), "gone/settings.yaml": settings("gone", "one"),
	}, "first")
	w.app("shop")
	w.app("gone", cascade)
	first := w.git.Rev("main")
	w.until("shop", synced(first))
	w.until("gone", synced(first))

	repair := w.breakGroup()
	second := w.git.Remove("less", "shop/two.yaml", "gone/parcel.yaml")
	for range 2 { // the second time with an agent that remembers nothing
		w.looksAt("shop", second)
		w.heals("settings")
		w.heals("gone")
		w.stop()
		w.start()
	}
	w.until("shop", func(app *v1alpha1.Application) error {
		if !slices.ContainsFunc(app.Status.Resources, func(r v1alpha1.ResourceStatus) bool {
			return r.Name == "one" && r.Sync == v1alpha1.SyncUnknown && r.Message != ""
		}) {
			return fmt.Errorf("want the parcel to be Unknown, with the reason")
		}
		return nil
	})
	w.kubectl("delete", "application", "gone", "--wait=false")
	w.gone("configmap/gone")
	w.until("gone", func(app *v1alpha1.Application) error { // it cannot be known whether its parcel is still there
		ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
		if ready.Reason != "Deleting" || !strings.Contains(ready.Message, w.ns+".example.com/v1") {
			return fmt.Errorf("want the deletion to wait for the kind that cannot be seen")
		}
		return nil
	})
	repair()
	w.until("shop", synced(second))
	w.gone("application/gone")
	if got := w.kubectl("get", "parcels."+w.ns+".example.com", "-o", "jsonpath={.items[*].metadata.name}"); got != "one" {
		t.Errorf("want the parcels that left Git pruned once they can be seen, and only those, got %q", got)
	}
}
