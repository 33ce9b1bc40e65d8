package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// stuck is one case's part of the cluster.
type stuck struct {
	*env
	t         *testing.T
	name      string // of the Application and of its folder in Git
	namespace string // of its objects
}

// deploy makes the Application and waits until the agent has applied it.
func (s *stuck) deploy(repo *repository) {
	s.t.Helper()
	_, err := s.Applications(s.env.namespace).Create(s.t.Context(), &v1alpha1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.env.namespace},
		Spec: v1alpha1.ApplicationSpec{
			Source:      v1alpha1.Source{RepoURL: "file://" + repo.dir, Path: s.name},
			Destination: v1alpha1.Destination{Namespace: s.namespace},
			SyncPolicy:  &v1alpha1.SyncPolicy{Automated: &v1alpha1.Automated{}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.run(s.t, 0, "wait", s.name, "-n", s.env.namespace, "--synced", "--timeout", "90s")
}

func (s *stuck) kubectl(stdin string, args ...string) string {
	s.t.Helper()
	return strings.TrimSpace(s.kube.Kubectl(s.t, stdin, args...))
}

// pod waits until kwok has taken up the pod with a label, and returns its name.
func (s *stuck) pod(label string) string {
	s.t.Helper()
	var name string
	kubetest.Eventually(s.t, time.Minute, func() error {
		name = s.kubectl("", "get", "pods", "-n", s.namespace, "-l", label, "-o", `jsonpath={range .items[?(@.status.podIP)]}{.metadata.name}{end}`)
		if name == "" {
			return fmt.Errorf("no pod %s is on a node", label)
		}
		return nil
	})
	return name
}

// container is how the one container of a pod is, as its kubelet would say.
type container struct {
	phase       string // of the pod
	state, last string // JSON
	ready       bool
	restarts    int
}

const isRunning = `{"running": {"startedAt": "2026-01-01T00:00:00Z"}}`

func (s *stuck) setContainer(pod string, c container) {
	s.t.Helper()
	name, _, _ := strings.Cut(pod, "-")
	image := s.kubectl("", "get", "pod", pod, "-n", s.namespace, "-o", "jsonpath={.spec.containers[0].image}")
	ready := "False"
	if c.ready {
		ready = "True"
	}
	patch := fmt.Sprintf(`{"status": {"phase": %q, "conditions": [
		{"type": "PodScheduled", "status": "True"}, {"type": "Initialized", "status": "True"},
		{"type": "ContainersReady", "status": %q}, {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
		"containerStatuses": [{"name": %q, "image": %q, "imageID": "", "ready": %v, "started": %v, "restartCount": %d, "state": %s, "lastState": %s}]}}`,
		c.phase, ready, name, image, c.ready, strings.Contains(c.state, "running"), c.restarts, c.state, cmp.Or(c.last, "{}"))
	s.kubectl("", "patch", "pod", pod, "-n", s.namespace, "--subresource=status", "--type=merge", "-p", patch)
}

// event says something about a pod, as its kubelet would.
func (s *stuck) event(pod, reason, message string) {
	s.t.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	event, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason, "message": message, "count": 4,
		"firstTimestamp": now, "lastTimestamp": now, "source": map[string]any{"component": "kubelet"},
		"metadata":       map[string]any{"name": pod + "." + strings.ToLower(reason), "namespace": s.namespace},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": s.namespace, "name": pod},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.kubectl(string(event), "apply", "-f", "-")
}

// kubeconfigOf writes a kubeconfig for a ServiceAccount.
func (e *env) kubeconfigOf(t *testing.T, account string) string {
	t.Helper()
	user := e.kube.ServiceAccountConfig(t, e.namespace, account)
	admin, err := clientcmd.LoadFromFile(e.kube.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for name := range admin.AuthInfos {
		admin.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: user.BearerToken}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*admin, file); err != nil {
		t.Fatal(err)
	}
	return file
}
