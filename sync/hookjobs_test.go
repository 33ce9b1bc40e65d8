package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// hookJob is a Job whose pod no node takes: the test says how it ends.
func hookJob(name, annotations string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s, annotations: {%s}}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {nowhere: "true"}
      containers: [{name: main, image: main}]
`, name, annotations)
}

// hookSettings is a hook of a kind that is done once it is there.
func hookSettings(name, annotations string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", annotations: {" + annotations + "}}\n"
}

// ends lets the pod of a Job end as a kubelet would.
func (w *world) ends(job, phase string) {
	w.t.Helper()
	kubetest.Eventually(w.t, patience, func() error {
		pod, err := w.TryKubectl(context.Background(), "", "get", "pods", "-n", w.ns, "-l", "job-name="+job,
			"-o", `jsonpath={.items[?(@.status.phase=="Pending")].metadata.name}`)
		if err != nil || pod == "" {
			return fmt.Errorf("the Job %s has no pod that waits: %v", job, err)
		}
		_, err = w.TryKubectl(context.Background(), "", "patch", "pod", pod, "-n", w.ns, "--subresource=status", "--type=merge", "-p", `{"status":{"phase":"`+phase+`"}}`)
		return err
	})
}

func (w *world) names(kind string) string {
	w.t.Helper()
	return w.kubectl("get", kind, "-o", "jsonpath={.items[*].metadata.name}", "--sort-by=.metadata.name")
}

func (w *world) uid(object string) string {
	w.t.Helper()
	return w.kubectl("get", object, "-o", "jsonpath={.metadata.uid}", "--ignore-not-found")
}

// jobsMade counts the Jobs that the agent has made since a mark, by name.
func (w *world) jobsMade(since kubetest.AuditMark) map[string]int {
	w.t.Helper()
	made := map[string]int{}
	for _, e := range w.writes(since) {
		if e.Resource == "jobs" && e.Verb == "create" && e.Code == 201 && !strings.Contains(e.URI, "dryRun") {
			made[e.Name]++
		}
	}
	return made
}

// waitsFor wants the sync to wait for a hook.
func waitsForHook(text string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		op := app.Status.OperationState
		if op == nil || op.Phase != v1alpha1.PhaseRunning || !strings.Contains(op.Message, text) || condition(app, v1alpha1.ConditionApplied).Reason != "WaitingForHooks" {
			return errors.New("the sync should wait for " + text)
		}
		return nil
	}
}

// hooksRan wants the run of hooks to have ended, with these hooks, as "PreSync migrate Succeeded".
func hooksRan(phase v1alpha1.Phase, hooks ...string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		var got []string
		if app.Status.Hooks != nil {
			for _, h := range app.Status.Hooks.Hooks {
				got = append(got, fmt.Sprintf("%s %s %s", h.Phase, h.Name, h.State))
			}
		}
		if app.Status.Hooks == nil || app.Status.Hooks.Phase != phase || !slices.Equal(got, hooks) {
			return fmt.Errorf("want the hooks %s: %v, got %v", phase, hooks, got)
		}
		return nil
	}
}
