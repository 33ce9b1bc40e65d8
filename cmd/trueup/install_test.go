package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/deploy"
	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// TestInstallation has a cluster to itself: installing and uninstalling concerns all of it.
func TestInstallation(t *testing.T) {
	t.Parallel()
	kube, err := kubetest.Start(context.WithoutCancel(t.Context()), kubetest.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kube.Stop)
	e := &env{cluster: connectTo(t, kube.Kubeconfig()), kube: kube, namespace: deploy.Namespace}
	t.Run("install, use and uninstall", e.testInstallAndUninstall)
	t.Run("kubectl installs the same", e.testKubectlInstallsTheSame)
	t.Run("install says what it waits for", e.testInstallSaysWhatItWaitsFor)
}

func (e *env) testInstallAndUninstall(t *testing.T) {
	_, errOut := e.run(t, 1, "status")
	contains(t, errOut, `trueup: trueup is not installed in this cluster: run "trueup install"`)
	_, errOut = e.run(t, 1, "sync", "shop")
	contains(t, errOut, `run "trueup install"`)

	out, _ := e.run(t, 0, "install", "--allow", "shop.example.com/*")
	contains(t, out, "Namespace trueup created\n", "CustomResourceDefinition applications.trueup.dev created\n",
		"Deployment trueup/trueup created\n", "ClusterRole "+deploy.AllowedRole+" created\n", "Trueup is installed in namespace trueup.")
	out, _ = e.run(t, 0, "install")
	contains(t, out, "Deployment trueup/trueup unchanged\n")
	absent(t, out, " changed", " created")
	out, _ = e.run(t, 0, "status")
	contains(t, out, "There is no Application yet. The agent looks for them in namespace trueup;", "trueup agent --repo")
	_, manifest, _ := strings.Cut(out, "<<'END'\n")
	manifest, _, _ = strings.Cut(manifest, "END\n")
	contains(t, e.kube.Kubectl(t, manifest, "apply", "--dry-run=server", "-f", "-"), "application.trueup.dev/shop created")
	out, _ = e.run(t, 0, "status", "-n", "default")
	contains(t, out, "There is no Application in namespace default.\n")

	e.checkPermissions(t)

	_, errOut = e.run(t, 1, "install", "-n", "second")
	contains(t, errOut, "an agent is already installed in namespace trueup")
	_, errOut = e.run(t, 1, "uninstall", "-n", "second", "--yes")
	contains(t, errOut, "the agent is not in namespace second: say -n trueup")
	_, errOut = e.run(t, 1, "uninstall")
	contains(t, errOut, "say --yes if it is meant")

	// An Application with what it manages; its deletion would wait for an agent.
	app := e.createApp(t, "shop")
	e.kube.Kubectl(t, "", "patch", "application", app.Name, "-n", e.namespace, "--type=merge",
		"-p", fmt.Sprintf(`{"metadata":{"finalizers":["example.com/other",%q]}}`, v1alpha1.FinalizerCascade))
	e.kube.Kubectl(t, strings.ReplaceAll(managedObjects, "NAMESPACE", "default"), "apply", "-n", "default", "-f", "-")

	out, _ = e.run(t, 0, "uninstall", "--yes")
	contains(t, out, "Deployment trueup/trueup deleted\n", "ClusterRole trueup-managed deleted\n", "ClusterRole "+deploy.AllowedRole+" deleted\n",
		"Namespace trueup stays: Application shop is in it\n", "What the Applications put into the cluster is still there")
	out, _ = e.run(t, 0, "status")
	contains(t, out, "shop")

	// The other finalizer is somebody's; it goes after a while.
	e.kube.Kubectl(t, "", "create", "configmap", "mine", "-n", e.namespace)
	uninstalling := e.start(t, "uninstall", "--yes", "--delete-crd")
	kubetest.Eventually(t, 30*time.Second, func() error {
		app, err := e.Applications(e.namespace).Get(t.Context(), "shop", metav1.GetOptions{})
		if err == nil && len(app.Finalizers) != 1 {
			err = fmt.Errorf("the finalizers are %v", app.Finalizers)
		}
		return err
	})
	e.kube.Kubectl(t, "", "patch", "application", "shop", "-n", e.namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if code := uninstalling.wait(t); code != 0 {
		t.Fatalf("the exit code is %d: %s", code, uninstalling.err.String())
	}
	contains(t, uninstalling.out.String(), "CustomResourceDefinition applications.trueup.dev deleted\n", "Namespace trueup stays: ConfigMap mine is in it\n")
	_, errOut = e.run(t, 1, "status")
	contains(t, errOut, `run "trueup install"`)

	e.kube.Kubectl(t, "", "delete", "configmap", "mine", "-n", e.namespace)
	out, _ = e.run(t, 0, "uninstall", "--yes")
	contains(t, out, "Namespace trueup deleted\n")

	// What the Application managed is as it was.
	e.kube.Kubectl(t, "", "get", "deployment/web", "configmap/settings", "-n", "default")
}

// mayAgent asks the API server whether the agent may do something: "VERB GROUP RESOURCE[/SUBRESOURCE] [NAMESPACE [NAME]]".
func (e *env) mayAgent(t *testing.T, question string) bool {
	t.Helper()
	words := append(strings.Fields(question), "", "")
	resource, subresource, _ := strings.Cut(words[2], "/")
	review, err := e.Kube.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:trueup:trueup",
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: words[0], Group: strings.TrimSuffix(words[1], "core"), Resource: resource, Subresource: subresource,
				Namespace: words[3], Name: words[4],
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

func (e *env) checkPermissions(t *testing.T) {
	t.Helper()
	kubetest.Eventually(t, 20*time.Second, func() error { // the aggregated role is filled in after a while
		if !e.mayAgent(t, "create shop.example.com widgets default") {
			return errors.New("the agent may not create what --allow names")
		}
		return nil
	})
	for question, want := range map[string]bool{
		"patch apps deployments default":                      true,
		"delete core secrets default":                         true,
		"list autoscaling horizontalpodautoscalers":           true,
		"watch keda.sh scaledobjects":                         true,
		"patch trueup.dev applications/status trueup shop":    true,
		"create events.k8s.io events trueup":                  true,
		"update coordination.k8s.io leases trueup trueup":     true,
		"update coordination.k8s.io leases trueup other":      false,
		"update coordination.k8s.io leases kube-system other": false,
		"patch trueup.dev applications/status default shop":   false,
		"update apps deployments default":                     false,
		"deletecollection core pods default":                  false,
		"create core pods/exec default":                       false,
		"create core serviceaccounts/token default":           false,
		"escalate rbac.authorization.k8s.io clusterroles":     false,
		"bind rbac.authorization.k8s.io clusterroles":         false,
		"impersonate core users":                              false,
		"create other.example.com widgets default":            false,
		"patch core nodes":                                    false,
	} {
		if got := e.mayAgent(t, question); got != want {
			t.Errorf("may the agent %s? %v, want %v", question, got, want)
		}
	}
}

func (e *env) testKubectlInstallsTheSame(t *testing.T) {
	e.kube.Kubectl(t, "", "apply", "-k", "../../deploy")
	e.kube.Kubectl(t, "", "rollout", "status", "-n", deploy.Namespace, "deployment/"+deploy.Deployment, "--timeout=60s")
	out, _ := e.run(t, 0, "install")
	contains(t, out, "Trueup is installed")
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if strings.HasSuffix(line, " created") {
			t.Errorf("kubectl apply -k has left out: %s", line)
		}
	}
	e.run(t, 0, "uninstall", "--yes", "--delete-crd")
	if _, err := e.Kube.CoreV1().Namespaces().Get(t.Context(), deploy.Namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is still there: %v", err)
	}
}

func (e *env) testInstallSaysWhatItWaitsFor(t *testing.T) {
	// A quota without room for a Pod: the Deployment cannot become ready.
	if _, err := e.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: deploy.Namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.kube.Kubectl(t, "", "create", "quota", "none", "-n", deploy.Namespace, "--hard=pods=0")
	_, errOut := e.run(t, 1, "install", "--timeout", "5s")
	contains(t, errOut, "waiting for Deployment trueup/trueup: the time is over: ")
}
