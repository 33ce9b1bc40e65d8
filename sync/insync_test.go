package sync

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// otherRequests are what the agent has asked since a mark besides lists, watches, discovery and its own status.
func (w *world) otherRequests(since kubetest.AuditMark) []kubetest.AuditEvent {
	w.t.Helper()
	return slices.DeleteFunc(w.ownRequests(since), func(e kubetest.AuditEvent) bool {
		return e.Verb == "list" || e.Resource == "" || e.Resource == "applications" || e.Resource == "events"
	})
}

// looksAgain asks each Application to look at Git anew, and waits until it has.
func (w *world) looksAgain(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.refresh(name)
	}
	for _, name := range names {
		w.until(name, func(app *v1alpha1.Application) error {
			if want := app.Annotations[v1alpha1.AnnotationRefresh]; app.Status.ObservedRefresh != want || app.Status.Sync.Status != v1alpha1.Synced {
				return fmt.Errorf("want the refresh %s answered and Synced", want)
			}
			return nil
		})
	}
}

// podOf is a Deployment of one container with the given lines in its pod's and its container's spec.
func podOf(name, pod, container string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
  creationTimestamp: null
  annotations: null
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      creationTimestamp: null
      labels: {app: %[1]s}
    spec:
%[2]s
      containers:
        - name: web
          image: nginx:1.29
%[3]s
status: {}
`, name, pod, container)
}

// falseAlarms are manifests that other agents show as out of sync, or write again and again. NS is the namespace.
var falseAlarms = map[string]string{
	"quantities-and-fields-newer-than-the-client": podOf("quantities", `
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          nodeTaintsPolicy: Honor
          labelSelector: {matchLabels: {app: quantities}}`, `
          resources:
            requests: {cpu: 1000m, memory: 1000M}
            limits: {cpu: "1.0", memory: 1024Mi}`),
	"empty-and-null-values": podOf("nothing", "      nodeSelector: {}\n      volumes: []", "          resources: {}\n          env: []\n          command: null") + "---\n" +
		podOf("unset", "      nodeSelector: null", `          env: [{name: EMPTY, value: ""}, {name: UNSET, value: null}]`) + `---
apiVersion: v1
kind: ConfigMap
metadata: {name: nothing, labels: null, annotations: {}}
data: null
`,
	"numbers-where-the-server-has-text": `apiVersion: v1
kind: Service
metadata: {name: numbers}
spec:
  selector: {app: web}
  ports:
    - {name: http, port: 80, targetPort: 8080}
    - {name: dns, port: 53, protocol: UDP, targetPort: dns}
    - {name: dns-tcp, port: 53, targetPort: dns}
`,
	"definition-with-a-status": strings.Replace(definitionManifest("NS", "widgets", "Widget", `size: {type: integer}`), "spec:\n", "  creationTimestamp: null\nspec:\n  preserveUnknownFields: false\n", 1) +
		"status:\n  acceptedNames: {kind: \"\", plural: \"\"}\n  conditions: []\n  storedVersions: []\n",
	"cluster-scoped-objects-with-a-namespace": `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NS, namespace: somewhere}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: NS-other, namespace: elsewhere, creationTimestamp: null}
spec: {}
status: {}
`,
	"object-above-the-limit-of-annotations": settings("big", strings.Repeat("0123456789abcdef", 20_000)),
	"definition-above-the-limit-of-annotations": definitionManifest("NS", "novels", "Novel",
		"text: {type: string, description: "+strings.Repeat("0123456789abcdef", 20_000)+"}"),
	"defaults-inside-a-list": definitionManifest("NS", "lists", "Listing",
		"items: {type: array, items: {type: object, properties: {name: {type: string}, weight: {type: integer, default: 1}}}}") + `---
apiVersion: NS.example.com/v1
kind: Listing
metadata: {name: defaults}
spec:
  items: [{name: a}, {name: b, weight: 2}]
`,
	"text-in-a-secret": `apiVersion: v1
kind: Secret
metadata: {name: text}
stringData: {a: alpha}
data: {b: YmV0YQ==}
`,
}

func TestNoFalseAlarmAndNotOneWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.allow()
	files := map[string]string{}
	for name, manifest := range falseAlarms {
		files[name+"/app.yaml"] = strings.ReplaceAll(manifest, "NS", w.ns)
	}
	commit := w.git.Commit(files, "all")
	names := slices.Sorted(maps.Keys(falseAlarms))
	for _, name := range names {
		w.app(name)
	}
	t.Cleanup(func() {
		for _, object := range []string{"crd/widgets." + w.ns + ".example.com", "crd/novels." + w.ns + ".example.com", "crd/lists." + w.ns + ".example.com",
			"clusterrole/" + w.ns, "namespace/" + w.ns + "-other"} {
			_, _ = w.TryKubectl(context.Background(), "", "delete", object, "--wait=false")
		}
	})
	for _, name := range names {
		w.until(name, synced(commit))
	}

	mark := w.AuditMark(t)
	w.looksAgain(names...)
	w.stop()
	w.start()
	w.looksAgain(names...)
	unrelated := w.git.Commit(map[string]string{"README.md": "hello"}, "unrelated")
	for _, name := range names {
		w.until(name, synced(unrelated))
	}
	if got := w.otherRequests(mark); len(got) != 0 {
		t.Errorf("everything is in sync, yet the agent asked for more than lists and watches: %v", got)
	}
	if got := w.kubectl("get", "deployments", "-o", "jsonpath={.items[*].metadata.generation}"); got != "1 1 1" {
		t.Errorf("no Deployment should have been changed, got the generations %s", got)
	}
}

func TestSecretKeyThatLeavesGitLeavesTheSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := func(data string) map[string]string {
		return map[string]string{"shop/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {" + data + "}\n"}
	}
	first := w.git.Commit(secret("a: opensesame, b: abracadabra"), "both")
	w.app("shop")
	w.until("shop", synced(first))
	second := w.git.Commit(secret("a: opensesame"), "one")
	w.until("shop", synced(second))
	if got := w.kubectl("get", "secret", "keys", "-o", "jsonpath={.data}"); got != `{"a":"b3BlbnNlc2FtZQ=="}` {
		t.Errorf("want only the key a, got %s", got)
	}
	status := w.kubectl("get", "application", "shop", "-o", "yaml") + w.kubectl("get", "events", "-o", "yaml")
	for _, word := range []string{"opensesame", "abracadabra", "b3BlbnNlc2FtZQ", "YWJyYWNhZGFicmE"} {
		if strings.Contains(status, word) {
			t.Errorf("the Secret's data is shown: %s", status)
		}
	}
}
