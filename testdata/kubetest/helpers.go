package kubetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// pollInterval is the time between two tries of Eventually.
const pollInterval = 20 * time.Millisecond

// Eventually calls check until it returns nil, and fails the test with its last error after timeout.
func Eventually(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	started := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(started) > timeout {
			t.Fatalf("after %s: %v", timeout, err)
		}
		time.Sleep(pollInterval)
	}
}

// Namespace creates a namespace with a name of its own, which reminds of the test. It is deleted when
// the test ends, without waiting until it is gone.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	client := c.client(t).CoreV1().Namespaces()
	name := namespaceName(t.Name())
	_, err := client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating namespace %s: %v", name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Logf("deleting namespace %s: %v", name, err)
		}
	})
	return name
}

// cleanupContext is for what is done after a test, when the test's own context has ended.
func cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 10*time.Second)
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func namespaceName(test string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(test), "-"), "-")
	return strings.TrimRight(name[:min(len(name), 40)], "-") + "-" + strings.ToLower(rand.Text()[:8])
}

func (c *Cluster) client(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	config := c.RESTConfig()
	config.UserAgent = "kubetest"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// ServiceAccountConfig returns a client configuration that is nobody but an existing ServiceAccount, by
// a token that the API server issued for it.
func (c *Cluster) ServiceAccountConfig(t testing.TB, namespace, name string) *rest.Config {
	t.Helper()
	token, err := c.client(t).CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("requesting a token for ServiceAccount %s/%s: %v", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.config)
	config.QPS = -1
	config.BearerToken = token.Status.Token
	return config
}

// Kubectl runs kubectl as the administrator and returns what it prints on standard output. It fails the
// test when kubectl fails.
func (c *Cluster) Kubectl(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	out, err := c.TryKubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TryKubectl is Kubectl for commands that may fail; the error has what kubectl said on standard error.
func (c *Cluster) TryKubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.kubectl, args...)
	// A home of its own: kubectl's discovery cache goes by the port, which another cluster may have had.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+filepath.Join(filepath.Dir(c.kubeconfig), "home"))
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("running kubectl %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}
