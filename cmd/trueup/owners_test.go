package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/trueup/trueup/testdata/kubetest"
)

const webManifest = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  minReadySeconds: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: registry.example.com/web:1}]
`

func TestOwnersTellWhoHasEachFieldAndWhatIsDone(t *testing.T) {
	e := newEnv(t)
	repo := newRepository(t)
	commit := repo.commit(t, map[string]string{"deploy/web.yaml": webManifest, "deploy/a.yaml": configMap("a", "one")})
	e.startAgent(t, repo, "--self-heal=false", "--poll-interval", "1h")
	e.eventuallySynced(t)

	out, _ := e.run(t, 0, "owners", "shop", "deployment/web", "-n", e.namespace)
	contains(t, out, "Declared in  deploy/web.yaml:1 at "+commit[:7]+"\n")
	hasLine(t, out, `^\.spec\.replicas +trueup \(Apply\) +\d+s +Ours +- +as Git declares it$`)
	absent(t, out, "Enforce", "Note", "\x1b", ".status", "revisionHistoryLimit")

	e.kube.Kubectl(t, "", "scale", "deployment", "web", "-n", e.namespace, "--replicas=3")
	e.kube.Kubectl(t, "", "set", "image", "deployment/web", "-n", e.namespace, "web=registry.example.com/web:debug")
	e.kube.Kubectl(t, "", "patch", "deployment", "web", "-n", e.namespace, "--type=merge", "-p", `{"metadata":{"annotations":{"note":"mine"}},"spec":{"paused":true,"minReadySeconds":null}}`)
	e.kube.Kubectl(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"`+e.namespace+`","labels":{"team":"a"}}}`,
		"apply", "--server-side", "--field-manager=other-tool", "-f", "-")
	kubetest.Eventually(t, 20*time.Second, func() error { // the time of a scale is when the agent first saw it
		app, err := e.findApp(t.Context(), e.namespace, "shop")
		if err == nil && len(app.Status.Drift) < 3 {
			err = fmt.Errorf("the drift is %v", app.Status.Drift)
		}
		return err
	})
	out, _ = e.run(t, 0, "owners", "shop", "deploy/web", "-n", e.namespace)
	for _, line := range []string{
		`^Note +self-heal is off: what is to be enforced waits for "trueup sync shop"$`,
		`^\.spec\.replicas +kubectl \(Update, scale\) +\d+s +Enforce +person +changed by kubectl \(scale\)$`,
		`^\.spec\.template\.spec\.containers\[name="web"\]\.image +kubectl-set \(Update\) +\d+s +Enforce +person +changed by kubectl-set$`,
		`^\.spec\.template\.spec\.containers\[name="web"\]\.name +trueup \(Apply\) +\d+s +Ours `,
		`^\.spec\.paused +kubectl-patch \(Update\) +\d+s +Enforce +extra +not in Git, added by kubectl-patch: taken away$`,
		`^\.metadata\.annotations\.note +kubectl-patch \(Update\) +\d+s +Yield +extra +not in Git, added by kubectl-patch: left as it is$`,
	} {
		hasLine(t, out, line)
	}
	absent(t, out, "other-tool", "kube-controller-manager") // what they own is not declared

	var object struct {
		Application, Origin, Revision string
		Exists                        bool
		Object                        struct{ Group, Kind, Namespace, Name string }
		Fields                        []struct{ Path, Manager, Operation, Subresource, Since, Decision, Rule, Reason string }
	}
	out, _ = e.run(t, 0, "owners", "shop", e.namespace+"/Deployment/web", "-n", e.namespace, "-o", "json")
	if err := json.Unmarshal([]byte(out), &object); err != nil {
		t.Fatal(err)
	}
	if object.Object.Kind != "Deployment" || object.Revision != commit || !object.Exists || object.Origin != "deploy/web.yaml:1" {
		t.Errorf("the object is %+v", object)
	}
	found := false
	for _, f := range object.Fields {
		if f.Path == ".spec.replicas" {
			found = f.Manager == "kubectl" && f.Operation == "Update" && f.Subresource == "scale" && f.Since != "" && f.Decision == "Enforce" && f.Rule == "person"
		}
	}
	if !found {
		t.Errorf("the size is not kubectl's in:\n%s", out)
	}

	e.kube.Kubectl(t, "", "delete", "configmap", "a", "-n", e.namespace)
	out, _ = e.run(t, 0, "owners", "shop", "cm/a", "-n", e.namespace)
	contains(t, out, "Note         it is not in the cluster: a sync creates it with every field that Git declares\n")

	_, errOut := e.run(t, 1, "owners", "shop", "deployment/wbe", "-n", e.namespace)
	contains(t, errOut, "the Application has no deployment/wbe; did you mean deployment/web?")
	_, errOut = e.run(t, 1, "owners", "shop", "web", "-n", e.namespace)
	contains(t, errOut, `say KIND/NAME or NAMESPACE/KIND/NAME, not "web"`)
}

// hasLine checks that a line of text is as a regular expression says.
func hasLine(t *testing.T, text, expression string) {
	t.Helper()
	if !regexp.MustCompile("(?m)" + expression).MatchString(text) {
		t.Errorf("no line like %s in:\n%s", expression, text)
	}
}
