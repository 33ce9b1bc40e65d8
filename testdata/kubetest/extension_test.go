package kubetest_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trueup/trueup/testdata/kubetest"
)

func TestAggregatedAPIIsServedThroughTheAPIServer(t *testing.T) {
	c := kubetest.Shared(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/weather.example.com/v1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"weather.example.com/v1",
			"resources":[{"name":"reports","singularName":"report","namespaced":false,"kind":"Report","verbs":["get"]}]}`)
	})
	mux.HandleFunc("/apis/weather.example.com/v1/reports/today", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"Report","apiVersion":"weather.example.com/v1","metadata":{"name":"today"},"asked":%q}`, r.Header.Get("X-Remote-User"))
	})
	t.Run("while the test runs", func(t *testing.T) {
		c.AggregatedAPI(t, "weather.example.com", "v1", mux)
		got := c.Kubectl(t, "", "get", "report.v1.weather.example.com", "today", "-o", "jsonpath={.metadata.name} asked by {.asked}")
		if want := "today asked by admin"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	kubetest.Eventually(t, 10*time.Second, func() error {
		if _, err := c.TryKubectl(t.Context(), "", "get", "--raw", "/apis/weather.example.com/v1/reports/today"); err == nil {
			return errors.New("the API is still served after its test")
		}
		return nil
	})
}

func TestAdmissionWebhookOnLoopbackIsAsked(t *testing.T) {
	c := kubetest.Shared(t)
	namespace := c.Namespace(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct{ Request struct{ UID string } }
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":%q,"allowed":false,"status":{"message":"not on a Sunday"}}}`, review.Request.UID)
	}))
	t.Cleanup(server.Close)
	authority, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	if err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %[1]s}
webhooks:
- name: refuse.example.com
  clientConfig: {url: %[2]s, caBundle: %[3]s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  admissionReviewVersions: [v1]
  sideEffects: None
`, namespace, server.URL, authority), "apply", "-f", "-")
	defer c.Kubectl(t, "", "delete", "validatingwebhookconfiguration", namespace)
	kubetest.Eventually(t, 10*time.Second, func() error { // the API server takes a moment to see the webhook
		_, err := c.TryKubectl(t.Context(), "", "create", "configmap", "refused", "-n", namespace, "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), "not on a Sunday") {
			return fmt.Errorf("creating a ConfigMap: got error %v, want the webhook's refusal", err)
		}
		return nil
	})
}
