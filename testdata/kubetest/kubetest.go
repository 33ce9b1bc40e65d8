// Package kubetest gives tests and the demo a real Kubernetes cluster: the control plane of
// testdata/cluster, on loopback, in a process of its own.
//
// A test calls [Shared] for the cluster and [Cluster.Namespace] for a place in it. One that stops
// components calls [Start] for a cluster of its own. Start reading at [Start].
package kubetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The components, as StopComponent and StartComponent name them.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// The environment in which `testdata/cluster exec` runs its command.
const (
	kubeconfigVariable = "TRUEUP_TEST_KUBECONFIG"
	kubectlVariable    = "TRUEUP_TEST_KUBECTL"
	auditLogVariable   = "TRUEUP_TEST_AUDIT_LOG"
)

// Cluster is a running cluster. Its methods are safe for concurrent use.
type Cluster struct {
	kubeconfig string
	kubectl    string
	auditLog   string
	config     *rest.Config
	launcher   *launcher // nil when another process owns the cluster
}

// Options are what a cluster of one's own may be given.
type Options struct {
	// Nodes is the number of nodes; 0 means one. Each has room for any number of pods.
	Nodes int
	// Log takes what the launcher says, which is how far it is when it has to build first. The default is
	// standard error.
	Log io.Writer
}

// Start starts a cluster that lives until Stop, until ctx ends or until this process ends, however it
// does. It blocks for some seconds; the very first time on a machine for the quarter of an hour that
// building Kubernetes takes. The error of a component that does not start shows the end of its log.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Nodes == 0 {
		opts.Nodes = 1
	}
	if opts.Log == nil {
		opts.Log = os.Stderr
	}
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(file), "..", "cluster")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return nil, fmt.Errorf("starting a cluster: %s is not where this program was built from: build it in a checkout, without -trimpath", dir)
	}
	l, ready, err := launch(ctx, dir, opts)
	if err != nil {
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	c, err := newCluster(ready.Kubeconfig, ready.Kubectl, ready.AuditLog)
	if err != nil {
		l.stop()
		return nil, err
	}
	c.launcher = l
	return c, nil
}

func newCluster(kubeconfig, kubectl, auditLog string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	config.QPS = -1 // no limit on the client's side
	return &Cluster{kubeconfig: kubeconfig, kubectl: kubectl, auditLog: auditLog, config: config}, nil
}

// Shared returns the cluster that all tests of a run share: that of `testdata/cluster exec`, or else one
// for this process, started by the first call. It is not for tests that stop components.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var shared = sync.OnceValues(func() (*Cluster, error) {
	if kubeconfig := os.Getenv(kubeconfigVariable); kubeconfig != "" {
		return newCluster(kubeconfig, os.Getenv(kubectlVariable), os.Getenv(auditLogVariable))
	}
	return Start(context.Background(), Options{})
})

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// KubectlPath returns the path of a kubectl of the cluster's version.
func (c *Cluster) KubectlPath() string { return c.kubectl }

// RESTConfig returns a copy of the administrator's client configuration, without a rate limit. A caller
// that will look for its own requests in the audit log sets UserAgent.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Stop ends the cluster, removes its folder and waits until both are done. It does nothing to a cluster
// that another process owns.
func (c *Cluster) Stop() {
	if c.launcher != nil {
		c.launcher.stop()
	}
}

// StopComponent ends a component gracefully and waits for its end.
func (c *Cluster) StopComponent(name string) error { return c.command(command{Stop: name}) }

// KillComponent ends a component with SIGKILL and waits for its end.
func (c *Cluster) KillComponent(name string) error { return c.command(command{Kill: name}) }

// StartComponent starts a stopped component again, with the same data and on the same port, and waits
// until the API server is ready, if etcd and it are both to run.
func (c *Cluster) StartComponent(name string) error { return c.command(command{Start: name}) }

func (c *Cluster) command(cmd command) error {
	if c.launcher == nil {
		return errors.New("stopping or starting components of a shared cluster would break other tests: use kubetest.Start")
	}
	return c.launcher.command(cmd)
}
