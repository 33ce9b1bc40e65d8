package kubetest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/trueup/trueup/testdata/kubetest"
)

func TestNamespacesAreUniqueAndUsable(t *testing.T) {
	c := kubetest.Shared(t)
	first, second := c.Namespace(t), c.Namespace(t)
	if first == second {
		t.Fatalf("two namespaces are both called %s", first)
	}
	c.Kubectl(t, "", "create", "configmap", "settings", "--from-literal=a=b", "-n", first)
	got := c.Kubectl(t, "", "get", "configmap", "settings", "-n", first, "-o", "jsonpath={.data.a}")
	if got != "b" {
		t.Errorf("the ConfigMap says %q, want b", got)
	}
	if _, err := c.TryKubectl(t.Context(), "", "get", "configmap", "settings", "-n", second); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("the ConfigMap of one namespace in the other: got error %v, want NotFound", err)
	}
}

func TestNamespaceIsDeletedAtTheEndOfTheTest(t *testing.T) {
	c := kubetest.Shared(t)
	var name string
	t.Run("uses a namespace", func(t *testing.T) { name = c.Namespace(t) })
	kubetest.Eventually(t, 30*time.Second, func() error {
		_, err := c.TryKubectl(t.Context(), "", "get", "namespace", name)
		if err == nil {
			return fmt.Errorf("namespace %s is still there", name)
		}
		if !strings.Contains(err.Error(), "NotFound") {
			return err
		}
		return nil
	})
}

func TestServiceAccountHasItsOwnRightsOnly(t *testing.T) {
	c := kubetest.Shared(t)
	namespace := c.Namespace(t)
	c.Kubectl(t, "", "create", "serviceaccount", "reader", "-n", namespace)
	c.Kubectl(t, "", "create", "role", "reader", "--verb=list", "--resource=configmaps", "-n", namespace)
	c.Kubectl(t, "", "create", "rolebinding", "reader", "--role=reader", "--serviceaccount="+namespace+":reader", "-n", namespace)
	client, err := kubernetes.NewForConfig(c.ServiceAccountConfig(t, namespace, "reader"))
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, 10*time.Second, func() error { // the authorizer sees the binding a moment later
		_, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
		return err
	})
	_, err = client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	want := "system:serviceaccount:" + namespace + ":reader"
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("listing Secrets: got error %v, want one that forbids it to %s", err, want)
	}
}

func TestAuditEventsAreTheRequestsSinceTheMarkEachOnce(t *testing.T) {
	c := kubetest.Shared(t)
	namespace := c.Namespace(t)
	config := c.RESTConfig()
	config.UserAgent = "audit-" + namespace
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	maps := client.CoreV1().ConfigMaps(namespace)
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil { // before the mark
		t.Fatal(err)
	}
	mark := c.AuditMark(t)
	watch, err := maps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
	if _, err := maps.Get(t.Context(), "absent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("getting an absent ConfigMap: %v", err)
	}
	mine := func(e kubetest.AuditEvent) bool { return e.UserAgent == config.UserAgent }
	type request struct {
		Verb, User, Namespace, Resource, Name string
		Code                                  int
	}
	var got []request
	for _, e := range c.AuditEvents(t, mark, mine) {
		got = append(got, request{e.Verb, e.User, e.Namespace, e.Resource, e.Name, e.Code})
	}
	want := []request{
		{"watch", "admin", namespace, "configmaps", "", 200},
		{"get", "admin", namespace, "configmaps", "absent", 404},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("requests since the mark (-want +got):\n%s", d)
	}
	if late := c.AuditEvents(t, c.AuditMark(t), mine); len(late) != 0 {
		t.Errorf("requests since a mark after all of them: %v, want none", late)
	}
}

func TestAPIServerStopsAndComesBackWithItsData(t *testing.T) {
	c, err := kubetest.Start(t.Context(), kubetest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	namespace := c.Namespace(t)
	if err := c.StopComponent(kubetest.APIServer); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryKubectl(t.Context(), "", "get", "namespace", namespace); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("asking a stopped API server: got error %v, want a refused connection", err)
	}
	if err := c.StopComponent(kubetest.APIServer); err == nil {
		t.Error("stopping a stopped API server: got no error")
	}
	if err := c.StartComponent(kubetest.APIServer); err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "", "get", "namespace", namespace)
	c.Kubectl(t, "", "create", "deployment", "web", "--image=web", "-n", namespace)
	c.Kubectl(t, "", "rollout", "status", "deployment/web", "-n", namespace, "--timeout=30s")
}
