package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
)

const hookFailed = `the PreSync hook Job shop/migrate failed: 0 of 1 pods succeeded; it is tried again when Git, the source or the variables change, or by "trueup sync"`

// withFailedHook is the status of an Application whose sync a PreSync hook has stopped.
func withFailedHook(app *v1alpha1.Application) {
	unsettled(app)
	now := metav1.Now()
	app.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NotReady", Message: hookFailed, LastTransitionTime: now},
		{Type: v1alpha1.ConditionApplied, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHookFailed, Message: hookFailed, LastTransitionTime: now},
	}
}

func TestWaitEndsWithASyncThatHasFailedForGood(t *testing.T) {
	e := newEnv(t)
	e.createApp(t, "shop")
	waiting := e.start(t, "wait", "shop", "-n", e.namespace, "--timeout", "2m")
	healthy := e.start(t, "wait", "shop", "-n", e.namespace, "--healthy", "--timeout", "2m")
	e.setStatus(t, "shop", withFailedHook)
	if code := waiting.wait(t); code != 1 {
		t.Errorf("the exit code is %d", code)
	}
	contains(t, waiting.err.String(), "waiting for "+e.namespace+"/shop to be Synced and Healthy: the sync has failed: the PreSync hook Job shop/migrate failed: 0 of 1 pods succeeded")
	absent(t, waiting.err.String(), "the time is over")

	// Whether an Application is healthy is no matter of its last sync; the hook is told of all the same.
	eventuallyWrites(t, &healthy.err, hookFailed)
	e.setStatus(t, "shop", func(app *v1alpha1.Application) { app.Status.Health.Status = "Healthy" })
	if code := healthy.wait(t); code != 0 {
		t.Errorf("the exit code of --healthy is %d: %s", code, healthy.err.String())
	}
	_, errOut := e.run(t, 1, "wait", "shop", "-n", e.namespace, "--synced")
	contains(t, errOut, "the PreSync hook Job shop/migrate failed")
}

func TestWhichSyncsHaveFailedForGood(t *testing.T) {
	three := int64(3)
	automated := &v1alpha1.SyncPolicy{Automated: &v1alpha1.Automated{}}
	limited := &v1alpha1.SyncPolicy{Automated: &v1alpha1.Automated{}, Retry: &v1alpha1.Retry{Limit: &three}}
	failed := func(policy *v1alpha1.SyncPolicy, retries int64) func(*v1alpha1.Application) {
		return func(app *v1alpha1.Application) {
			unsettled(app)
			app.Spec.SyncPolicy = policy
			app.Status.OperationState = &v1alpha1.OperationState{Phase: v1alpha1.PhaseFailed, Message: "1 of 3 objects refused", Revision: app.Status.Sync.Revision, Retries: retries}
		}
	}
	and := func(first func(*v1alpha1.Application), then func(*v1alpha1.Application)) func(*v1alpha1.Application) {
		return func(app *v1alpha1.Application) { first(app); then(app) }
	}
	for sentence, c := range map[string]struct {
		status func(*v1alpha1.Application)
		want   string // a part of why; "" where it has not
	}{
		"a hook failed": {withFailedHook, "the PreSync hook Job shop/migrate failed"},
		"a hook failed, and a person asked once more":    {and(withFailedHook, annotated(v1alpha1.AnnotationSync, `{"id":"two"}`)), ""},
		"a hook failed, and Git is to be looked at anew": {and(withFailedHook, annotated(v1alpha1.AnnotationRefresh, "two")), ""},
		"a hook failed of an earlier spec":               {and(withFailedHook, func(app *v1alpha1.Application) { app.Generation = app.Status.ObservedGeneration + 1 }), ""},
		"a sync is tried again":                          {failed(automated, 5), ""},
		"a sync has a retry left":                        {failed(limited, 3), ""},
		"a sync has used up its retries":                 {failed(limited, 4), "1 of 3 objects refused; its retries are used up"},
		"only a person syncs":                            {failed(nil, 1), "1 of 3 objects refused; it is tried again by"},
		"only a person syncs, and something newer":       {and(failed(nil, 1), func(app *v1alpha1.Application) { app.Status.Sync.Revision = "new" }), ""},
		"all is well again":                              {and(failed(nil, 1), func(app *v1alpha1.Application) { app.Status.Sync.Status = v1alpha1.Synced }), ""},
		"nothing failed":                                 {unsettled, ""},
		"nothing ran":                                    {func(*v1alpha1.Application) {}, ""},
	} {
		app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "trueup", Name: "shop"}}
		c.status(app)
		if got := failedForGood(app); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q, got %q", sentence, c.want, got)
		}
	}
}

func annotated(name, value string) func(*v1alpha1.Application) {
	return func(app *v1alpha1.Application) { app.Annotations = map[string]string{name: value} }
}

func TestWaitSaysThatAPersonIsWaitedFor(t *testing.T) {
	healing := &v1alpha1.SyncPolicy{Automated: &v1alpha1.Automated{SelfHeal: true}}
	for sentence, c := range map[string]struct {
		policy *v1alpha1.SyncPolicy
		status func(*v1alpha1.Application)
		want   string
	}{
		"a person syncs":                     {nil, unsettled, "\n  automated sync is off: \"trueup sync shop\" makes it Synced"},
		"a person heals":                     {&v1alpha1.SyncPolicy{Automated: &v1alpha1.Automated{}}, unsettled, "\n  self-heal is off: \"trueup sync shop\" makes it Synced"},
		"the agent does it":                  {healing, unsettled, ""},
		"all is well, and a person syncs":    {nil, settled, ""},
		"automated, and nothing has drifted": {&v1alpha1.SyncPolicy{Automated: &v1alpha1.Automated{}}, func(app *v1alpha1.Application) { unsettled(app); app.Status.Drift = nil }, ""},
	} {
		app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "trueup", Name: "shop"}}
		c.status(app)
		app.Spec.SyncPolicy = c.policy
		if got := notByItself(app); got != c.want {
			t.Errorf("%s: want %q, got %q", sentence, c.want, got)
		}
	}
}
