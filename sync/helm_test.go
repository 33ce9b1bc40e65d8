package sync

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trueup/trueup/sync/v1alpha1"
)

func chartFiles(version, password string) map[string]string {
	return map[string]string{
		"shop/Chart.yaml":        "apiVersion: v2\nname: shop\nversion: " + version + "\n",
		"shop/values.yaml":       "replicas: 1\n",
		"shop/values-prod.yaml":  "replicas: 2\n",
		"shop/templates/web.txt": "",
		"shop/templates/web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-web
  namespace: {{ .Release.Namespace }}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:{{ .Values.tag }}"}]}
`,
		"shop/templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {apps: {{ .Capabilities.APIVersions.Has \"apps/v1/Deployment\" | quote }}, old: {{ .Capabilities.APIVersions.Has \"policy/v1beta1\" | quote }}}\n",
		"shop/templates/secret.yaml":   "apiVersion: v1\nkind: Secret\nmetadata: {name: login, labels: {version: {{ .Chart.Version | quote }}}}\nstringData: {password: {{ " + password + " }}}\n",
		"shop/templates/hook.yaml":     "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, annotations: {helm.sh/hook: pre-delete}}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: x, image: x}]}}}\n",
		"shop/templates/NOTES.txt":     "Thank you.\n",
	}
}

func TestAChartIsSyncedHealedAndPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(chartFiles("1.0.0", "randAlphaNum 20"), "first")
	w.app("shop", func(app *v1alpha1.Application) {
		app.Spec.Source.Helm = &v1alpha1.Helm{ValueFiles: []string{"values-prod.yaml"}, ValuesObject: &runtime.RawExtension{Raw: []byte(`{"tag":"1.29"}`)}}
	})
	app := w.until("shop", synced(first))
	if got := w.kubectl("get", "deployment", "shop-web", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image}"); got != "2 nginx:1.29" {
		t.Errorf("the Deployment: got %s", got)
	}
	if got := w.kubectl("get", "configmap", "settings", "-o", "jsonpath={.data}"); got != `{"apps":"true","old":"false"}` {
		t.Errorf("the chart should see what the cluster serves, got %s", got)
	}
	if got := w.kubectl("get", "jobs", "-o", "name"); got != "" {
		t.Errorf("a hook that is left out is no object to keep, got %s", got)
	}
	rendered := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionRendered)
	for _, want := range []string{"3 objects", "hooks are left out that are not for a sync: Job migrate (pre-delete)", "Secret login (/stringData/password)"} {
		if !strings.Contains(rendered.Message, want) {
			t.Errorf("the condition Rendered should say %q: %s", want, rendered.Message)
		}
	}

	// What the chart has made up stays, though each render makes up something else.
	password := w.kubectl("get", "secret", "login", "-o", "jsonpath={.data.password}")
	second := w.git.Commit(chartFiles("1.0.1", "randAlphaNum 20"), "second")
	w.until("shop", synced(second))
	if got := w.kubectl("get", "secret", "login", "-o", "jsonpath={.metadata.labels.version} {.data.password}"); got != "1.0.1 "+password {
		t.Errorf("the password should stay and the label change, got %s, the password was %s", got, password)
	}

	w.kubectl("set", "image", "deployment/shop-web", "web=nginx:debug")
	w.until("shop", func(app *v1alpha1.Application) error {
		if got := w.kubectl("get", "deployment", "shop-web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"); got != "nginx:1.29" {
			return errors.New("the image is " + got)
		}
		return synced(second)(app)
	})

	third := w.git.Remove("third", "shop/templates/settings.yaml")
	w.until("shop", synced(third))
	if got := w.kubectl("get", "configmap", "settings", "--ignore-not-found", "-o", "name"); got != "" {
		t.Errorf("the ConfigMap should be pruned, got %s", got)
	}
}

func TestAChartThatLoopsHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := w.git.Commit(map[string]string{
		"bad/Chart.yaml":       "apiVersion: v2\nname: bad\nversion: 1.0.0\n",
		"bad/templates/x.yaml": "{{ range until 100000000 }}{{ range until 100000000 }}{{ end }}{{ end }}",
		"good/x.yaml":          configMap,
	}, "first")
	w.app("bad")
	w.app("good")
	w.until("good", synced(good))
	w.until("bad", func(app *v1alpha1.Application) error {
		c := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionRendered)
		if c == nil || c.Reason != "RenderFailed" || !strings.Contains(c.Message, "the renderer was stopped at bad/templates/x.yaml") {
			return errors.New("it is not refused")
		}
		return nil
	})
}
