package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The cluster has the controllers, the scheduler and the kubelets that a workload needs.
func TestWorkloadsRun(t *testing.T) {
	t.Parallel()
	l := startLauncher(t, "--nodes", "3")
	if got := l.kubectl(t, "", "get", "nodes", "-o", "name"); strings.Count(got, "node/") != 3 {
		t.Errorf("nodes are\n%swant 3", got)
	}
	l.kubectl(t, workloads, "apply", "-f", "-")
	l.kubectl(t, "", "rollout", "status", "deployment/web", "--timeout=60s")
	l.kubectl(t, "", "wait", "job/migrate", "--for=condition=Complete", "--timeout=60s")
	for what, want := range map[string]string{
		// The HorizontalPodAutoscaler needs no metrics to scale up to its minimum.
		"get deployment web -o jsonpath={.status.readyReplicas}":      "5",
		"get pvc data -o jsonpath={.status.phase}":                    "Bound",
		"get pod crash -o jsonpath={.status.phase}":                   "Failed",
		"get configmap kube-root-ca.crt -o jsonpath={.metadata.name}": "kube-root-ca.crt",
		"get statefulset db -o jsonpath={.status.readyReplicas}":      "2",
		"get daemonset logs -o jsonpath={.status.numberReady}":        "3",
	} {
		eventually(t, time.Minute, func() error {
			got, err := l.tryKubectl("", strings.Fields(what)...)
			if err == nil && got != want {
				err = fmt.Errorf("kubectl %s prints %q, want %q", what, got, want)
			}
			return err
		})
	}
}

const workloads = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 5
  maxReplicas: 8
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: db}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: logs}
spec:
  selector: {matchLabels: {app: logs}}
  template: {metadata: {labels: {app: logs}}, spec: {containers: [{name: logs, image: logs}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: migrate, image: migrate}]}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: crash
  labels: {pod-container-running-failed.stage.kwok.x-k8s.io: "true"}
spec: {restartPolicy: Never, containers: [{name: crash, image: crash}]}
`

func TestComponentsStopAndStartOnCommand(t *testing.T) {
	t.Parallel()
	l := startLauncher(t)
	l.kubectl(t, "", "create", "configmap", "kept")
	if got := l.tell(t, `{"stop":"kube-apiserver"}`); got.Done == nil || got.Done.Stop != apiServer {
		t.Fatalf("stopping the API server: got %+v, want done", got)
	}
	if _, err := l.tryKubectl("", "get", "configmap", "kept"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("asking a stopped API server: got error %v, want a refused connection", err)
	}
	for command, want := range map[string]string{
		`{"stop":"kube-apiserver"}`: "stopping kube-apiserver: it is not running",
		`{"start":"etcd"}`:          "starting etcd: it is running",
		`{"stop":"kubelet"}`:        `there is no component "kubelet"`,
		`{"restart":"etcd"}`:        `has none of "stop", "kill" and "start"`,
		`stop it`:                   "reading a command: invalid character",
	} {
		if got := l.tell(t, command); !strings.Contains(got.Error, want) {
			t.Errorf("command %s: got %+v, want the error %q", command, got, want)
		}
	}
	if got := l.tell(t, `{"start":"kube-apiserver"}`); got.Done == nil {
		t.Fatalf("starting the API server: got %+v, want done", got)
	}
	l.kubectl(t, "", "get", "configmap", "kept")
	for _, command := range []string{
		`{"kill":"etcd"}`, `{"start":"etcd"}`, `{"kill":"kwok"}`, `{"start":"kwok"}`, `{"kill":"kube-scheduler"}`, `{"start":"kube-scheduler"}`,
	} {
		if got := l.tell(t, command); got.Done == nil {
			t.Fatalf("command %s: got %+v, want done", command, got)
		}
	}
	l.kubectl(t, "", "get", "configmap", "kept")
	l.kubectl(t, "", "create", "deployment", "web", "--image=web")
	l.kubectl(t, "", "rollout", "status", "deployment/web", "--timeout=20s")
}

func TestControllersWorkAtOnceAfterAnOutage(t *testing.T) {
	t.Parallel()
	l := startLauncher(t)
	l.kubectl(t, "", "create", "deployment", "web", "--image=web")
	l.tell(t, `{"kill":"kube-apiserver"}`)
	time.Sleep(30 * time.Second) // the outage itself; by now the controllers try every half a minute only
	if got := l.tell(t, `{"start":"kube-apiserver"}`); got.Done == nil {
		t.Fatalf("starting the API server: got %+v, want done", got)
	}
	l.kubectl(t, "", "scale", "deployment", "web", "--replicas=3")
	l.kubectl(t, "", "rollout", "status", "deployment/web", "--timeout=20s")
}

func TestLauncherEndsWhenAComponentDies(t *testing.T) {
	t.Parallel()
	l := startLauncher(t)
	if err := syscall.Kill(l.ready.Processes[scheduler], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := l.next(t); !strings.HasPrefix(got.Died, "kube-scheduler ended: signal: killed\nThe end of its log:") {
		t.Errorf("got event %+v, want that the scheduler was killed", got)
	}
	if err := l.Wait(); err == nil || l.ProcessState.ExitCode() != 1 {
		t.Errorf("the launcher ended with %v, want exit status 1", err)
	}
	l.expectNothingLeft(t)
}

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(l *launcher) error{
		"after SIGTERM":                       func(l *launcher) error { return l.Process.Signal(syscall.SIGTERM) },
		"after SIGKILL":                       func(l *launcher) error { return l.Process.Kill() },
		"after Ctrl-C":                        func(l *launcher) error { return l.Process.Signal(os.Interrupt) },
		"after the end of its standard input": func(l *launcher) error { return l.stdin.Close() },
	} {
		t.Run(how, func(t *testing.T) {
			l := startLauncher(t)
			if err := end(l); err != nil {
				t.Fatal(err)
			}
			l.expectNothingLeft(t)
		})
	}
}

// go run does not pass SIGTERM on, and is how everybody starts the launcher.
func TestNothingIsLeftBehindAfterGoRun(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	l := newLauncher(t, nil)
	l.Path, l.Args = program, []string{"go", "run", ".", "--stdin"}
	l.start(t)
	if err := l.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	l.expectNothingLeft(t)
}

func TestStartIsGivenUp(t *testing.T) {
	t.Parallel()
	l := newLauncher(t, nil)
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, func() error {
		logs, err := filepath.Glob(filepath.Join(l.temp, "trueup-cluster-*", "logs", "kube-apiserver.log"))
		if err == nil && len(logs) == 0 {
			err = errors.New("the API server has not been started")
		}
		return err
	})
	if err := l.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(); l.ProcessState.ExitCode() != 130 {
		t.Errorf("the launcher ended with %v, want exit status 130", err)
	}
	l.expectNothingLeft(t)
}

func TestClustersDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	first, second := startLauncher(t), startLauncher(t)
	first.kubectl(t, "", "create", "namespace", "first")
	if _, err := second.tryKubectl("", "get", "namespace", "first"); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("looking for one cluster's namespace in the other: got error %v, want NotFound", err)
	}
	first.stdin.Close()
	first.expectNothingLeft(t)
	second.kubectl(t, "", "create", "namespace", "second")
}

func TestSecretsAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	l := startLauncher(t)
	err := filepath.WalkDir(l.ready.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && entry.Type().IsRegular() && info.Mode().Perm()&0o077 != 0 && filepath.Dir(path) == l.ready.Dir {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // etcd removes files under the walk
		t.Fatal(err)
	}
	if info, err := os.Stat(l.ready.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v (%v), want 0700", info.Mode(), err)
	}
}

func TestFailureToStartNamesTheComponentAndShowsItsLog(t *testing.T) {
	t.Parallel()
	bin, err := findBinaries(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range []string{etcd, apiServer, controllerManager, scheduler, kwok} {
		t.Run(broken, func(t *testing.T) {
			assets := t.TempDir()
			for _, program := range []string{etcd, apiServer} {
				if err := os.Symlink(filepath.Join(bin.dir, program), filepath.Join(assets, program)); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(assets, broken)
			os.Remove(path) // the link
			if err := os.WriteFile(path, []byte("#!/bin/sh\necho it cannot be done\nexit 3\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			l := newLauncher(t, []string{assetsVariable + "=" + assets})
			if err := l.Run(); l.ProcessState.ExitCode() != 1 {
				t.Errorf("the launcher ended with %v, want exit status 1", err)
			}
			want := broken + " ended: exit status 3\nThe end of its log:\n  it cannot be done\n"
			if got := l.stderr.String(); !strings.Contains(got, want) {
				t.Errorf("standard error is\n%s\nwant in it\n%s", got, want)
			}
			l.expectNothingLeft(t)
		})
	}
}

func TestExecRunsACommandAgainstACluster(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		command string
		code    int
		stdout  string
	}{
		"with the cluster in its environment": {command: `set -e
			test "$KUBECONFIG" = "$TRUEUP_TEST_KUBECONFIG" && test -s "$TRUEUP_TEST_AUDIT_LOG"
			"$TRUEUP_TEST_KUBECTL" get namespace default -o name`, stdout: "namespace/default\n"},
		"in the directory asked for":              {command: "pwd", stdout: "/\n"},
		"and exits with its exit code":            {command: "exit 7", code: 7},
		"and exits as a shell would for a signal": {command: "kill -KILL $$", code: 137},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLauncher(t, nil, "exec", "-C", "/", "--", "sh", "-c", test.command)
			var stdout strings.Builder
			l.Stdout = &stdout
			l.Run()
			if got := l.ProcessState.ExitCode(); got != test.code || stdout.String() != test.stdout {
				t.Errorf("exit code %d and output %q, want %d and %q\n%s", got, stdout.String(), test.code, test.stdout, l.stderr.String())
			}
			l.expectNothingLeft(t)
		})
	}
}

func TestWrongUsageIsExplained(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"start":          `unknown command "start": try --help`,
		"exec":           `unknown command "exec": try --help`,
		"binaries extra": `unknown command "binaries extra": try --help`,
		"--nodes many":   `invalid value "many" for flag -nodes`,
		"--nodes -1":     "--nodes is -1: there cannot be fewer than no nodes",
	} {
		l := newLauncher(t, nil, strings.Fields(args)...)
		if err := l.Run(); err == nil {
			t.Errorf("%s: got no error", args)
		}
		if got := l.stderr.String(); !strings.Contains(got, want) {
			t.Errorf("%s: standard error is %q, want in it %q", args, got, want)
		}
	}
}
