package sync

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// newGadgetWorld is a world that serves gadgets.
func newGadgetWorld(t *testing.T) *world {
	w := newWorld(t)
	w.allow()
	w.Kubectl(t, gadgets(w.ns+".example.com"), "apply", "-f", "-")
	w.forgetLater("crd/gadgets." + w.ns + ".example.com")
	w.Kubectl(t, "", "wait", "--for=condition=Established", "crd/gadgets."+w.ns+".example.com", "--timeout=30s")
	return w
}

// isQuiet checks that another look at an Application which is healed writes nothing.
func (w *world) isQuiet(app string) {
	w.t.Helper()
	mark := w.AuditMark(w.t)
	w.looksAgain(app)
	if got := w.writes(mark); len(got) != 0 {
		w.t.Errorf("all is healed, yet the agent wrote %v", got)
	}
}

// An item that leaves Git goes as a whole, also where somebody has set something in it: what would stay is no valid item.
func TestItemsThatLeaveGitGoWithWhatOthersSetInThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	service := func(port int) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{name: http, port: %d}, {name: dns, port: 53, protocol: UDP}]}}", port)
	}
	side := strings.Replace(with("", ""), "      containers:\n", "      containers:\n        - {name: side, image: x}\n", 1)
	commit := w.git.Commit(map[string]string{"shop/service.yaml": service(80), "shop/web.yaml": side}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	w.kubectl("patch", "service", "web", "--type=json", "--field-manager=some-operator", "-p", `[{"op":"add","path":"/spec/ports/0/appProtocol","value":"http"}]`)
	w.kubectl("patch", "deployment", "web", "--field-manager=some-operator", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"side","env":[{"name":"A","value":"1"}]}]}}}}`)
	commit = w.git.Commit(map[string]string{"shop/service.yaml": service(83), "shop/web.yaml": with("", "")}, "second")
	w.until("shop", synced(commit))
	live := func() string {
		return w.kubectl("get", "service,deployment", "web", "-o", "jsonpath={.items[*].spec.ports[*].port} {.items[*].spec.template.spec.containers[*].name}")
	}
	w.eventually("83 53 web", live)

	// The same where nobody is known to have set anything, and for a controller that renames Git's own.
	w.kubectl("patch", "service", "web", "--type=json", "--field-manager=some-operator", "-p", `[{"op":"replace","path":"/spec/ports/0/port","value":84}]`)
	w.eventually("83 53 web", live)
	w.kubectl("patch", "service", "web", "--type=json", "--field-manager=some-operator", "-p", `[{"op":"replace","path":"/metadata/managedFields","value":[{}]},{"op":"replace","path":"/spec/ports/0/port","value":84}]`)
	w.eventually("83 53 web", live)
	w.until("shop", synced(commit))
	w.isQuiet("shop")
}

// Server-side apply makes null of a list that it empties, which the schema of a custom resource does not take.
func TestListsOfCustomResourcesAreEmptied(t *testing.T) {
	t.Parallel()
	w := newGadgetWorld(t)
	gadget := func(spec string) map[string]string {
		return map[string]string{"shop/gadget.yaml": fmt.Sprintf("{apiVersion: %s.example.com/v1, kind: Gadget, metadata: {name: one}, spec: %s}", w.ns, spec)}
	}
	get := func() string {
		return w.kubectl("get", "gadgets."+w.ns+".example.com", "one", "-o", `jsonpath={.spec.set} {.spec.keyed} {.spec.free}`)
	}
	commit := w.git.Commit(gadget(`{set: [a, b], keyed: [{name: a}, {name: b, zone: there, tags: [x]}], free: {deep: 1}}`), "first")
	w.app("shop")
	w.until("shop", syncedAt(commit))
	commit = w.git.Commit(gadget(`{set: [], keyed: [{name: b, zone: there, tags: []}], free: {}}`), "emptied")
	w.until("shop", syncedAt(commit))
	w.eventually(`[] [{"name":"b","tags":[],"weight":1,"zone":"there"}] {}`, get)
	// What a person puts into them goes again.
	w.kubectl("patch", "gadgets."+w.ns+".example.com", "one", "--type=merge", "--field-manager=kubectl-edit", "-p", `{"spec":{"set":["c"],"free":{"deep":{"er":1}}}}`)
	w.eventually(`[] [{"name":"b","tags":[],"weight":1,"zone":"there"}] {}`, get)
	w.until("shop", syncedAt(commit))
	w.isQuiet("shop")

	// An item whose keys are not all in Git is not taken for another's that has the same ones.
	commit = w.git.Commit(gadget(`{mode: fast, keyed: [{name: a, weight: 2}]}`), "second")
	w.until("shop", syncedAt(commit))
	w.Kubectl(t, fmt.Sprintf(`{apiVersion: %s.example.com/v1, kind: Gadget, metadata: {name: one}, spec: {keyed: [{name: a, zone: there, weight: 3}]}}`, w.ns),
		"-n", w.ns, "apply", "--server-side", "--field-manager=flux", "-f", "-")
	w.kubectl("patch", "gadgets."+w.ns+".example.com", "one", "--type=json", "--field-manager=some-operator", "-p", `[{"op":"remove","path":"/spec/keyed/0"}]`)
	w.eventually("here2 there3", func() string {
		return w.kubectl("get", "gadgets."+w.ns+".example.com", "one", "-o", `jsonpath={range .spec.keyed[?(@.zone=="here")]}{.zone}{.weight} {end}{range .spec.keyed[?(@.zone=="there")]}{.zone}{.weight} {end}`)
	})
	w.until("shop", syncedAt(commit))
}

// An empty list is never listed as ours: that a person owns it, too, is no drift for ever, also beside what is left to others.
func TestEmptyListsThatAPersonOwnsAreNotWrittenForEver(t *testing.T) {
	t.Parallel()
	w := newGadgetWorld(t)
	gadget := "{apiVersion: " + w.ns + ".example.com/v1, kind: Gadget, metadata: {name: %s}, spec: %s}"
	commit := w.git.Commit(map[string]string{
		"shop/one.yaml": fmt.Sprintf(gadget, "one", "{set: [], keyed: [], mode: fast, replicas: 2}"),
		"shop/two.yaml": fmt.Sprintf(gadget, "two", "{}"),
	}, "first")
	w.app("shop", func(app *v1alpha1.Application) {
		app.Spec.FieldPolicies = []v1alpha1.FieldPolicy{{Kind: "Gadget", Name: "one", Paths: []string{".spec.replicas"}, Policy: v1alpha1.PolicyYield}}
	})
	w.until("shop", syncedAt(commit))
	kind := "gadgets." + w.ns + ".example.com"
	copied := w.kubectl("get", kind, "-o", "json")
	w.stop()
	w.kubectl("delete", kind, "--all")
	w.Kubectl(t, copied, "-n", w.ns, "create", "--field-manager=kubectl-edit", "-f", "-")
	w.start()
	w.eventually("trueup trueup", func() string {
		return w.kubectl("get", kind, "-o", `jsonpath={.items[*].metadata.managedFields[?(@.manager=="trueup")].manager}`)
	})
	// Nor does a map that is declared empty go with what a person had in it.
	if mode := w.kubectl("get", kind, "two", "-o", "jsonpath={.spec.mode}"); mode != "slow" {
		t.Errorf("spec is declared empty, and defaults fill it: got the mode %q", mode)
	}
	w.until("shop", syncedAt(commit))
	w.isQuiet("shop")
}

// What a person added is folded, and the size is handed over: the one must not undo the other.
func TestSizeIsKeptWhenItLeavesGitWhileAPersonHasAddedSomething(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sized := func(n string) map[string]string {
		return map[string]string{"shop/web.yaml": strings.Replace(deployment, "  replicas: 2\n", n, 1)}
	}
	commit := w.git.Commit(sized("  replicas: 3\n"), "first")
	w.app("shop")
	w.until("shop", synced(commit))
	w.stop()
	w.kubectl("patch", "deployment", "web", "--field-manager=kubectl-edit", "-p", `{"spec":{"minReadySeconds":1}}`)
	commit = w.git.Commit(sized(""), "without")
	w.start()
	w.until("shop", synced(commit))
	w.eventually("3", func() string {
		return w.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.spec.minReadySeconds}")
	})
	if got := w.sizes(); strings.Contains(got, "to 1") {
		t.Errorf("the size should never have fallen, but:\n%s", got)
	}

	// Nor is it let go when something else is released after it.
	grace := strings.Replace(sized("")["shop/web.yaml"], "    spec:\n", "    spec:\n      terminationGracePeriodSeconds: 7\n", 1)
	commit = w.git.Commit(map[string]string{"shop/web.yaml": grace}, "grace")
	w.until("shop", synced(commit))
	w.kubectl("patch", "application", "shop", "--type=merge", "-p", `{"spec":{"fieldPolicies":[{"kind":"Deployment","paths":[".spec.template.spec.terminationGracePeriodSeconds"],"policy":"Yield"}]}}`)
	commit = w.git.Commit(map[string]string{"shop/web.yaml": strings.Replace(grace, "1.29", "1.30", 1)}, "image")
	w.until("shop", synced(commit))
	w.eventually("3 7", func() string {
		return w.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.terminationGracePeriodSeconds}")
	})
}

// A fold that comes too late is a conflict, upon which the object is looked at again, and no refusal.
func TestFoldOfAnObjectThatHasChangedIsAConflict(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t, kubetest.Shared(t))
	w.Kubectl(t, settings("settings", "one"), "-n", w.ns, "create", "-f", "-")
	seen, err := w.clients.Kube.CoreV1().ConfigMaps(w.ns).Get(t.Context(), "settings", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.write("kubectl-edit", "settings", "two")
	config := &unstructured.Unstructured{}
	config.SetAPIVersion("v1")
	config.SetKind("ConfigMap")
	config.SetNamespace(w.ns)
	config.SetName("settings")
	writer := apply.NewWriter(w.clients.Dynamic, apply.NewKinds(w.clients.Kube.Discovery(), clock.RealClock{}), v1alpha1.FieldManager, 1)
	_, err = writer.Apply(t.Context(), &apply.Object{Config: config, Fold: seen.ManagedFields, ResourceVersion: seen.ResourceVersion})
	if err == nil || apply.Classify(err) != apply.Conflict {
		t.Errorf("want a conflict, got %v", err)
	}
}
