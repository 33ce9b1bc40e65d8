package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// metricsAPI is metrics.k8s.io for pods that do not compute: it divides a load among the pods that are asked for, so
// that the autoscaler has something real to reckon with.
type metricsAPI struct {
	kube   kubernetes.Interface
	server *httptest.Server
	load   atomic.Int64 // of all pods of a selector together, in thousandths of a CPU
}

type object = map[string]any

// startMetrics makes the cluster serve the API.
func (s *stage) startMetrics(ctx context.Context) error {
	m := &metricsAPI{kube: s.Kube}
	m.load.Store(200)
	m.server = httptest.NewTLSServer(m)
	s.metrics = m
	address, err := url.Parse(m.server.URL)
	if err != nil {
		return err
	}
	_, err = s.sh(ctx, fmt.Sprintf(`kubectl apply -f - <<END
apiVersion: v1
kind: Service
metadata: {name: metrics, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %[1]s}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: kube-system, name: metrics, port: %[1]s}
END
kubectl wait --for=condition=Available --timeout=30s apiservice/v1beta1.metrics.k8s.io`, address.Port()))
	return err
}

func (m *metricsAPI) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	const root = "/apis/metrics.k8s.io/v1beta1"
	answer := object{
		"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1",
		"resources": []object{{"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": []string{"list"}}},
	}
	if req.URL.Path != root {
		namespace, ok := strings.CutSuffix(strings.TrimPrefix(req.URL.Path, root+"/namespaces/"), "/pods")
		if !ok || strings.Contains(namespace, "/") {
			http.NotFound(w, req)
			return
		}
		items, err := m.items(req.Context(), namespace, req.URL.Query().Get("labelSelector"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer = object{"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": object{}, "items": items}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer) //nolint:errcheck // the client has gone
}

func (m *metricsAPI) items(ctx context.Context, namespace, selector string) ([]object, error) {
	pods, err := m.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	var running []corev1.Pod
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			running = append(running, pod)
		}
	}
	items := []object{}
	for _, pod := range running {
		items = append(items, object{
			"metadata":  object{"name": pod.Name, "namespace": namespace, "labels": pod.Labels},
			"timestamp": time.Now().UTC().Format(time.RFC3339), "window": "1s",
			"containers": []object{{
				"name":  pod.Spec.Containers[0].Name,
				"usage": object{"cpu": fmt.Sprintf("%dm", m.load.Load()/int64(len(running))), "memory": "64Mi"},
			}},
		})
	}
	return items, nil
}
