package sync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// modeRule is Degraded for a ConfigMap whose mode is broken.
var modeRule = v1alpha1.HealthRule{Kind: "ConfigMap", Degraded: "object.text('data.mode') == 'broken'", Message: "'its mode is ' + object.text('data.mode')"}

const brokenMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {mode: broken}}`

// healthIs wants a health and a part of its message.
func healthIs(code, message string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		if h := app.Status.Health; h.Status != code || !strings.Contains(h.Message, message) {
			return fmt.Errorf("want %s with %q, got %s: %s", code, message, h.Status, h.Message)
		}
		return nil
	}
}

func (w *world) setHealthRules(name string, rules ...v1alpha1.HealthRule) {
	w.t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"healthRules": rules}})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.clients.Applications(w.ns).Patch(w.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func TestHealthRulesOfAnApplication(t *testing.T) {
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/map.yaml": fmt.Sprintf(brokenMap, "ours"), "other/map.yaml": fmt.Sprintf(brokenMap, "theirs")}, "maps")
	w.app("shop")
	w.app("other")
	w.until("shop", synced(commit))
	w.until("other", synced(commit))
	mark := w.AuditMark(t)

	w.setHealthRules("shop", modeRule)
	app := w.until("shop", healthIs("Degraded", "ConfigMap "+w.ns+"/ours: its mode is broken"))
	if c := condition(app, v1alpha1.ConditionHealthRules); c.Status != metav1.ConditionTrue {
		t.Errorf("the rules compile, and the condition is %+v", c)
	}
	if err := healthIs("Healthy", "")(w.get("other")); err != nil {
		t.Errorf("rules are for one Application: %v", err)
	}
	w.kubectl("patch", "configmap", "ours", "--type=merge", "-p", `{"metadata":{"annotations":{"example.com/seen":"yes"}}}`)

	bad := modeRule
	bad.Degraded = "data.mode == 'broken'"
	w.setHealthRules("shop", modeRule, bad)
	app = w.until("shop", func(app *v1alpha1.Application) error {
		c := condition(app, v1alpha1.ConditionHealthRules)
		if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "spec.healthRules[1].degraded: ") || !strings.Contains(c.Message, "undeclared reference to 'data'") {
			return fmt.Errorf("want the condition to name the rule, got %+v", c)
		}
		return healthIs("Healthy", "")(app) // as the shipped rules have it
	})
	if ready := condition(app, v1alpha1.ConditionReady); ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "spec.healthRules[1].degraded") {
		t.Errorf("an Application whose rules are wrong is not ready, got %+v", ready)
	}

	w.setHealthRules("shop")
	w.until("shop", synced(commit))
	w.until("shop", func(app *v1alpha1.Application) error {
		if c := condition(app, v1alpha1.ConditionHealthRules); c.Type != "" {
			return fmt.Errorf("without rules there is no condition, got %+v", c)
		}
		return nil
	})
	if writes := w.writes(mark); len(writes) != 0 {
		t.Errorf("rules are no reason to write, got %v", writes)
	}
}

func TestHealthRulesOfTheAgent(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.HealthRules = healthRules([]v1alpha1.HealthRule{modeRule}) })
	w.git.Commit(map[string]string{"shop/map.yaml": fmt.Sprintf(brokenMap, "ours")}, "map")
	w.app("shop")
	w.until("shop", healthIs("Degraded", "its mode is broken"))
}

func TestAgentRefusesAHealthRule(t *testing.T) {
	config := DefaultConfig()
	config.CacheDir = t.TempDir()
	config.HealthRules = []health.Rule{{Kind: "Pod", Healthy: "true"}, {Kind: "Job", Suspended: "object.text("}}
	err := config.Validate()
	if err == nil || !strings.Contains(err.Error(), "health-rules[1].suspended: ") {
		t.Errorf("want an error about health-rules[1].suspended, got %v", err)
	}
	if rule, ok := errors.AsType[*health.RuleError](err); ok {
		t.Errorf("the error is told in the words of the configuration, got %v", rule)
	}
}

func TestClaimsAreJudgedByTheirStorageClass(t *testing.T) {
	w := newWorld(t)
	class := "waits-" + w.ns
	claim := fmt.Sprintf("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: %s, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}", class)
	w.git.Commit(map[string]string{"shop/claim.yaml": claim}, "claim")
	w.app("shop")
	w.until("shop", healthIs("Progressing", "waiting for a volume of storage class "+class))

	w.Kubectl(t, "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: "+class+"}, provisioner: example.com/none, volumeBindingMode: WaitForFirstConsumer}", "create", "-f", "-")
	t.Cleanup(func() { _, _ = w.TryKubectl(context.Background(), "", "delete", "storageclass", class) })
	w.until("shop", healthIs("Healthy", ""))

	w.Kubectl(t, "", "delete", "storageclass", class)
	w.until("shop", healthIs("Progressing", "waiting for a volume of storage class "+class))
}

// stuckDeployment is a Deployment whose pod fits on no node.
var stuckDeployment = strings.Replace(deployment, "    spec:\n      containers:", "    spec:\n      nodeSelector: {disk: fast}\n      containers:", 1)

func TestProgressingPastItsDeadlineSaysSo(t *testing.T) {
	w := newWorld(t)
	w.git.Commit(map[string]string{"shop/web.yaml": stuckDeployment}, "web")
	w.app("shop", func(app *v1alpha1.Application) { app.Spec.ProgressDeadlineSeconds = ptr.To[int32](3) })
	app := w.until("shop", healthIs("Progressing", "0 of 2 replicas available, 0 ready"))
	if strings.Contains(app.Status.Health.Message, "; Progressing for longer") {
		t.Errorf("it is too early for: %s", app.Status.Health.Message)
	}
	since := app.Status.Health.LastTransitionTime
	app = w.until("shop", healthIs("Progressing", "; Progressing for longer than its deadline of 3s"))
	if !app.Status.Health.LastTransitionTime.Equal(since) {
		t.Errorf("Progressing since %s, and now since %s", since, app.Status.Health.LastTransitionTime)
	}
}

func TestProgressDeadline(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for sentence, test := range map[string]struct {
		seconds *int32
		health  v1alpha1.HealthStatus
		want    time.Time
	}{
		"ten minutes by default":          {nil, v1alpha1.HealthStatus{Status: "Progressing", LastTransitionTime: &since}, since.Add(10 * time.Minute)},
		"as the Application says":         {ptr.To[int32](90), v1alpha1.HealthStatus{Status: "Progressing", LastTransitionTime: &since}, since.Add(90 * time.Second)},
		"none for what is Healthy":        {nil, v1alpha1.HealthStatus{Status: "Healthy", LastTransitionTime: &since}, time.Time{}},
		"none for what is Degraded":       {nil, v1alpha1.HealthStatus{Status: "Degraded", LastTransitionTime: &since}, time.Time{}},
		"none before anything was judged": {nil, v1alpha1.HealthStatus{}, time.Time{}},
	} {
		if got := progressDeadline(&v1alpha1.ApplicationSpec{ProgressDeadlineSeconds: test.seconds}, test.health); !got.Equal(test.want) {
			t.Errorf("%s: want %s, got %s", sentence, test.want, got)
		}
	}
}

// TestTheCauseIsLookedForSeldom has an Application that is Degraded, and counts the requests for its reason.
func TestTheCauseIsLookedForSeldom(t *testing.T) {
	w := newWorld(t)
	quota := `{apiVersion: v1, kind: ResourceQuota, metadata: {name: small}, spec: {hard: {pods: "0"}}}`
	w.git.Commit(map[string]string{"shop/web.yaml": deployment, "shop/quota.yaml": quota, "fine/map.yaml": configMap}, "web")
	mark := w.AuditMark(t)
	w.app("fine")
	w.app("shop")
	w.until("shop", healthIs("Degraded", "cannot create its pods: ResourceQuota "+w.ns+"/small is used up"))
	w.until("fine", healthIs("Healthy", ""))
	lists := func() int {
		return len(w.AuditEvents(t, mark, func(e kubetest.AuditEvent) bool {
			return e.Verb == "list" && e.User == "system:serviceaccount:"+w.ns+":trueup" && strings.Contains(e.URI, "/namespaces/"+w.ns+"/pods")
		}))
	}
	first := lists()
	if first == 0 || first > 3 {
		t.Errorf("want a list of pods for each health of the Deployment, got %d", first)
	}
	for range 3 {
		w.refresh("shop")
		asked := w.get("shop").Annotations[v1alpha1.AnnotationRefresh]
		w.until("shop", func(app *v1alpha1.Application) error {
			if app.Status.ObservedRefresh != asked {
				return errors.New("the refresh is not answered yet")
			}
			return healthIs("Degraded", "is used up")(app)
		})
	}
	if again := lists(); again > first+1 { // one for the time that has passed
		t.Errorf("passes with the same health list no pods, got %d lists after %d", again, first)
	}
}
