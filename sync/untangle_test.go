package sync

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// with puts lines into a Deployment's spec, and others into its pod's.
func with(spec, pod string) string {
	manifest := strings.Replace(deployment, "  replicas: 2\n", "  replicas: 0\n"+spec, 1)
	return strings.Replace(manifest, "    spec:\n", "    spec:\n"+pod, 1)
}

// What Git says of itself is valid; what is live keeps it from being taken.
func TestGitChangesToWhatADefaultDoesNotGoTogetherWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	probe := func(handler string) string {
		return with("", "      initContainers:\n        - {name: sidecar, image: x, restartPolicy: Always, livenessProbe: {"+handler+"}}\n")
	}
	const budget = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, %s: 1}}"
	changes := map[string]struct{ before, after, get, want string }{
		"strategy": {
			deployment, with("  strategy: {type: Recreate}\n", ""),
			"{.spec.strategy}", `{"type":"Recreate"}`,
		},
		"volume": {
			with("", "      volumes: [{name: v}]\n"), with("", "      volumes: [{name: v, secret: {secretName: s}}]\n"),
			"{.spec.template.spec.volumes[0].secret.secretName} {.spec.template.spec.volumes[0].emptyDir}", "s",
		},
		"probe": {
			probe("httpGet: {port: 80}"), probe("tcpSocket: {port: 80}"),
			"{.spec.template.spec.initContainers[0].livenessProbe.tcpSocket} {.spec.template.spec.initContainers[0].livenessProbe.httpGet}", `{"port":80}`,
		},
	}
	for name, c := range changes {
		w.git.Commit(map[string]string{name + "/web.yaml": strings.Replace(c.before, "name: web\n", "name: "+name+"\n", 1)}, name)
		w.app(name)
	}
	commit := w.git.Commit(map[string]string{"budget/web.yaml": fmt.Sprintf(budget, "minAvailable")}, "budget")
	w.app("budget")
	w.until("budget", synced(commit))
	for name := range changes {
		w.until(name, func(app *v1alpha1.Application) error { return synced(app.Status.Sync.Revision)(app) })
	}
	for name, c := range changes {
		w.git.Commit(map[string]string{name + "/web.yaml": strings.Replace(c.after, "name: web\n", "name: "+name+"\n", 1)}, name)
	}
	commit = w.git.Commit(map[string]string{"budget/web.yaml": fmt.Sprintf(budget, "maxUnavailable")}, "budget")
	for name, c := range changes {
		w.eventually(c.want, func() string { return w.kubectl("get", "deployment", name, "-o", "jsonpath="+c.get) })
		w.until(name, synced(commit))
	}
	w.until("budget", synced(commit))
	mark := w.AuditMark(t)
	for name := range changes {
		w.looksAgain(name)
	}
	if got := w.writes(mark); len(got) != 0 {
		t.Errorf("all is in sync, yet the agent wrote %v", got)
	}
}

func TestWhatAControllerSetBesideGitIsTakenAwayWhereBothCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const budget = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, maxUnavailable: 1}}"
	commit := w.git.Commit(map[string]string{
		"shop/web.yaml":    with("  strategy: {type: Recreate}\n", "      volumes: [{name: v, configMap: {name: c}}]\n"),
		"shop/budget.yaml": budget,
	}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	kinds := func() string {
		return w.kubectl("get", "deployment,pdb", "web", "-o", "jsonpath={range .items[*]}{.spec.strategy.*}{.spec.template.spec.volumes[0].configMap.name}{.spec.template.spec.volumes[0].secret}{.spec.minReadySeconds}{.spec.minAvailable}{.spec.maxUnavailable}{end}")
	}
	const want = "Recreatec71"
	w.kubectl("patch", "deployment", "web", "--field-manager=some-operator", "-p", `{"spec":{"minReadySeconds":7}}`) // goes together with all
	w.eventually(want, kinds)
	w.kubectl("patch", "deployment", "web", "--type=json", "--field-manager=some-operator", "-p", `[
		{"op":"replace","path":"/spec/strategy","value":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":3}}},
		{"op":"replace","path":"/spec/template/spec/volumes/0","value":{"name":"v","secret":{"secretName":"s"}}}]`)
	w.eventually(want, kinds)
	w.kubectl("patch", "pdb", "web", "--type=json", "--field-manager=some-operator", "-p", `[
		{"op":"remove","path":"/spec/maxUnavailable"},{"op":"add","path":"/spec/minAvailable","value":2}]`)
	w.eventually(want, kinds)
	w.until("shop", synced(commit))
	mark := w.AuditMark(t)
	w.looksAgain("shop")
	if got := w.writes(mark); len(got) != 0 {
		t.Errorf("all is healed, yet the agent wrote %v", got)
	}
}

func TestWhatDoesNotGoTogetherWithGitAndIsLeftToItsOwnerIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	w.Kubectl(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {strategy: {rollingUpdate: {maxSurge: 3}}}}",
		"apply", "-n", w.ns, "--server-side", "--field-manager=flux", "-f", "-")
	mark := w.AuditMark(t)
	w.git.Commit(map[string]string{"shop/web.yaml": with("  strategy: {type: Recreate}\n", "")}, "second")
	w.until("shop", says(v1alpha1.ConditionApplied, "shop/web.yaml:1", "may not be specified when strategy `type` is 'Recreate'", ".spec.strategy.rollingUpdate", "flux applies this field too"))
	if n := w.realWrites(mark); n > 0 {
		t.Errorf("nothing is to be changed, yet the agent wrote %d times", n)
	}
	if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.strategy.rollingUpdate.maxSurge}"); got != "3" {
		t.Errorf("the field is another applier's, got %s", got)
	}
	// Once it is given up there, Git's is applied.
	w.Kubectl(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}", "apply", "-n", w.ns, "--server-side", "--field-manager=flux", "-f", "-")
	w.ask("again")
	w.eventually(`{"type":"Recreate"}`, func() string { return w.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.strategy}") })
}

// What is wrong in Git takes nothing from anybody.
func TestRefusalOfGitsOwnValueTakesNothingAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/web.yaml": deployment}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	w.kubectl("patch", "deployment", "web", "--field-manager=some-operator", "-p", `{"spec":{"minReadySeconds":7,"strategy":{"rollingUpdate":{"maxSurge":3}}}}`)
	mark := w.AuditMark(t)
	w.git.Commit(map[string]string{"shop/web.yaml": with("  strategy: {type: Wrong}\n  progressDeadlineSeconds: -1\n", "")}, "second")
	w.until("shop", says(v1alpha1.ConditionApplied, "shop/web.yaml:1", "spec.strategy: Unsupported value"))
	if n := w.realWrites(mark); n > 0 {
		t.Errorf("nothing is to be changed, yet the agent wrote %d times", n)
	}
	if got := w.kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.managedFields[?(@.manager=='some-operator')].fieldsV1}"); !strings.Contains(got, "maxSurge") || !strings.Contains(got, "minReadySeconds") {
		t.Errorf("the fields are the operator's, got %s", got)
	}
}
