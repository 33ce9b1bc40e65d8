package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The components, by the names of their programs.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kwok              = "kwok"
)

// identity is a user that the API server knows by a static token.
type identity struct {
	name, group, token string
}

// layout is the cluster's folder and what the components must know of each other.
type layout struct {
	dir              string
	server, etcd     string // URLs
	serverPort, peer int
	identities       map[string]identity // by component; "admin" is the user's
}

func (l *layout) path(name string) string { return filepath.Join(l.dir, name) }

func (l *layout) logFile(component string) string { return l.path("logs/" + component + ".log") }

// newLayout reserves the ports and writes every file that the components read.
func newLayout(dir string, stages string) (*layout, *authority, error) {
	l := &layout{dir: dir, identities: map[string]identity{}}
	var err error
	ports := make([]int, 3)
	for i := range ports {
		if ports[i], err = reservePort(); err != nil {
			return nil, nil, err
		}
	}
	l.serverPort, l.peer = ports[0], ports[2]
	l.server = fmt.Sprintf("https://127.0.0.1:%d", l.serverPort)
	l.etcd = fmt.Sprintf("https://127.0.0.1:%d", ports[1])
	ca, err := l.writeCertificates()
	if err != nil {
		return nil, nil, err
	}
	if err := l.writeIdentities(ca); err != nil {
		return nil, nil, err
	}
	for name, content := range map[string]string{
		"audit-policy.yaml": auditPolicy,
		"scheduler.json":    fmt.Sprintf(schedulerConfig, l.kubeconfig(scheduler)),
	} {
		if err := os.WriteFile(l.path(name), []byte(content), 0o600); err != nil {
			return nil, nil, fmt.Errorf("writing the cluster's configuration: %w", err)
		}
	}
	return l, ca, l.writeKwokConfig(stages)
}

func (l *layout) writeCertificates() (*authority, error) {
	ca, err := newAuthority(l.dir, "ca")
	if err != nil {
		return nil, err
	}
	front, err := newAuthority(l.dir, "front-proxy-ca")
	if err != nil {
		return nil, err
	}
	if err := front.issue("front-proxy-client"); err != nil {
		return nil, err
	}
	for _, name := range []string{apiServer, etcd} {
		if err := ca.issue(name); err != nil {
			return nil, err
		}
	}
	_, err = newKey(l.path("service-account.key"))
	return ca, err
}

// writeIdentities makes the users of the components and of the person, as a token file for the API
// server and a kubeconfig for each.
func (l *layout) writeIdentities(ca *authority) error {
	var tokens strings.Builder
	for component, id := range map[string]identity{
		"admin":           {name: "admin", group: "system:masters"},
		controllerManager: {name: "system:kube-controller-manager"},
		scheduler:         {name: "system:kube-scheduler"},
		kwok:              {name: "kwok", group: "system:masters"},
	} {
		id.token = rand.Text()
		l.identities[component] = id
		fmt.Fprintf(&tokens, "%s,%s,%s", id.token, id.name, component)
		if id.group != "" {
			fmt.Fprintf(&tokens, ",%q", id.group)
		}
		fmt.Fprintln(&tokens)
		if err := l.writeKubeconfig(component, id, ca); err != nil {
			return err
		}
	}
	return os.WriteFile(l.path("tokens.csv"), []byte(tokens.String()), 0o600)
}

// kubeconfig returns the path of a component's kubeconfig, or of the admin's.
func (l *layout) kubeconfig(component string) string {
	if component == "admin" {
		return l.path("kubeconfig")
	}
	return l.path(component + ".kubeconfig")
}

func (l *layout) writeKubeconfig(component string, id identity, ca *authority) error {
	config := object{
		"apiVersion": "v1", "kind": "Config", "current-context": "trueup-cluster",
		"clusters": []object{{"name": "trueup-cluster", "cluster": object{"server": l.server, "certificate-authority-data": ca.pem()}}},
		"users":    []object{{"name": id.name, "user": object{"token": id.token}}},
		"contexts": []object{{"name": "trueup-cluster", "context": object{"cluster": "trueup-cluster", "user": id.name}}},
	}
	data, err := json.MarshalIndent(config, "", "  ") // JSON is YAML
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig of %s: %w", id.name, err)
	}
	return os.WriteFile(l.kubeconfig(component), data, 0o600)
}

// auditPolicy records who sent which request, and nothing of what was in it.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
`

const schedulerConfig = `{
  "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
  "leaderElection": {"leaderElect": false},
  "clientConnection": {"kubeconfig": %q, "qps": 1000, "burst": 2000}
}
`

// kwokConfig gives kwok more hands than its defaults, and pods enough addresses. Nodes have no leases: a
// kwok that is started again would leave them alone until the leases of the one before have run out.
const kwokConfig = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  manageAllNodes: true
  cidr: 10.128.0.0/9
  nodeIP: 10.127.0.1
  nodeLeaseDurationSeconds: 0
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 4
  podsOnNodeSyncParallelism: 4
`

// writeKwokConfig joins the options and the stages into the file that kwok reads.
func (l *layout) writeKwokConfig(stages string) error {
	files, err := filepath.Glob(filepath.Join(stages, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("reading kwok's stages: there are none in %s: remove its parent folder to have it made again", stages)
	}
	config := []byte(kwokConfig)
	for _, file := range files {
		stage, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading kwok's stages: %w", err)
		}
		config = append(append(config, "---\n"...), stage...)
	}
	return os.WriteFile(l.path("kwok.yaml"), config, 0o600)
}

// arguments returns the command line of each component.
func (l *layout) arguments() map[string][]string {
	return map[string][]string{
		etcd:      l.etcdArguments(),
		apiServer: l.apiServerArguments(),
		controllerManager: {
			"--kubeconfig=" + l.kubeconfig(controllerManager), "--use-service-account-credentials",
			"--service-account-private-key-file=" + l.path("service-account.key"), "--root-ca-file=" + l.path("ca.crt"),
			"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000",
			"--horizontal-pod-autoscaler-sync-period=3s", "--concurrent-namespace-syncs=50",
			"--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20",
			"--node-monitor-grace-period=5m",                        // a heartbeat comes every half a minute, and later on a busy machine
			"--flex-volume-plugin-dir=" + l.path("home/flexvolume"), // the default is a system folder, which it would create
		},
		scheduler: {"--config=" + l.path("scheduler.json"), "--secure-port=0"},
		kwok:      {"--kubeconfig=" + l.kubeconfig(kwok), "--config=" + l.path("kwok.yaml")},
	}
}

func (l *layout) etcdArguments() []string {
	peer := fmt.Sprintf("http://127.0.0.1:%d", l.peer)
	return []string{
		"--name=cluster", "--data-dir=" + l.path("etcd"),
		"--listen-client-urls=" + l.etcd, "--advertise-client-urls=" + l.etcd,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=cluster=" + peer,
		"--socket-reuse-port=true", "--log-level=warn",
		// Other users of the machine can reach the port, and there are Secrets behind it.
		"--client-cert-auth", "--trusted-ca-file=" + l.path("ca.crt"),
		"--cert-file=" + l.path("etcd.crt"), "--key-file=" + l.path("etcd.key"),
		// The data does not outlive the processes, so no power cut can lose it.
		"--unsafe-no-fsync",
	}
}

func (l *layout) apiServerArguments() []string {
	return []string{
		"--etcd-servers=" + l.etcd, "--etcd-cafile=" + l.path("ca.crt"),
		"--etcd-certfile=" + l.path("etcd.crt"), "--etcd-keyfile=" + l.path("etcd.key"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", l.serverPort), "--permit-port-sharing",
		"--tls-cert-file=" + l.path("kube-apiserver.crt"), "--tls-private-key-file=" + l.path("kube-apiserver.key"),
		"--cert-dir=" + l.path("home"),
		"--token-auth-file=" + l.path("tokens.csv"), "--client-ca-file=" + l.path("ca.crt"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.path("service-account.key"),
		"--service-account-signing-key-file=" + l.path("service-account.key"),
		"--service-cluster-ip-range=10.0.0.0/16", "--endpoint-reconciler-type=none", "--allow-privileged",
		// The aggregation layer. Without --enable-aggregator-routing a Service of type ExternalName leads
		// to an API server on loopback, where an EndpointSlice may not.
		"--requestheader-client-ca-file=" + l.path("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + l.path("front-proxy-client.crt"), "--proxy-client-key-file=" + l.path("front-proxy-client.key"),
		// Blocking, so that a request is in the log before its answer is out.
		"--audit-policy-file=" + l.path("audit-policy.yaml"), "--audit-log-path=" + l.path("audit.log"),
		"--audit-log-mode=blocking", "--audit-log-maxsize=0",
	}
}
