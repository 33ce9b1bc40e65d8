package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/health/why"
	"github.com/trueup/trueup/testdata/kubetest"
)

var update = flag.Bool("update", false, "write the golden files")

// whyCase is one way to be stuck.
type whyCase struct {
	manifests string
	// break is done once the Application has been applied: what a kubelet would report.
	breakIt func(s *stuck)
	stuckAt string // the kind of the loop that does not get on
	cause   string // part of the sentence
	health  string // the Application's
	told    bool   // in the health message of the Application

}

// web is a Deployment of one pod that kwok leaves alone once it has a node: the test says what becomes of it.
func web(spec, template string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1` + spec + `
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {pod-ready.stage.kwok.x-k8s.io/delay: 1h, pod-ready.stage.kwok.x-k8s.io/jitter-delay: 1h}
    spec:
      containers:
      - name: web
        image: registry.example.com/web:v2` + template + "\n"
}

const job = `apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec:
  backoffLimit: 0
  template:
    metadata:
      annotations: {pod-ready.stage.kwok.x-k8s.io/delay: 1h, pod-ready.stage.kwok.x-k8s.io/jitter-delay: 1h}
    spec:
      restartPolicy: Never
      containers:
      - name: migrate
        image: registry.example.com/migrate:v2
`

var whyCases = map[string]whyCase{
	"image-pull": {
		manifests: web("", ""),
		breakIt: func(s *stuck) {
			pod := s.pod("app=web")
			s.event(pod, "Failed", `Failed to pull image "registry.example.com/web:v2": not found`)
			s.setContainer(pod, container{phase: "Pending", state: `{"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"registry.example.com/web:v2\""}}`})
		},
		stuckAt: "Pod", cause: "registry.example.com/web:v2", health: "Progressing",
	},
	"crash-loop": {
		manifests: web("", ""),
		breakIt: func(s *stuck) {
			pod := s.pod("app=web")
			s.event(pod, "BackOff", "Back-off restarting failed container web")
			s.setContainer(pod, container{
				phase: "Running", restarts: 5, state: `{"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s restarting failed container"}}`,
				last: `{"terminated": {"exitCode": 1, "reason": "Error", "message": "panic: no database"}}`,
			})
		},
		stuckAt: "Pod", cause: "exit code 1", health: "Progressing",
	},
	"unschedulable": {
		manifests: web("", "\n      nodeSelector: {disk: fast}"),
		stuckAt:   "Pod", cause: "cannot be scheduled", health: "Progressing",
	},
	"quota-exceeded": {
		manifests: "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: small}\nspec: {hard: {pods: \"0\"}}\n---\n" + web("", ""),
		stuckAt:   "ResourceQuota", cause: "ResourceQuota", health: "Degraded", told: true,
	},
	"claim-unbound": {
		manifests: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec:\n  accessModes: [ReadWriteOnce]\n  storageClassName: absent\n  resources: {requests: {storage: 1Gi}}\n---\n" +
			web("", "\n        volumeMounts: [{name: data, mountPath: /data}]\n      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"),
		stuckAt: "PersistentVolumeClaim", cause: `"absent" not found`, health: "Progressing",
	},
	"failing-probe": {
		manifests: web("", "\n        readinessProbe: {httpGet: {path: /ready, port: 8080}}"),
		breakIt: func(s *stuck) {
			pod := s.pod("app=web")
			s.event(pod, "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
			s.setContainer(pod, container{phase: "Running", state: isRunning})
		},
		stuckAt: "Pod", cause: "readiness probe", health: "Progressing",
	},
	"failed-job": {
		manifests: job,
		breakIt: func(s *stuck) {
			s.setContainer(s.pod("job-name=migrate"), container{
				phase: "Failed", state: `{"terminated": {"exitCode": 3, "reason": "Error", "message": "table orders exists", "finishedAt": "2026-01-01T00:00:00Z"}}`,
			})
		},
		stuckAt: "Pod", cause: "exit code 3", health: "Degraded", told: true,
	},
	"stuck-finalizer": {
		manifests: "apiVersion: v1\nkind: Namespace\nmetadata: {name: NAMESPACE-held}\n",
		breakIt: func(s *stuck) {
			held := s.namespace + "-held"
			s.kubectl(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keep", "namespace": "`+held+`", "finalizers": ["example.com/hold"]}}`, "apply", "-f", "-")
			s.t.Cleanup(func() {
				_, _ = s.kube.TryKubectl(context.Background(), "", "patch", "configmap", "keep", "-n", held, "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
			})
			s.kubectl("", "delete", "namespace", held, "--wait=false")
		},
		stuckAt: "ConfigMap", cause: "example.com/hold", health: "Progressing", told: true,
	},
	"rollout-past-its-deadline": {
		manifests: web("\n  progressDeadlineSeconds: 15", "\n      readinessGates: [{conditionType: example.com/warm}]"),
		breakIt: func(s *stuck) {
			s.setContainer(s.pod("app=web"), container{phase: "Running", state: isRunning, ready: true})
		},
		stuckAt: "Pod", cause: "example.com/warm", health: "Degraded", told: true,
	},
}

func TestWhyOnAControlPlane(t *testing.T) {
	e := newEnv(t)
	agent := e.start(t, "agent", "--application-namespace", e.namespace, "--leader-elect=false", "--metrics-address", "", "--cache-dir", t.TempDir())
	repo := newRepository(t)
	namespaces, files := make(map[string]string), make(map[string]string)
	for name, c := range whyCases {
		namespaces[name] = e.kube.Namespace(t)
		files[name+"/all.yaml"] = strings.ReplaceAll(c.manifests, "NAMESPACE", namespaces[name])
	}
	revision := repo.commit(t, files)
	for name, c := range whyCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stuck{env: e, t: t, name: name, namespace: namespaces[name]}
			s.deploy(repo)
			if c.breakIt != nil {
				c.breakIt(s)
			}
			s.check(c, revision)
			if t.Failed() {
				t.Logf("the agent wrote:\n%s", agent.err.String())
			}
		})
	}
}

// check holds what trueup why says against the golden file, and what the agent says against it.
func (s *stuck) check(c whyCase, revision string) {
	s.t.Helper()
	golden := filepath.Join("testdata", "why", s.name+".golden")
	normal := s.normalizer(revision)
	if *update {
		s.write(golden, c, normal)
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		s.t.Fatalf("reading what trueup why should say: %v; write it with -update", err)
	}
	kubetest.Eventually(s.t, 90*time.Second, func() error {
		if d := cmp.Diff(string(want), normal(s.why())); d != "" {
			return fmt.Errorf("trueup why: -want +got:\n%s", d)
		}
		return nil
	})
	out, _ := s.run(s.t, 1, "why", s.name, "-n", s.env.namespace, "-o", "json")
	var report why.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		s.t.Fatal(err)
	}
	if last := report.Chain[len(report.Chain)-1]; !last.Stuck || last.Kind != c.stuckAt || !strings.Contains(report.Cause, c.cause) {
		s.t.Errorf("want it stuck at a %s, for %q; got %+v: %s", c.stuckAt, c.cause, last, report.Cause)
	}
	kubetest.Eventually(s.t, 60*time.Second, func() error {
		app, err := s.Applications(s.env.namespace).Get(s.t.Context(), s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if h := app.Status.Health; h.Status != c.health || strings.Contains(h.Message, c.cause) != c.told {
			return fmt.Errorf("want the Application %s, its message with %q: %v; got %s: %s", c.health, c.cause, c.told, h.Status, h.Message)
		}
		return nil
	})
}

func TestWhyAsksAboutOneObject(t *testing.T) {
	e := newEnv(t)
	e.start(t, "agent", "--application-namespace", e.namespace, "--leader-elect=false", "--metrics-address", "", "--cache-dir", t.TempDir())
	repo := newRepository(t)
	repo.commit(t, map[string]string{"shop/all.yaml": configMap("settings", "one") + "---\n" + web("", "\n      nodeSelector: {disk: fast}")})
	s := &stuck{env: e, t: t, name: "shop", namespace: e.namespace}
	s.deploy(repo)

	out, _ := e.run(t, 1, "why", "shop", "deploy/web", "-n", e.namespace)
	contains(t, out, "  Deployment "+e.namespace+"/web")
	out, _ = e.run(t, 1, "why", "shop", e.namespace+"/Deployment/web", "-n", e.namespace, "-o", "json")
	contains(t, out, `"stuck": true`)
	out, _ = e.run(t, 0, "why", "shop", "cm/settings", "-n", e.namespace)
	contains(t, out, "ConfigMap "+e.namespace+"/settings is healthy")
	_, errOut := e.run(t, 2, "why", "shop", "deploy/wed", "-n", e.namespace)
	contains(t, errOut, "the Application has no deploy/wed; did you mean deploy/web?")
	_, errOut = e.run(t, 2, "why", "shop", "web", "-n", e.namespace)
	contains(t, errOut, `say KIND/NAME or NAMESPACE/KIND/NAME, not "web"`)
	_, errOut = e.run(t, 2, "why", "shopp", "-n", e.namespace)
	contains(t, errOut, "did you mean shop")
}

// TestWhyNamesWhatItMayNotRead has a user that may read Applications and Deployments, and nothing else.
func TestWhyNamesWhatItMayNotRead(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	e.setStatus(t, "shop", unsettled)
	e.kube.Kubectl(t, "", "create", "serviceaccount", "reader", "-n", e.namespace)
	e.kube.Kubectl(t, "", "create", "role", "reader", "-n", e.namespace, "--verb=get,list", "--resource=applications.trueup.dev,deployments.apps")
	e.kube.Kubectl(t, "", "create", "rolebinding", "reader", "-n", e.namespace, "--role=reader", "--serviceaccount="+e.namespace+":reader")
	out, errOut := e.run(t, 1, "why", "shop", "-n", e.namespace, "--kubeconfig", e.kubeconfigOf(t, "reader"))
	contains(t, errOut, "warning: your user may not list pods in namespace "+e.namespace+": the answer does without them")
	contains(t, out, "deploy/prod/web.yaml:12: did not find expected key", "<- stuck here")
}

func (s *stuck) why() string {
	c := s.start(s.t, "why", s.name, "-n", s.env.namespace)
	if code := c.wait(s.t); code > 1 {
		s.t.Fatalf("trueup why: exit code %d: %s", code, c.err.String())
	}
	return c.out.String()
}

// write writes the golden file once what trueup why says has the cause in it and does not change any more.
func (s *stuck) write(golden string, c whyCase, normal func(string) string) {
	s.t.Helper()
	last, since := "", time.Now()
	kubetest.Eventually(s.t, 2*time.Minute, func() error {
		got := normal(s.why())
		if got != last {
			last, since = got, time.Now()
		}
		first, _, _ := strings.Cut(got, "\n")
		if !strings.Contains(first, c.cause) || time.Since(since) < 10*time.Second {
			return fmt.Errorf("trueup why still says:\n%s", got)
		}
		return nil
	})
	if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(golden, []byte(last), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// normalizer takes out what differs from run to run.
func (s *stuck) normalizer(revision string) func(string) string {
	replace := strings.NewReplacer(s.namespace, "NAMESPACE", s.env.namespace, "APPS", revision[:7], "REVISION")
	rules := []struct {
		what *regexp.Regexp
		by   string
	}{
		{regexp.MustCompile(`\bweb-[a-z0-9]{6,10}-[a-z0-9]{5}\b`), "web-HASH-POD"},
		{regexp.MustCompile(`\bweb-[a-z0-9]{6,10}\b`), "web-HASH"},
		{regexp.MustCompile(`\bmigrate-[a-z0-9]{5}\b`), "migrate-POD"},
		{regexp.MustCompile(`\(\d+ times\)`), "(N times)"},
		{regexp.MustCompile(`\b\d+(s|m|h|d)(\d+(s|m|h))?\b`), "AGE"},
		// The scheduler may see a pod before the claim that was made before it.
		{regexp.MustCompile(`(?m)^.*persistentvolumeclaim "data" not found.*\n`), ""},
		{regexp.MustCompile(`(\S) {2,}`), "$1  "},
		{regexp.MustCompile(`(?m)^ {12,}`), strings.Repeat(" ", 12)},
	}
	return func(text string) string {
		text = replace.Replace(text)
		for _, r := range rules {
			text = r.what.ReplaceAllString(text, r.by)
		}
		// What happens within one second comes in any order.
		before, rest, some := strings.Cut(text, "\nEVENTS")
		if !some {
			return text
		}
		events, after, _ := strings.Cut(rest, "\n\n")
		lines := strings.Split(events, "\n")
		slices.Sort(lines[1:])
		return before + "\nEVENTS" + strings.Join(lines, "\n") + "\n\n" + after
	}
}
