package sync

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"

	"github.com/trueup/trueup/sync/v1alpha1"
)

func TestAnAgentForOneApplicationLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.ApplicationName = "shop" })
	commit := w.git.Commit(map[string]string{
		"shop/settings.yaml": settings("shop", "one"), "other/settings.yaml": settings("theirs", "one"),
	}, "first")
	w.app("other")
	w.app("shop")
	w.until("shop", synced(commit))
	// What somebody does to an object of another Application is no work either.
	w.kubectl("create", "configmap", "theirs")
	w.kubectl("label", "configmap", "theirs", v1alpha1.LabelApp+"=other")
	w.kubectl("annotate", "configmap", "theirs", v1alpha1.AnnotationTracking+"="+w.ns+"/other:/ConfigMap:"+w.ns+"/theirs")
	w.heals("shop")
	if app := w.get("other"); app.Status.ObservedGeneration != 0 || app.Status.Sync.Status != "" {
		t.Errorf("another Application was looked at: %+v", app.Status)
	}
	for key := range w.controller.states.all() {
		if key.Name != "shop" {
			t.Errorf("there is a state of %s", key)
		}
	}
}

func TestAnAgentForOneApplicationNeedsItsNamespace(t *testing.T) {
	c := DefaultConfig()
	c.CacheDir, c.ApplicationName = "cache", "shop"
	if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "application-namespace: must name the namespace of the Application shop") {
		t.Errorf("the error is %v", err)
	}
}

func TestAStatusThatIsNotKeptIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	recorder := events.NewFakeRecorder(3)
	c := &Controller{log: slog.New(slog.NewTextHandler(&log, nil)), recorder: recorder}
	whole := v1alpha1.ApplicationStatus{ObservedGeneration: 2, LastRequest: &v1alpha1.RequestStatus{ID: "one", Phase: v1alpha1.PhaseSucceeded}}
	stored := &v1alpha1.Application{Status: whole}
	l := &look{st: newAppState(), app: stored}
	c.checkKept(l, stored, &whole)
	if log.Len() > 0 || len(recorder.Events) > 0 {
		t.Errorf("all was kept, yet the agent says %s", log.String())
	}
	older := stored.DeepCopy()
	older.Status.LastRequest = nil
	for range 2 {
		c.checkKept(l, older, &whole)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "lastRequest") || !strings.Contains(log.String(), "run trueup install") {
		t.Errorf("%d lines: %s", n, log.String())
	}
	if n := len(recorder.Events); n != 1 {
		t.Fatalf("%d events", n)
	}
	if event := <-recorder.Events; !strings.HasPrefix(event, "Warning StatusNotKept ") {
		t.Errorf("the event is %s", event)
	}
}
