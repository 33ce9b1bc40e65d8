package sync

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/why"
	"github.com/trueup/trueup/sync/v1alpha1"
)

func TestWhyApplicationTellsOfGit(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "trueup", Name: "shop"}}
	app.Spec.Source.RepoURL = "https://bob:s3cret@git.example.com/shop.git"
	app.Status.Sync = v1alpha1.SyncStatus{ShortRevision: "3f2a1b7", FailedRevision: "99887766550000"}
	app.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionFetched, Status: metav1.ConditionTrue, Message: "the repository can be read"},
		{Type: v1alpha1.ConditionRendered, Status: metav1.ConditionFalse, Message: "web.yaml:12: broken", LastTransitionTime: since},
	}
	want := why.Application{
		Namespace: "trueup", Name: "shop", RepoURL: "https://git.example.com/shop.git", Revision: "9988776",
		Render: why.Step{Error: "web.yaml:12: broken", Since: since.Time},
	}
	if d := cmp.Diff(want, whyApplication(app)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestWhyJoinsTheStatusWithWhatIsThere(t *testing.T) {
	judge, err := health.NewJudge(nil, health.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reference := func(group, kind, name string) v1alpha1.ObjectReference {
		return v1alpha1.ObjectReference{Group: group, Kind: kind, Namespace: "shop", Name: name}
	}
	since := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	app := &v1alpha1.Application{}
	app.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionApplied, Status: metav1.ConditionFalse, LastTransitionTime: since}}
	app.Status.Resources = []v1alpha1.ResourceStatus{
		{ObjectReference: reference("", "Service", "web"), Sync: v1alpha1.OutOfSync, Health: "Missing", Reason: "Rejected", Message: "spec.ports: Required value"},
		{ObjectReference: reference("", "ConfigMap", "theirs"), Sync: v1alpha1.OutOfSync, Health: "Healthy", Reason: "Refused", Message: "it is Argo CD's"},
		{ObjectReference: reference("", "ConfigMap", "drifted"), Sync: v1alpha1.OutOfSync, Health: "Healthy", Reason: "Drifted", Message: "data.mode"},
		{ObjectReference: reference("batch", "Job", "migrate"), Sync: v1alpha1.OutOfSync, Health: "Missing", Reason: "Missing", Message: "not there"},
		{ObjectReference: reference("", "Pod", "one"), Sync: v1alpha1.Synced, Health: "Healthy", Reason: "Old", Message: "what was said a minute ago"},
	}
	pod := diff.ID{Kind: "Pod", Namespace: "shop", Name: "one"}
	failed := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "shop", "name": "one"},
		"status": map[string]any{"phase": "Failed", "reason": "Evicted", "message": "disk"},
	}}
	got := (&gathering{judge: judge, app: app}).states(map[diff.ID]*unstructured.Unstructured{pod: failed})
	want := []why.Managed{
		{Ref: why.Ref{Kind: "ConfigMap", Namespace: "shop", Name: "theirs"}, Error: "it is Argo CD's", Reason: "Conflict", Since: since.Time, Health: health.Result{Code: health.Healthy, Reason: "Refused", Message: "it is Argo CD's"}},
		{Ref: why.Ref{Kind: "Service", Namespace: "shop", Name: "web"}, Error: "spec.ports: Required value", Reason: "Rejected", Since: since.Time, Health: health.Result{Code: health.Missing, Reason: "Rejected", Message: "spec.ports: Required value"}},
		{Ref: why.Ref{Group: "batch", Kind: "Job", Namespace: "shop", Name: "migrate"}, Health: health.Result{Code: health.Missing, Reason: "Missing", Message: "not there"}},
		{Ref: why.Ref{Kind: "Pod", Namespace: "shop", Name: "one"}, Health: judge.Of(failed)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got[3].Health.Code != health.Degraded {
		t.Errorf("what is there counts, not what was said of it: %+v", got[3].Health)
	}
}

func TestWhyApplicationTellsOfWhatIsOutOfSync(t *testing.T) {
	app := &v1alpha1.Application{}
	held := metav1.Condition{Type: v1alpha1.ConditionApplied, Status: metav1.ConditionFalse, Reason: "OutOfSync", Message: "ConfigMap shop/settings: .data.mode: contested"}
	for reason, want := range map[string]string{"OutOfSync": held.Message, v1alpha1.ReasonHookFailed: "", "Failed": ""} {
		held.Reason = reason
		app.Status.Conditions = []metav1.Condition{held}
		if got := whyApplication(app).OutOfSync; got != want {
			t.Errorf("%s: want %q, got %q", reason, want, got)
		}
	}
}

func TestTheCauseDoesNotRepeatWhatItSays(t *testing.T) {
	hpa := diff.ID{Group: "autoscaling", Kind: "HorizontalPodAutoscaler", Namespace: "shop", Name: "web"}
	for sentence, c := range map[string]struct{ says, cause, want string }{
		"the cause has all of it": {
			"no metrics came back", hpa.String() + " cannot read the metric cpu: no metrics came back", hpa.String() + " cannot read the metric cpu: no metrics came back",
		},
		"the cause adds to it": {
			"0 of 2 replicas", "ResourceQuota shop/small is used up", hpa.String() + ": 0 of 2 replicas: ResourceQuota shop/small is used up",
		},
		"the cause says no more": {"its mode is broken", hpa.String() + " is Degraded: its mode is broken", hpa.String() + ": its mode is broken"},
		"there is no cause":      {"0 of 2 replicas", "", hpa.String() + ": 0 of 2 replicas"},
	} {
		step := &Step{ID: hpa, Health: health.Result{Code: health.Degraded, Message: c.says}}
		now := time.Now()
		l := &look{deciding: step, snap: &snapshot{}, now: now, st: newAppState()}
		l.st.cause = cause{id: hpa, health: step.Health, text: c.cause, next: now.Add(time.Minute)}
		s := &v1alpha1.ApplicationStatus{Health: v1alpha1.HealthStatus{Status: string(health.Degraded), Message: hpa.String() + ": " + c.says}}
		(&Controller{}).explain(t.Context(), l, s)
		if s.Health.Message != c.want {
			t.Errorf("%s: want %q, got %q", sentence, c.want, s.Health.Message)
		}
	}
}
