package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// managedObjects are a Deployment and a ConfigMap of Application shop, and a ConfigMap that somebody copied.
const managedObjects = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {trueup.dev/app: shop}
  annotations: {trueup.dev/tracking: 'NAMESPACE/shop:apps/Deployment:NAMESPACE/web'}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels: {trueup.dev/app: shop}
  annotations: {trueup.dev/tracking: 'NAMESPACE/shop:/ConfigMap:NAMESPACE/settings'}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: copy
  labels: {trueup.dev/app: shop}
  annotations: {trueup.dev/tracking: 'NAMESPACE/shop:/ConfigMap:NAMESPACE/settings'}
`

func TestStatusShowsOneApplicationWithItsObjects(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	e.kube.Kubectl(t, strings.ReplaceAll(managedObjects, "NAMESPACE", e.namespace), "apply", "-n", e.namespace, "-f", "-")
	e.kube.Kubectl(t, "", "rollout", "status", "-n", e.namespace, "deployment/web", "--timeout=60s")
	e.setStatus(t, "shop", unsettled)

	out, _ := e.run(t, 0, "status", "shop", "-n", e.namespace)
	out = strings.ReplaceAll(out, e.namespace, "NAMESPACE")
	contains(t, out,
		"Application  NAMESPACE/shop\n",
		"Repository   https://git.example.com/shop.git\n",
		"Path         deploy/prod at main\n",
		"Policy       automated, prune, self-heal\n",
		"Sync         OutOfSync, 1 of 3 objects with 3f2a1b7; the newer 9988776 cannot be used\n",
		"Health       Progressing, since ",
		"Message      2 objects are not in sync\n",
		"Rendered  False  InvalidYAML  deploy/prod/web.yaml:12: did not find expected key\n",
		"Deployment NAMESPACE/web  .spec.replicas ← kubectl (scale) ",
		"Enforce  a person's tool took it\n",
		"PreSync   Job NAMESPACE/migrate  Succeeded  ", "ago: completed, 1 of 1 pods succeeded\n",
		"PostSync  Job NAMESPACE/migrate  Running    since ", ": 0 of 1 pods succeeded\n",
		"3f2a1b7  Succeeded  automated  3 created, 1 healed\n",
		"Widget.gone.example.com is a kind that the API server does not have (any more)\n",
	)
	for _, line := range []string{
		`(?m)^ConfigMap NAMESPACE/settings +Synced +Healthy `,
		`(?m)^Deployment NAMESPACE/web +OutOfSync +Progressing +\d+s +Drifted: 1 of 3 replicas ready\n└─ ReplicaSet web-\w+ +\d+s\n   ├─ Pod web-\w+-\w+ +Healthy .*\n   └─ Pod web-\w+-\w+ +Healthy `,
		`(?m)^Service NAMESPACE/web +OutOfSync +Missing +-$`,
	} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line like %s in:\n%s", line, out)
		}
	}
	absent(t, out, "s3cret", "copy", "Fetched", "\x1b")

	e.setStatus(t, "shop", func(app *v1alpha1.Application) { // the summary says what a condition says
		app.Status.Conditions[0].Message = app.Status.Conditions[2].Message
	})
	repeated, _ := e.run(t, 0, "status", "shop", "-n", e.namespace)
	if n := strings.Count(repeated, "did not find expected key"); n != 1 {
		t.Errorf("the same message is shown %d times:\n%s", n, repeated)
	}

	coloured, _ := e.run(t, 0, "status", "shop", "-n", e.namespace, "--color", "always")
	contains(t, coloured, "\x1b[33mOutOfSync\x1b[0m")
}

func TestStatusListsApplications(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "fresh")
	e.createApp(t, "good")
	e.createApp(t, "bad")
	e.setStatus(t, "good", settled)
	e.setStatus(t, "bad", unsettled)

	out, _ := e.run(t, 0, "status", "-n", e.namespace)
	row := func(name, rest string) string { return "(?m)^" + e.namespace + " +" + name + " +" + rest + "$" }
	for _, line := range []string{
		"^NAMESPACE +NAME +SYNC +HEALTH +REVISION +OBJECTS +AGE +MESSAGE\n",
		row("bad", `OutOfSync +Progressing +3f2a1b7 +1/3 +\d+s +2 objects are not in sync`),
		row("fresh", `Unknown +Unknown +- +0/0 +\d+s +the agent has not looked at it yet`),
		row("good", `Synced +Healthy +3f2a1b7 +3/3 +\d+s`),
	} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line like %s in:\n%s", line, out)
		}
	}
	all, _ := e.run(t, 0, "status")
	contains(t, all, e.namespace)
	wide, _ := e.run(t, 0, "status", "-n", e.namespace, "-o", "wide")
	contains(t, wide, "LAST SYNC", "REPOSITORY", "https://git.example.com/shop.git  deploy/prod  main")
	absent(t, wide, "s3cret")
}

func TestStatusForPrograms(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	e.setStatus(t, "shop", settled)

	out, _ := e.run(t, 0, "status", "-n", e.namespace, "-o", "json")
	var list v1alpha1.ApplicationList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Kind != "Application" || list.Items[0].ManagedFields != nil {
		t.Errorf("the list is %s", out)
	}
	out, _ = e.run(t, 0, "status", "shop", "-n", e.namespace, "-o", "yaml")
	var app v1alpha1.Application
	if err := yaml.UnmarshalStrict([]byte(out), &app); err != nil {
		t.Fatal(err)
	}
	if app.Status.Sync.Status != v1alpha1.Synced || app.APIVersion != "trueup.dev/v1alpha1" {
		t.Errorf("the Application is %s", out)
	}
}

func TestStatusWatchAppendsWhatChanges(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	e.createApp(t, "quiet")
	watching := e.start(t, "status", "--watch", "-n", e.namespace)
	eventuallyWrites(t, &watching.out, "quiet")
	eventuallyWrites(t, &watching.out, e.namespace+"/shop  Unknown  Unknown  -  0/0  the agent has not looked at it yet\n")
	e.setStatus(t, "shop", settled)
	eventuallyWrites(t, &watching.out, e.namespace+"/shop  Synced  Healthy  3f2a1b7  3/3\n")
	if err := e.Applications(e.namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventuallyWrites(t, &watching.out, e.namespace+"/shop deleted\n")
	if n := strings.Count(watching.out.String(), "quiet"); n != 1 {
		t.Errorf("an Application that did not change was written %d times:\n%s", n, watching.out.String())
	}
	watching.cancel()
	if code := watching.wait(t); code != 130 {
		t.Errorf("after an interrupt the exit code is %d", code)
	}
}

func TestStatusWatchOfOneEndsWithIt(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	watching := e.start(t, "status", "shop", "--watch", "-n", e.namespace)
	eventuallyWrites(t, &watching.out, "the agent has not looked at it yet\n")
	if err := e.Applications(e.namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if code := watching.wait(t); code != 1 {
		t.Errorf("the exit code is %d", code)
	}
	contains(t, watching.err.String(), "the Application "+e.namespace+"/shop has been deleted")
}

func TestAnApplicationIsFoundByItsName(t *testing.T) {
	e, other := newEnv(t), otherEnv(t)
	// Other tests have Applications in this cluster, too: these names are nobody else's.
	only, both := "only-"+e.namespace, "both-"+e.namespace
	e.createApp(t, only)
	e.createApp(t, both)
	other.createApp(t, both)

	out, _ := e.run(t, 0, "status", only)
	contains(t, out, e.namespace+"/"+only)

	_, errOut := e.run(t, 1, "status", both)
	contains(t, errOut, fmt.Sprintf("the name %q is in several namespaces: say which with -n ", both), e.namespace, other.namespace)

	_, errOut = e.run(t, 1, "status", only, "-n", other.namespace)
	contains(t, errOut, fmt.Sprintf("no Application %q in namespace %s: say -n %s", only, other.namespace, e.namespace))

	_, errOut = e.run(t, 1, "wait", only+"x")
	contains(t, errOut, fmt.Sprintf("no Application %q in any namespace; did you mean %s (namespace %s)", only+"x", only, e.namespace))

	out, _ = e.run(t, 0, "__complete", "status", "-n", e.namespace, "")
	contains(t, out, only+"\tnamespace "+e.namespace+"\n", both+"\t")
}

func TestAUserWithoutPermissionsIsToldSo(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	kubeconfig := e.serviceAccountKubeconfig(t, "nobody")

	c := start(t, "--kubeconfig", kubeconfig, "status", "shop", "-n", e.namespace)
	if code := c.wait(t); code != 1 {
		t.Errorf("the exit code is %d", code)
	}
	contains(t, c.err.String(), "forbidden", "system:serviceaccount:"+e.namespace+":nobody", "Your user lacks this permission")
}

func TestAUserMayReadOneNamespaceOnly(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	e.setStatus(t, "shop", unsettled)
	kubeconfig := e.serviceAccountKubeconfig(t, "reader")
	e.kube.Kubectl(t, "", "create", "role", "reader", "-n", e.namespace, "--verb=get,list,watch", "--resource=applications.trueup.dev,configmaps")
	e.kube.Kubectl(t, "", "create", "rolebinding", "reader", "-n", e.namespace, "--role=reader", "--serviceaccount="+e.namespace+":reader")

	list := start(t, "--kubeconfig", kubeconfig, "status")
	kubetest.Eventually(t, 20*time.Second, func() error { // RBAC is not known to the API server at once
		list = start(t, "--kubeconfig", kubeconfig, "status")
		if code := list.wait(t); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, list.err.String())
		}
		return nil
	})
	contains(t, list.out.String(), "shop")
	one := start(t, "--kubeconfig", kubeconfig, "status", "shop")
	if code := one.wait(t); code != 0 {
		t.Fatalf("the exit code is %d: %s", code, one.err.String())
	}
	contains(t, one.out.String(), "your user may not list deployments.apps: they are not shown", "OutOfSync")
	absent(t, one.out.String(), "your user may not list configmaps")
}

// serviceAccountKubeconfig writes a kubeconfig of a new account, with the namespace of e as its own.
func (e *env) serviceAccountKubeconfig(t *testing.T, name string) string {
	t.Helper()
	e.kube.Kubectl(t, "", "create", "serviceaccount", name, "-n", e.namespace)
	config := e.kube.ServiceAccountConfig(t, e.namespace, name)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u", Namespace: e.namespace}},
		CurrentContext: "c",
	}, file); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAnApplicationThatIsBeingDeletedSaysWhatItWaitsFor(t *testing.T) {
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}, Finalizers: []string{"example.com/a", "example.com/b"}}}
	settled(app)
	if got, want := message(app), "being deleted: waits until its finalizers are taken off: example.com/a, example.com/b"; got != want {
		t.Errorf("others have it: want %q, got %q", want, got)
	}
	app.Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleting, Message: "being deleted with its objects; waiting for 1: Deployment shop/web: is being deleted"}
	if got, want := message(app), app.Status.Conditions[0].Message; got != want {
		t.Errorf("its objects are pruned: want %q, got %q", want, got)
	}
}

func TestTheWideListSaysThatThereAreOtherSources(t *testing.T) {
	app := &v1alpha1.Application{}
	app.Spec.Sources = []v1alpha1.Source{{RepoURL: "https://git.example.com/shop.git", Path: "deploy"}, {RepoURL: "https://git.example.com/policies.git"}}
	var out strings.Builder
	listTable([]*v1alpha1.Application{app}, true).write(&out, palette(false))
	contains(t, out.String(), "deploy and 1 more source ")
}
