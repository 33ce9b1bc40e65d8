package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// request waits for the sync request of an Application that is not the one called before.
func (e *env) request(t *testing.T, name, before string) v1alpha1.SyncRequest {
	t.Helper()
	var request v1alpha1.SyncRequest
	kubetest.Eventually(t, 20*time.Second, func() error {
		app, err := e.Applications(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(app.Annotations[v1alpha1.AnnotationSync]), &request); err != nil {
			return err
		}
		if request.ID == before {
			return fmt.Errorf("the request is still %s", before)
		}
		return nil
	})
	return request
}

func running(id, message string) func(*v1alpha1.Application) {
	return func(app *v1alpha1.Application) {
		app.Status.OperationState = &v1alpha1.OperationState{
			Phase: v1alpha1.PhaseRunning, ID: id, Message: message, Revision: "3f2a1b7c9d", StartedAt: metav1.Now(),
		}
	}
}

func finished(phase v1alpha1.Phase, message string) func(*v1alpha1.Application) {
	return func(app *v1alpha1.Application) {
		now := metav1.Now()
		op := app.Status.OperationState
		op.Phase, op.Message, op.FinishedAt = phase, message, &now
	}
}

func TestSyncAsksTheAgent(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	out, _ := e.run(t, 0, "sync", "shop", "-n", e.namespace)
	contains(t, out, "Asked the agent to sync "+e.namespace+"/shop.")
	first := e.request(t, "shop", "")
	if first.By == "" || first.Prune {
		t.Errorf("the request is %+v", first)
	}
	e.run(t, 0, "sync", "shop", "-n", e.namespace, "--prune")
	if second := e.request(t, "shop", first.ID); !second.Prune {
		t.Errorf("the request with --prune is %+v", second)
	}
}

func TestSyncWaitsUntilTheSyncHasFinished(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	e.setStatus(t, "shop", running("an earlier one", ""))
	e.setStatus(t, "shop", finished(v1alpha1.PhaseFailed, "an earlier failure"))
	syncing := e.start(t, "sync", "shop", "-n", e.namespace, "--wait")
	id := e.request(t, "shop", "").ID
	e.setStatus(t, "shop", running(id, "applying 1 of 3 objects"))
	eventuallyWrites(t, &syncing.err, "Running 3f2a1b7: applying 1 of 3 objects")
	e.setStatus(t, "shop", finished(v1alpha1.PhaseSucceeded, "applied 3 objects"))
	if code := syncing.wait(t); code != 0 {
		t.Errorf("the exit code is %d", code)
	}
	contains(t, syncing.err.String(), "waiting for the agent\n", "Succeeded 3f2a1b7: applied 3 objects\n")
	contains(t, syncing.out.String(), e.namespace+"/shop is synced to 3f2a1b7.\n")
	absent(t, syncing.err.String(), "earlier")
}

func TestSyncIsToldHowItEndedThoughTheAgentHasGoneOn(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	for phase, code := range map[v1alpha1.Phase]int{v1alpha1.PhaseSucceeded: 0, v1alpha1.PhaseFailed: 1} {
		before := ""
		if app, err := e.Applications(e.namespace).Get(t.Context(), "shop", metav1.GetOptions{}); err == nil && app.Status.LastRequest != nil {
			before = app.Status.LastRequest.ID
		}
		syncing := e.start(t, "sync", "shop", "-n", e.namespace, "--wait")
		id := e.request(t, "shop", before).ID
		e.setStatus(t, "shop", func(app *v1alpha1.Application) {
			settled(app)
			running("", "healing 40 objects")(app)
			app.Status.LastRequest = &v1alpha1.RequestStatus{ID: id, Phase: phase, Message: "as it went", FinishedAt: metav1.Now()}
		})
		if got := syncing.wait(t); got != code {
			t.Errorf("%s: the exit code is %d", phase, got)
		}
		contains(t, syncing.err.String(), "as it went")
		absent(t, syncing.err.String(), "healing")
	}
}

func TestSyncTellsWhatHasFailed(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	syncing := e.start(t, "sync", "shop", "-n", e.namespace, "--wait")
	id := e.request(t, "shop", "").ID
	e.setStatus(t, "shop", running(id, ""))
	e.setStatus(t, "shop", func(app *v1alpha1.Application) {
		finished(v1alpha1.PhaseFailed, "1 of 3 objects was refused")(app)
		app.Status.Resources = []v1alpha1.ResourceStatus{
			{ObjectReference: v1alpha1.ObjectReference{Kind: "Service", Namespace: "shop", Name: "web"}, Sync: v1alpha1.OutOfSync, Reason: "Rejected", Message: "spec.ports: Required value"},
			{ObjectReference: v1alpha1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "slow"}, Sync: v1alpha1.Synced, Health: "Progressing"},
		}
	})
	if code := syncing.wait(t); code != 1 {
		t.Errorf("the exit code is %d", code)
	}
	contains(t, syncing.out.String(), "Service shop/web  Rejected  spec.ports: Required value\n")
	contains(t, syncing.err.String(), "trueup: syncing "+e.namespace+"/shop: 1 of 3 objects was refused\n")
	absent(t, syncing.out.String(), "slow")
}

func TestSyncIsNotWaitedForWithoutEnd(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	_, errOut := e.run(t, 1, "sync", "shop", "-n", e.namespace, "--wait", "--timeout", "500ms")
	contains(t, errOut, "the time is over while waiting for the agent", "Does the agent run")

	syncing := e.start(t, "sync", "shop", "-n", e.namespace, "--wait")
	first := e.request(t, "shop", e.request(t, "shop", "").ID)
	eventuallyWrites(t, &syncing.err, "waiting for the agent")
	e.run(t, 0, "sync", "shop", "-n", e.namespace)
	if code := syncing.wait(t); code != 1 {
		t.Errorf("the exit code is %d", code)
	}
	contains(t, syncing.err.String(), "a later request by "+first.By+" has replaced this one")
}

func TestRefreshAsksTheAgentToLookAtGit(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	out, _ := e.run(t, 0, "refresh", "shop", "-n", e.namespace)
	contains(t, out, "The agent will look at Git for "+e.namespace+"/shop now.")
	app, err := e.Applications(e.namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(time.RFC3339Nano, app.Annotations[v1alpha1.AnnotationRefresh]); err != nil {
		t.Error(err)
	}
}

func TestWaitEndsWhenTheApplicationIsSyncedAndHealthy(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	e.setStatus(t, "shop", unsettled)
	waiting := e.start(t, "wait", "shop", "-n", e.namespace)
	eventuallyWrites(t, &waiting.err, e.namespace+"/shop: OutOfSync, Progressing; 1 of 3 objects applied, 0 healthy; waiting for Deployment "+e.namespace+"/web: OutOfSync: Drifted: 1 of 3 replicas ready (and 1 more)\n")
	e.setStatus(t, "shop", settled)
	if code := waiting.wait(t); code != 0 {
		t.Errorf("the exit code is %d", code)
	}
	contains(t, waiting.err.String(), e.namespace+"/shop: Synced, Healthy\n")
	contains(t, waiting.out.String(), e.namespace+"/shop is Synced and Healthy.\n")
}

func TestWaitTellsWhatStandsInTheWay(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	e.setStatus(t, "shop", unsettled)
	_, errOut := e.run(t, 1, "wait", "shop", "-n", e.namespace, "--timeout", "500ms")
	contains(t, errOut,
		"waiting for "+e.namespace+"/shop to be Synced and Healthy: the time is over after 500ms\n",
		"  Deployment "+e.namespace+"/web: OutOfSync, Progressing: Drifted: 1 of 3 replicas ready\n",
		"  Service "+e.namespace+"/web: OutOfSync, Missing\n")
	absent(t, errOut, "Does the agent run")
}

func TestWaitTakesOneGoalAlone(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	e.setStatus(t, "shop", func(app *v1alpha1.Application) {
		settled(app)
		app.Status.Health.Status = "Degraded"
	})
	out, _ := e.run(t, 0, "wait", "shop", "-n", e.namespace, "--synced")
	contains(t, out, "is Synced.\n")
	e.run(t, 1, "wait", "shop", "-n", e.namespace, "--healthy", "--timeout", "300ms")
	e.run(t, 1, "wait", "shop", "-n", e.namespace, "--timeout", "300ms")
}

func TestWaitDoesNotBelieveAnOldStatus(t *testing.T) {
	e := newEnv(t)
	app := e.createApp(t, "shop")
	e.setStatus(t, "shop", settled)
	e.kube.Kubectl(t, "", "patch", "application", "shop", "-n", e.namespace, "--type=merge", "-p", `{"spec":{"source":{"targetRevision":"v2"}}}`)
	_, errOut := e.run(t, 1, "wait", "shop", "-n", e.namespace, "--timeout", "300ms")
	contains(t, errOut, "the agent has not yet looked at the newest spec", "Does the agent run")

	e.setStatus(t, "shop", settled)
	e.run(t, 0, "wait", "shop", "-n", e.namespace)

	e.run(t, 0, "refresh", "shop", "-n", e.namespace)
	waiting := e.start(t, "wait", "shop", "-n", e.namespace)
	eventuallyWrites(t, &waiting.err, "waiting for the agent to look at Git\n")
	e.setStatus(t, app.Name, func(app *v1alpha1.Application) {
		app.Status.ObservedRefresh = app.Annotations[v1alpha1.AnnotationRefresh]
	})
	if code := waiting.wait(t); code != 0 {
		t.Errorf("the exit code is %d", code)
	}
}
