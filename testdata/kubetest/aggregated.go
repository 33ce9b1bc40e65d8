package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"
)

// AggregatedAPI makes the cluster serve an API group by handler, through an APIService, until the test
// ends. It returns when the API server has found it available. The handler answers discovery
// (/apis/GROUP/VERSION) as well as requests; who asks is in the X-Remote-User header.
func (c *Cluster) AggregatedAPI(t testing.TB, group, version string, handler http.Handler) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	namespace, name := c.Namespace(t), version+"."+group
	c.apply(t, object{
		"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "api", "namespace": namespace},
		"spec": object{"type": "ExternalName", "externalName": "localhost", "ports": []object{{"port": port}}},
	})
	c.apply(t, object{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": object{"name": name},
		"spec": object{
			"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 10,
			"service": object{"namespace": namespace, "name": "api", "port": port}, "insecureSkipTLSVerify": true,
		},
	})
	// Before the server is closed and the namespace deleted: an APIService without a server behind it
	// would keep every namespace of the cluster from being deleted.
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if _, err := c.TryKubectl(ctx, "", "delete", "apiservice", name); err != nil {
			t.Error(err)
		}
	})
	Eventually(t, 30*time.Second, func() error {
		status := c.Kubectl(t, "", "get", "apiservice", name, "-o", `jsonpath={.status.conditions[?(@.type=="Available")]}`)
		var available struct{ Status, Message string }
		if status == "" {
			return fmt.Errorf("APIService %s has no condition Available yet", name)
		}
		if err := json.Unmarshal([]byte(status), &available); err != nil {
			return err
		}
		if available.Status != "True" {
			return fmt.Errorf("APIService %s is not available: %s", name, available.Message)
		}
		return nil
	})
}

// apply creates or updates an object as kubectl does.
func (c *Cluster) apply(t testing.TB, object map[string]any) {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, string(data), "apply", "-f", "-")
}
