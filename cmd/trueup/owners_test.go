package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
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

func TestOwnersOfAHookTellWhatBecameOfIt(t *testing.T) {
	e := newEnv(t)
	repo := newRepository(t)
	job := `apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: registry.example.com/migrate:1}]}}}
`
	repo.commit(t, map[string]string{
		"deploy/kustomization.yaml": "resources: [a.yaml, hooks.yaml]\ncommonLabels: {team: shop}\n",
		"deploy/a.yaml":             configMap("a", "one"),
		"deploy/hooks.yaml": job + "---\n" + strings.NewReplacer("migrate", "never", "PreSync", "SyncFail").Replace(job) +
			"---\n" + strings.NewReplacer("migrate", "skipped", "PreSync", "Skip").Replace(job),
	})
	e.startAgent(t, repo, "--poll-interval", "1h")
	e.eventuallySynced(t)
	kubetest.Eventually(t, 30*time.Second, func() error {
		_, errOut := e.run(t, 1, "owners", "shop", "job/migrate", "-n", e.namespace)
		if want := "; its object is not in the cluster"; !strings.Contains(errOut, want) {
			return fmt.Errorf("%q is missing in %s", want, errOut)
		}
		hasLine(t, errOut, `Job \S+/migrate is a hook \(deploy/\S+\): a sync makes it and waits for it, and nothing is done about its fields; in PreSync it succeeded at \d{4}-\S+Z: completed, `)
		return nil
	})
	_, errOut := e.run(t, 1, "owners", "shop", "job/never", "-n", e.namespace)
	contains(t, errOut, "in SyncFail it has not run in the last sync")
	_, errOut = e.run(t, 1, "owners", "shop", "job/skipped", "-n", e.namespace)
	contains(t, errOut, "is a hook that is left out")
	_, errOut = e.run(t, 1, "owners", "shop", "job/other", "-n", e.namespace)
	contains(t, errOut, "the Application has no job/other")

	// What kustomize warns of is told where the Application is shown.
	out, _ := e.run(t, 0, "status", "shop", "-n", e.namespace)
	hasLine(t, out, `^Warnings\n  deploy/kustomization.yaml: .*commonLabels.* is deprecated`)
}

// hasLine checks that a line of text is as a regular expression says.
func hasLine(t *testing.T, text, expression string) {
	t.Helper()
	if !regexp.MustCompile("(?m)" + expression).MatchString(text) {
		t.Errorf("no line like %s in:\n%s", expression, text)
	}
}
