package sync

import (
	"os"
	"testing"

	"github.com/trueup/trueup/source"
)

func TestMain(m *testing.M) {
	source.Main()
	if namespace := os.Getenv(informerOf); namespace != "" {
		runInformer(namespace)
	}
	os.Exit(m.Run())
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: web
          image: nginx:1.29
          ports:
            - containerPort: 80
          resources:
            requests: {cpu: 1000m, memory: 1024Mi}
`

const configMap = `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  mode: production
`

func TestCommitBecomesTheCluster(t *testing.T) {
	w := newWorld(t)
	first := w.git.Commit(map[string]string{"shop/web.yaml": deployment, "shop/settings.yaml": configMap}, "first")
	w.app("shop")
	w.until("shop", synced(first))
	if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"); got != "2" {
		t.Errorf("ready replicas: got %s, want 2", got)
	}

	second := w.git.Commit(map[string]string{"shop/settings.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {mode: test}}`}, "second")
	mark := w.AuditMark(t)
	w.until("shop", synced(second))
	if got := w.kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.mode}"); got != "test" {
		t.Errorf("the ConfigMap's mode: got %s, want test", got)
	}
	if writes := w.writes(mark); len(writes) != 2 {
		t.Errorf("a change of one object takes a dry-run and an apply, got %v", writes)
	}

	third := w.git.Remove("third", "shop/settings.yaml")
	w.until("shop", synced(third))
	if got := w.kubectl("get", "configmap", "settings", "--ignore-not-found", "-o", "name"); got != "" {
		t.Errorf("the ConfigMap should be pruned, got %s", got)
	}
}
