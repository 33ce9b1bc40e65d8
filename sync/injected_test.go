package sync

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/testdata/kubetest"
)

// mutate registers a webhook that answers each object of a resource in the test's namespace with a JSON patch.
func (w *world) mutate(group, resource, patch string) {
	w.t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review struct{ Request struct{ UID string } }
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":%q,"allowed":true,"patchType":"JSONPatch","patch":%q}}`,
			review.Request.UID, base64.StdEncoding.EncodeToString([]byte(patch)))
	}))
	w.t.Cleanup(server.Close)
	name := w.ns + "-" + resource
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	w.Kubectl(w.t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: inject.example.com
  clientConfig: {url: %[2]s, caBundle: %[3]s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[4]s}}
  rules: [{apiGroups: [%[5]q], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [%[6]s]}]
  admissionReviewVersions: [v1]
  sideEffects: None
`, name, server.URL, authority, w.ns, group, resource), "apply", "-f", "-")
	w.t.Cleanup(func() {
		_, _ = w.TryKubectl(context.Background(), "", "delete", "mutatingwebhookconfiguration", name)
	})
}

func TestWhatWebhooksInjectIsNoDrift(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t, kubetest.Shared(t))
	w.mutate("", "pods", `[{"op":"add","path":"/spec/containers/-","value":{"name":"proxy","image":"proxy:1"}}]`)
	w.mutate("apps", "deployments", `[{"op":"add","path":"/metadata/labels/injected","value":"yes"}]`)
	w.eventually("yes", func() string { // the API server takes a moment to see a webhook
		return w.Kubectl(t, fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: probe, namespace: %s, labels: {a: b}}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}", w.ns),
			"create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.metadata.labels.injected}")
	})
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment}, "first")
	w.app("shop")
	w.start()
	w.until("shop", synced(commit))
	w.eventually("web proxy", func() string {
		return w.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.containers[*].name}")
	})
	mark := w.AuditMark(t)
	commit = w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "another object")
	w.until("shop", synced(commit))
	w.stop()
	w.start()
	w.until("shop", synced(commit))
	for _, e := range w.writes(mark) {
		if e.Resource == "deployments" {
			t.Errorf("what a webhook adds is no reason to write: %s", e.URI)
		}
	}
	if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.labels.injected} {.metadata.generation}"); got != "yes 1" {
		t.Errorf("label and generation: got %s, want yes 1", got)
	}
}

func TestAggregatedClusterRoleIsFilledByItsController(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t, kubetest.Shared(t))
	w.agentUser = w.RESTConfig() // the API server wants all rights of whoever writes an aggregationRule
	role := func(label string) string {
		return strings.NewReplacer("NS", w.ns, "LABEL", label).Replace(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NS-sum}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {LABEL: "true"}}]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NS-first, labels: {NS-first: "true"}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NS-second, labels: {NS-second: "true"}}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
`)
	}
	t.Cleanup(func() {
		_, _ = w.TryKubectl(context.Background(), "", "delete", "clusterrole", w.ns+"-sum", w.ns+"-first", w.ns+"-second")
	})
	filled := func() string {
		return w.kubectl("get", "clusterrole", w.ns+"-sum", "--ignore-not-found", "-o", "jsonpath={.rules[*].resources[*]}")
	}
	commit := w.git.Commit(map[string]string{"shop/roles.yaml": role(w.ns + "-first")}, "first")
	w.app("shop")
	w.start()
	w.until("shop", synced(commit))
	w.eventually("pods", filled)
	version := func() string {
		return w.kubectl("get", "clusterrole", w.ns+"-sum", "-o", "jsonpath={.metadata.resourceVersion}")
	}
	before := version()
	commit = w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "another object")
	w.until("shop", synced(commit))
	w.stop()
	w.start()
	w.until("shop", synced(commit))
	if got := version(); got != before {
		t.Errorf("rules that the controller fills are no reason to write")
	}
	commit = w.git.Commit(map[string]string{"shop/roles.yaml": role(w.ns + "-second")}, "another label")
	w.until("shop", synced(commit))
	w.eventually("secrets", filled)
}

func TestStatusOfAnAutoscalerIsNoWork(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.PollInterval = 5 * patience })
	w.git.Commit(map[string]string{"shop/web.yaml": deployment, "shop/hpa.yaml": hpa}, "first")
	w.app("shop")
	w.eventually("4", w.replicas)
	id := diff.ID{Group: "autoscaling", Kind: "HorizontalPodAutoscaler", Namespace: w.ns, Name: "web"}
	settled := func() string {
		seen := w.passes()
		for i := range 5 {
			// As the HPA controller does every few seconds, with nothing that changes its health.
			w.kubectl("patch", "hpa", "web", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"lastScaleTime":"2026-01-01T00:00:%02dZ"}}`, i))
		}
		written := &Observed{}
		written.ResourceVersion = w.kubectl("get", "hpa", "web", "-o", "jsonpath={.metadata.resourceVersion}")
		kubetest.Eventually(t, patience, func() error {
			if o := w.controller.live.get(id); o == nil || !o.newer(written) {
				return fmt.Errorf("the watch has not told yet")
			}
			return nil
		})
		return fmt.Sprint(w.passes() - seen)
	}
	w.eventually("0", settled)
}
