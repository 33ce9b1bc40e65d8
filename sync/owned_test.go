package sync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// webhooks declares a webhook configuration that asks about nothing, with the given lines in its clientConfig.
func webhooks(kind, name, clientConfig string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: %s
metadata: {name: %s}
webhooks:
  - name: nothing.example.com
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Ignore
    rules: [{apiGroups: [nothing.example.com], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]
    clientConfig: {service: {name: none, namespace: none}%s}
`, kind, name, clientConfig)
}

// others is what the cluster and its controllers write to as well.
const others = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: "postgres:18", volumeMounts: [{name: disk, mountPath: /data}]}]
  volumeClaimTemplates:
    - metadata: {name: disk}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: none}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}
  maxReplicas: 3
  metrics:
    - {type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 80}}}
    - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}
---
apiVersion: v1
kind: Service
metadata: {name: open}
spec: {type: NodePort, selector: {app: db}, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim}
spec: {storageClassName: NS, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: once, image: busybox}]}
`

func TestWhatTheClusterWritesIsTheClusters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, kind := range []string{"validatingwebhookconfiguration", "mutatingwebhookconfiguration"} {
		w.forgetLater(kind+"/"+w.ns+"-absent", kind+"/"+w.ns+"-empty", kind+"/"+w.ns+"-set")
	}
	w.forgetLater("pv/" + w.ns)
	w.Kubectl(t, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %[1]s},
		spec: {storageClassName: %[1]s, capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /nowhere}}}`, w.ns), "create", "-f", "-")
	set := "Z2l2ZW4gaW4gR2l0"
	commit := w.git.Commit(map[string]string{
		"shop/others.yaml":  strings.ReplaceAll(others, "NS", w.ns),
		"shop/absent.yaml":  webhooks("ValidatingWebhookConfiguration", w.ns+"-absent", "") + "---\n" + webhooks("MutatingWebhookConfiguration", w.ns+"-absent", ""),
		"shop/empty.yaml":   webhooks("ValidatingWebhookConfiguration", w.ns+"-empty", `, caBundle: ""`) + "---\n" + webhooks("MutatingWebhookConfiguration", w.ns+"-empty", `, caBundle: ""`),
		"shop/given-e.yaml": webhooks("ValidatingWebhookConfiguration", w.ns+"-set", ", caBundle: "+set),
	}, "first")
	w.app("shop")
	w.until("shop", syncedAt(commit))
	injected := "aW5qZWN0ZWQ="
	names := []string{"validatingwebhookconfiguration/" + w.ns + "-absent", "mutatingwebhookconfiguration/" + w.ns + "-absent",
		"validatingwebhookconfiguration/" + w.ns + "-empty", "mutatingwebhookconfiguration/" + w.ns + "-empty", "validatingwebhookconfiguration/" + w.ns + "-set"}
	mark := w.AuditMark(t)
	for _, name := range names {
		w.kubectl("patch", name, "--field-manager=cainjector", "-p", `{"webhooks":[{"name":"nothing.example.com","clientConfig":{"caBundle":"`+injected+`"}}]}`)
	}
	w.eventually("Bound", func() string { return w.kubectl("get", "pvc", "claim", "-o", "jsonpath={.status.phase}") })
	w.eventually("1", func() string { return w.kubectl("get", "job", "once", "-o", "jsonpath={.status.succeeded}") })

	w.looksAgain("shop")
	w.stop()
	w.start()
	w.looksAgain("shop")
	if got := w.writes(mark); len(got) != 0 {
		t.Errorf("the agent wrote %v", got)
	}
	for _, name := range names {
		if got := w.kubectl("get", name, "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}"); got != injected {
			t.Errorf("%s: the injected caBundle became %q", name, got)
		}
	}
	app := w.get("shop")
	if d := app.Status.Drift; !slices.ContainsFunc(d, func(d v1alpha1.FieldDrift) bool {
		return d.Name == w.ns+"-set" && d.Manager == "cainjector" && d.Decision == "Yield" && strings.Contains(d.Reason, "injected by cainjector")
	}) {
		t.Errorf("the caBundle that Git has should be told to be the injector's, got %+v", d)
	}
}

func TestTricksWithMetadataAreUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	patch := func(name, manager, body string) {
		t.Helper()
		w.kubectl("patch", "configmap", name, "--type=merge", "--field-manager="+manager, "-p", body)
	}
	const wiped = `"managedFields":[{}]`
	tricks := map[string]func(name string){
		"put-back": func(name string) {
			patch(name, "kubectl-edit", `{"data":{"mode":"other"}}`)
			patch(name, "kubectl-edit", `{"data":{"mode":"good"}}`)
		},
		"wiped":             func(name string) { patch(name, "kubectl-patch", `{"metadata":{`+wiped+`}}`) },
		"wiped-and-changed": func(name string) { patch(name, "kubectl-patch", `{"metadata":{`+wiped+`},"data":{"mode":"other"}}`) },
		"eleven-managers": func(name string) {
			patch(name, "first", `{"data":{"mode":"other"}}`)
			for i := range 11 {
				patch(name, fmt.Sprintf("manager-%d", i), fmt.Sprintf(`{"metadata":{"annotations":{"note-%d":"x"}}}`, i))
			}
		},
		"no-label":       func(name string) { patch(name, "kubectl-label", `{"metadata":{"labels":{"trueup.dev/app":null}}}`) },
		"no-annotations": func(name string) { patch(name, "kubectl-annotate", `{"metadata":{"annotations":null}}`) },
		"nothing-of-ours": func(name string) {
			patch(name, "kubectl-edit", `{"metadata":{"labels":null,"annotations":null,`+wiped+`},"data":{"mode":"other"}}`)
		},
		"made-anew": func(name string) {
			w.kubectl("delete", "configmap", name)
			_, _ = w.TryKubectl(t.Context(), "", "-n", w.ns, "create", "configmap", name, "--from-literal=mode=other", "--from-literal=more=x")
		},
		"replaced": func(name string) {
			manifest := w.kubectl("get", "configmap", name, "-o", "json")
			// The agent may be first to make it anew; then there is nothing to replace.
			_, _ = w.TryKubectl(t.Context(), strings.Replace(manifest, `"good"`, `"other"`, 1), "-n", w.ns, "replace", "--force", "-f", "-")
		},
	}
	files := map[string]string{}
	for name := range tricks {
		files["shop/"+name+".yaml"] = settings(name, "good")
	}
	commit := w.git.Commit(files, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	for name, trick := range tricks {
		trick(name)
	}
	for name := range tricks {
		kubetest.Eventually(t, patience, func() error {
			got := w.kubectl("get", "configmap", name, "--ignore-not-found", "-o", `jsonpath={.data} {.metadata.labels.trueup\.dev/app} {.metadata.annotations.trueup\.dev/tracking}`)
			want := fmt.Sprintf(`{"mode":"good"} shop %s/shop:/ConfigMap:%s/%s`, w.ns, w.ns, name)
			if got != want {
				return fmt.Errorf("%s: want %s, got %s", name, want, got)
			}
			return nil
		})
	}
	w.until("shop", synced(commit))
	mark := w.AuditMark(t)
	w.looksAgain("shop")
	if got := w.writes(mark); len(got) != 0 {
		t.Errorf("all is healed, yet the agent wrote %v", got)
	}
}

func TestKeyThatIsListedTwiceIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	twice := func(lines string) string {
		return strings.Replace(deployment, "          image: nginx:1.29\n", "          image: nginx:1.29\n"+lines, 1)
	}
	w.git.Commit(map[string]string{
		"env/web.yaml":   twice("          env: [{name: FOO, value: a}, {name: FOO, value: b}]\n"),
		"ports/web.yaml": strings.ReplaceAll(strings.Replace(deployment, "            - containerPort: 80\n", "            - containerPort: 80\n            - {containerPort: 80, name: again}\n", 1), "name: web", "name: ports"),
	}, "twice")
	w.app("env")
	w.app("ports")
	w.until("env", says(v1alpha1.ConditionApplied, "env/web.yaml:1", `containers[name="web"].env`, `[name="FOO"]`, "nothing was changed"))
	w.until("ports", says(v1alpha1.ConditionApplied, "ports/web.yaml:1", ".ports", "containerPort=80", "nothing was changed"))
	if got := w.kubectl("get", "deployments", "-o", "name"); got != "" {
		t.Errorf("nothing is left out silently, got %s", got)
	}
}

func TestStoredVersionOfADefinitionIsMigrated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.allow()
	definition := func(stored string, firstServed bool) string {
		version := func(name string, served bool) string {
			return fmt.Sprintf(`{name: %s, served: %v, storage: %v, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}, mode: {type: string, default: slow}}}}}}}`, name, served, name == stored)
		}
		return fmt.Sprintf("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: movers.%[1]s.example.com}, spec: {group: %[1]s.example.com, scope: Namespaced, names: {plural: movers, singular: mover, kind: Mover}, versions: [%[2]s, %[3]s]}}",
			w.ns, version("v1", firstServed), version("v2", true))
	}
	mover := func(version string, size int) string {
		return fmt.Sprintf("apiVersion: %s.example.com/%s\nkind: Mover\nmetadata: {name: one}\nspec: {size: %d}\n", w.ns, version, size)
	}
	w.forgetLater("crd/movers." + w.ns + ".example.com")
	w.Kubectl(t, definition("v1", true), "apply", "-f", "-")
	w.Kubectl(t, "", "wait", "--for=condition=Established", "crd/movers."+w.ns+".example.com", "--timeout=30s")
	commit := w.git.Commit(map[string]string{"shop/mover.yaml": mover("v1", 1)}, "v1")
	w.app("shop")
	w.until("shop", syncedAt(commit))
	uid := w.kubectl("get", "movers", "one", "-o", "jsonpath={.metadata.uid}")

	mark := w.AuditMark(t)
	w.Kubectl(t, definition("v2", true), "apply", "-f", "-")
	kubetest.Eventually(t, patience, func() error { // what a storage migration does, until the API server writes the new version
		_, err := w.TryKubectl(context.Background(), w.kubectl("get", "movers.v2."+w.ns+".example.com", "one", "-o", "json"), "-n", w.ns, "replace", "-f", "-")
		return err
	})
	w.looksAgain("shop")
	if got := w.writes(mark); len(got) != 0 {
		t.Errorf("a migration is no drift, yet the agent wrote %v", got)
	}

	commit = w.git.Commit(map[string]string{"shop/mover.yaml": mover("v2", 2)}, "v2")
	w.until("shop", syncedAt(commit))
	w.kubectl("patch", "crd", "movers."+w.ns+".example.com", "--subresource=status", "--type=merge", "-p", `{"status":{"storedVersions":["v2"]}}`)
	w.Kubectl(t, definition("v2", false), "apply", "-f", "-")
	w.kubectl("patch", "movers", "one", "--type=merge", "--field-manager=kubectl-edit", "-p", `{"spec":{"size":7}}`)
	w.eventually("2 "+uid, func() string {
		return w.kubectl("get", "movers", "one", "-o", "jsonpath={.spec.size} {.metadata.uid}")
	})
	w.until("shop", syncedAt(commit))
}
