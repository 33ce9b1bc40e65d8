package sync

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

const variedDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: ${replicas:=1}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: "registry.example.com/${image_name}:${image_tag}"
          env: [{name: TOKEN, value: "${token}"}]
`

func postBuild(p v1alpha1.PostBuild) func(*v1alpha1.Application) {
	return func(app *v1alpha1.Application) { app.Spec.Source.PostBuild = &p }
}

func TestVariables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": variedDeployment}, "first")
	w.kubectl("create", "configmap", "common", "--from-literal=image_tag=1.0", "--from-literal=image_name=web", "--from-literal=replicas=7")
	w.kubectl("create", "configmap", "prod", "--from-literal=replicas=3")
	w.secret("tokens", "token", "analytical-engine-1")
	w.app("shop", postBuild(v1alpha1.PostBuild{
		Substitute: map[string]string{"image_tag": "1.1"},
		SubstituteFrom: []v1alpha1.SubstituteReference{
			{Kind: "ConfigMap", Name: "common"}, {Kind: "ConfigMap", Name: "prod"}, {Kind: "Secret", Name: "tokens"}, {Kind: "ConfigMap", Name: "later", Optional: true},
		},
	}))
	w.until("shop", synced(commit))
	shows := func(want string) {
		t.Helper()
		got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[0].value}")
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	shows("3 registry.example.com/web:1.1 analytical-engine-1")

	// What the variables are from counts as what is declared: a change of it is synced, also where nothing is healed.
	w.kubectl("patch", "application", "shop", "--type=merge", "-p", `{"spec":{"syncPolicy":{"automated":{"selfHeal":false}}}}`)
	changed := func(want string) {
		t.Helper()
		w.until("shop", func(app *v1alpha1.Application) error {
			if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].env[0].value} {.spec.replicas}"); got != want {
				return fmt.Errorf("got %s, want %s", got, want)
			}
			return synced(commit)(app)
		})
	}
	w.secret("tokens", "token", "analytical-engine-2")
	changed("analytical-engine-2 3")
	w.kubectl("create", "configmap", "later", "--from-literal=replicas=2")
	changed("analytical-engine-2 2")
	w.stop()
	mark := w.AuditMark(t)
	w.start()
	w.until("shop", func(app *v1alpha1.Application) error {
		if w.passes() == 0 {
			return fmt.Errorf("the agent has not looked yet")
		}
		return synced(commit)(app)
	})
	if writes := w.writes(mark); len(writes) != 0 {
		t.Errorf("nothing has changed while the agent was away, yet it wrote %v", writes)
	}
	w.hidesEverywhere("analytical-engine")
}

func TestVariablesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.Commit(map[string]string{
		"strict/a.yaml":  settings("strict", "${nowhere}"),
		"absent/a.yaml":  settings("absent", "${mode}"),
		"no-name/a.yaml": settings("no-name", "${mode}"),
		"no-yaml/a.yaml": settings("no-yaml", "${password}"),
	}, "first")
	w.kubectl("create", "configmap", "dotted", "--from-literal=a.b=x")
	w.secret("passwords", "password", "analytical: engine: [")
	from := func(kind, name string) func(*v1alpha1.Application) {
		return postBuild(v1alpha1.PostBuild{SubstituteFrom: []v1alpha1.SubstituteReference{{Kind: kind, Name: name}}})
	}
	w.app("strict", from("Secret", "passwords"))
	w.app("absent", from("ConfigMap", "forgotten"))
	w.app("no-name", from("ConfigMap", "dotted"))
	w.app("no-yaml", from("Secret", "passwords"))
	w.until("strict", says(v1alpha1.ConditionRendered, "strict/a.yaml:1", "variable nowhere is not set"))
	w.until("absent", says(v1alpha1.ConditionRendered, "ConfigMap "+w.ns+"/forgotten", "make it, or set optional: true"))
	w.until("no-name", says(v1alpha1.ConditionRendered, "ConfigMap "+w.ns+"/dotted", "its key a.b is no name of a variable"))
	w.until("no-yaml", says(v1alpha1.ConditionRendered, "no-yaml/a.yaml:1", "quote the variable"))
	w.kubectl("create", "configmap", "forgotten", "--from-literal=mode=found")
	w.until("absent", synced(w.git.Rev("main")))
	w.hidesEverywhere("analytical")
}

// TestSecretVariablesAreNeverShown lets the API server repeat what it refuses, and the cluster what it cannot do.
func TestSecretVariablesAreNeverShown(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t, kubetest.Shared(t))
	log := newLines()
	w.log = log.logger()
	w.start()
	w.secret("values", "policy", "Hunter2-Policy!", "name", "Hunter2_Name", "port", "7", "quantity", `hunter"2`)
	w.git.Commit(map[string]string{
		"policy/a.yaml":   strings.Replace(strings.Replace(variedDeployment, "${replicas:=1}", "1", 1), "    spec:\n", "    spec:\n      restartPolicy: ${policy}\n", 1),
		"name/a.yaml":     "apiVersion: v1\nkind: Service\nmetadata: {name: svc}\nspec: {ports: [{name: \"${name,,}\", port: 80}]}\n",
		"quantity/a.yaml": "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {pods: '${quantity^^}'}}\n",
		"short/a.yaml":    "apiVersion: v1\nkind: Service\nmetadata: {name: short}\nspec: {ports: [{port: 80, protocol: \"${port}\"}]}\n",
	}, "first")
	values := postBuild(v1alpha1.PostBuild{
		Substitute:     map[string]string{"image_name": "web", "image_tag": "1", "token": "x"},
		SubstituteFrom: []v1alpha1.SubstituteReference{{Kind: "Secret", Name: "values"}},
	})
	for name, words := range map[string][]string{
		"policy": {"restartPolicy", "***"}, "name": {"ports", "***"}, "quantity": {"policy"}, "short": {"protocol", "***"},
	} {
		w.app(name, values)
		if name == "quantity" {
			words = []string{"ResourceQuota"}
		}
		w.until(name, says(v1alpha1.ConditionApplied, words...))
	}
	w.hidesEverywhere("Hunter2", "hunter2", "HUNTER", `hunter\"2`)
	for _, value := range []string{"Hunter2", "hunter2_name", `HUNTER`} {
		if text := log.String(); strings.Contains(text, value) {
			t.Errorf("the log has %s: %s", value, text)
		}
	}
}
