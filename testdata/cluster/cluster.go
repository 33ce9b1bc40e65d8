package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// startTimeout bounds a start; on an idle machine it takes about four seconds.
const startTimeout = 2 * time.Minute

// cluster is a running control plane.
type cluster struct {
	*layout
	bin     *binaries
	version string // of the API server
	client  *apiClient
	janitor *janitor
	died    chan error // receives one error when a component ends that nobody stopped

	mu         sync.Mutex // held while components are started or stopped
	components map[string]*component
	closed     bool
}

// startCluster returns a control plane that is ready for Deployments, with its nodes. It is up to the
// caller to close it. The error of a component that does not start shows the end of its log.
func startCluster(ctx context.Context, nodes int, out io.Writer) (*cluster, error) {
	bin, err := findBinaries(ctx, out)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := newCluster(bin)
	if err != nil {
		return nil, err
	}
	if err := c.bringUp(ctx, nodes); err != nil {
		err = cmp.Or(c.ended(), err) // the cause before its effects
		c.close()
		return nil, err
	}
	return c, nil
}

// newCluster prepares everything in a temporary folder that only this user can look into.
func newCluster(bin *binaries) (*cluster, error) {
	dir, err := os.MkdirTemp("", "trueup-cluster-")
	if err != nil {
		return nil, fmt.Errorf("making the cluster's folder: %w", err)
	}
	cleaner, err := startJanitor(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := &cluster{bin: bin, janitor: cleaner, died: make(chan error, 1), components: map[string]*component{}}
	if err := c.prepare(dir); err != nil {
		cleaner.dismiss()
		return nil, err
	}
	return c, nil
}

func (c *cluster) prepare(dir string) error {
	for _, folder := range []string{"home", "logs"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			return fmt.Errorf("making the cluster's folder: %w", err)
		}
	}
	l, ca, err := newLayout(dir, filepath.Join(c.bin.dir, "stages"))
	if err != nil {
		return err
	}
	c.layout = l
	c.client = newAPIClient(l.server, l.identities["admin"].token, ca.cert)
	for name, args := range l.arguments() {
		c.components[name] = &component{
			name: name, program: c.bin.path(name), args: args,
			log: l.logFile(name), home: l.path("home"), janitor: c.janitor,
		}
	}
	return nil
}

// bringUp starts the components, each as soon as what it cannot wait for itself is there.
func (c *cluster) bringUp(ctx context.Context, nodes int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range []string{etcd, apiServer} { // the API server waits for etcd
		if err := c.start(name); err != nil {
			return err
		}
	}
	if err := c.waitFor(ctx, apiServer, c.isReady); err != nil {
		return err
	}
	for _, name := range []string{controllerManager, scheduler, kwok} {
		if err := c.start(name); err != nil {
			return err
		}
	}
	var version struct{ GitVersion string }
	if err := c.client.call(ctx, "GET", "/version", nil, &version); err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	c.version = version.GitVersion
	if err := c.client.call(ctx, "POST", "/apis/storage.k8s.io/v1/storageclasses", storageClass(), nil); err != nil {
		return fmt.Errorf("creating the default StorageClass: %w", err)
	}
	for i := range nodes {
		if err := c.client.call(ctx, "POST", "/api/v1/nodes", node(fmt.Sprintf("node-%d", i)), nil); err != nil {
			return fmt.Errorf("creating a Node: %w", err)
		}
	}
	if err := c.waitFor(ctx, controllerManager, c.hasServiceAccount); err != nil {
		return err
	}
	return c.waitFor(ctx, kwok, func(ctx context.Context) error { return c.nodesReady(ctx, nodes) })
}

// start starts one component and reports on c.died if it ends by itself. It needs c.mu.
func (c *cluster) start(name string) error {
	component := c.components[name]
	if err := component.start(); err != nil {
		return err
	}
	component.stopped = false
	exited := component.exited
	go func() {
		<-exited
		c.mu.Lock() // whoever stops a component holds it until the process is gone
		defer c.mu.Unlock()
		if c.closed || component.stopped || component.exited != exited {
			return
		}
		select {
		case c.died <- component.failure():
		default:
		}
	}()
	return nil
}

// ended returns the error of the first component that has ended though nobody stopped it, or nil.
func (c *cluster) ended() error {
	for _, name := range []string{etcd, apiServer, controllerManager, scheduler, kwok} {
		if component := c.components[name]; component.cmd != nil && !component.stopped && !component.running() {
			return component.failure()
		}
	}
	return nil
}

// waitFor polls check until it returns nil. Its error names the component that ended meanwhile, or the
// one that is waited for.
func (c *cluster) waitFor(ctx context.Context, name string, check func(context.Context) error) error {
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if err := c.ended(); err != nil {
			return err
		}
		if !sleep(ctx, pollInterval) {
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("waiting for %s: %w\n%s", name, err, c.components[name].logTail())
		}
	}
}

func (c *cluster) isReady(ctx context.Context) error {
	return c.client.call(ctx, "GET", "/readyz", nil, nil)
}

// hasServiceAccount says whether the controllers run: no pod can be created before.
func (c *cluster) hasServiceAccount(ctx context.Context) error {
	return c.client.call(ctx, "GET", "/api/v1/namespaces/default/serviceaccounts/default", nil, nil)
}

func (c *cluster) nodesReady(ctx context.Context, want int) error {
	var nodes struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := c.client.call(ctx, "GET", "/api/v1/nodes", nil, &nodes); err != nil {
		return err
	}
	ready := 0
	for _, node := range nodes.Items {
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				ready++
			}
		}
	}
	if ready < want {
		return fmt.Errorf("%d of %d nodes are ready", ready, want)
	}
	return nil
}

// startComponent starts a component that was stopped, on the same port and with the same data. Once etcd
// and the API server both run again, it waits until they serve.
func (c *cluster) startComponent(ctx context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	component, err := c.component(name)
	if err != nil {
		return err
	}
	if component.running() {
		return fmt.Errorf("starting %s: it is running", name)
	}
	if err := c.start(name); err != nil {
		return err
	}
	if name != apiServer && name != etcd || !c.components[apiServer].running() || !c.components[etcd].running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.waitFor(ctx, name, c.isReady); err != nil {
		return err
	}
	return c.restartControllers()
}

// restartControllers starts the API server's clients anew: after an outage they would wait for up to half
// a minute before they try again.
func (c *cluster) restartControllers() error {
	for _, name := range []string{controllerManager, scheduler, kwok} {
		component := c.components[name]
		if !component.running() {
			continue
		}
		if err := component.kill(); err != nil {
			return err
		}
		if err := c.start(name); err != nil {
			return err
		}
	}
	return nil
}

// stopComponent stops a component and waits for its end; with kill, it gets no time for goodbyes.
func (c *cluster) stopComponent(name string, kill bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	component, err := c.component(name)
	if err != nil {
		return err
	}
	component.stopped = true
	if kill {
		return component.kill()
	}
	return component.stop()
}

func (c *cluster) component(name string) (*component, error) {
	if component, ok := c.components[name]; ok {
		return component, nil
	}
	return nil, fmt.Errorf("there is no component %q, but %s, %s, %s, %s and %s", name, etcd, apiServer, controllerManager, scheduler, kwok)
}

// close ends all processes and removes the folder. Nothing is left to be saved, so they are killed.
func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, component := range c.components {
		if component.running() {
			component.signal(syscall.SIGKILL)
		}
	}
	for _, component := range c.components {
		if component.cmd != nil {
			<-component.exited
		}
	}
	c.janitor.dismiss()
}

// environ tells a command where the cluster is.
func (c *cluster) environ() []string {
	return []string{
		"KUBECONFIG=" + c.kubeconfig("admin"),
		"TRUEUP_TEST_KUBECONFIG=" + c.kubeconfig("admin"),
		"TRUEUP_TEST_KUBECTL=" + c.bin.path("kubectl"),
		"TRUEUP_TEST_AUDIT_LOG=" + c.path("audit.log"),
	}
}
