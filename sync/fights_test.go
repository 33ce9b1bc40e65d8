package sync

import (
	"context"
	"fmt"
	"strings"
	gosync "sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

// write changes a ConfigMap's mode as a field manager.
func (w *world) write(manager, name, mode string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"data":{"mode":%q}}`, mode)
	if _, err := w.clients.Kube.CoreV1().ConfigMaps(w.ns).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}); err != nil {
		w.t.Fatal(err)
	}
}

// realWrites are the agent's writes that took effect.
func (w *world) realWrites(since kubetest.AuditMark) int {
	n := 0
	for _, e := range w.writes(since) {
		if !strings.Contains(e.URI, "dryRun") && e.Code < 300 {
			n++
		}
	}
	return n
}

func contested(app *v1alpha1.Application) error {
	d := drift(app, ".data.mode")
	if d == nil || d.Decision != "Hold" || d.HeldUntil == nil || !strings.Contains(d.Reason, "contested") {
		return fmt.Errorf("want the field contested, got %+v", d)
	}
	return nil
}

// repeat does something once each while, until it is stopped.
func (w *world) repeat(every time.Duration, do func(ctx context.Context, i int)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done gosync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				do(ctx, i)
			}
		}
	})
	stop = func() { cancel(); done.Wait() }
	w.t.Cleanup(stop)
	return stop
}

// rival sends patches to an object, one each while, until it is stopped.
func (w *world) rival(every time.Duration, manager, resource, name, subresource string, patch func(i int) string) (stop func()) {
	gvr := schema.GroupVersionResource{Version: "v1", Resource: resource}
	if resource == "deployments" {
		gvr.Group = "apps"
	}
	objects := w.clients.Dynamic.Resource(gvr).Namespace(w.ns)
	return w.repeat(every, func(ctx context.Context, i int) {
		_, _ = objects.Patch(ctx, name, types.MergePatchType, []byte(patch(i)), metav1.PatchOptions{FieldManager: manager}, subresource)
	})
}

func TestFightIsBrokenOffRememberedAndTakenUpAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "first")
	w.app("shop")
	w.until("shop", synced(commit))

	// A controller that writes the field fifty times a second: on a busy machine hardly any heal comes between two of them.
	mark := w.AuditMark(t)
	stop := w.rival(20*time.Millisecond, "some-operator", "configmaps", "settings", "", func(i int) string {
		return fmt.Sprintf(`{"data":{"mode":"theirs-%d"}}`, i)
	})
	app := w.until("shop", contested)
	if app.Status.Sync.Status != v1alpha1.OutOfSync {
		t.Errorf("a held field is OutOfSync, got %s", app.Status.Sync.Status)
	}
	held := w.AuditMark(t)
	version := app.ResourceVersion
	seen := w.passes()
	kubetest.Eventually(t, patience, func() error {
		if w.passes() < seen+8 {
			return fmt.Errorf("waiting for the loop to have looked at many more writes")
		}
		return nil
	})
	if n := w.realWrites(mark); n > 5 {
		t.Errorf("writes from us in the fight: got %d, want at most 5", n)
	}
	if requests := w.ownRequests(held); len(requests) > 0 {
		t.Errorf("while the field is held nothing is asked or written, not even a status that stays as it is: got %v", requests)
	}
	if got := w.get("shop").ResourceVersion; got != version {
		t.Errorf("the status of a held field is written once, not with each flip")
	}

	// A restart does not forget it.
	w.stop()
	w.start()
	restarted := w.AuditMark(t)
	kubetest.Eventually(t, patience, func() error {
		if w.passes() < 4 {
			return fmt.Errorf("the new agent has not looked yet")
		}
		return nil
	})
	if n := w.realWrites(restarted); n > 0 {
		t.Errorf("a restarted agent should remember the fight, but wrote %d times", n)
	}
	stop()

	// Everything else goes on: another object heals, and a change of Git closes the breaker.
	commit = w.git.Commit(map[string]string{"shop/settings.yaml": strings.ReplaceAll(configMap, "production", "test")}, "change")
	w.until("shop", synced(commit))
	if got := w.setting("settings"); got != "test" {
		t.Errorf("mode: got %s, want test", got)
	}
}

// TestEveryKindOfFightIsBrokenOff is about changes that no lost field with an owner shows.
func TestEveryKindOfFightIsBrokenOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []string
	for _, name := range []string{"removed", "added", "unmarked", "untracked", "quiet"} {
		all = append(all, strings.ReplaceAll(configMap, "settings", name))
	}
	commit := w.git.Commit(map[string]string{"shop/all.yaml": strings.Join(append(all, strings.Replace(deployment, "name: web\n", "name: scaled\n", 1)), "---\n")}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	mark := w.AuditMark(t)
	const every = 50 * time.Millisecond
	always := func(patch string) func(int) string { return func(int) string { return patch } }
	w.rival(every, "some-operator", "configmaps", "removed", "", always(`{"data":{"mode":null}}`))
	w.rival(every, "kubectl-patch", "configmaps", "added", "", always(`{"data":{"theirs":"more"}}`))
	w.rival(every, "some-operator", "configmaps", "unmarked", "", always(`{"metadata":{"annotations":null}}`))
	w.rival(every, "some-operator", "configmaps", "untracked", "", always(`{"metadata":{"annotations":null,"labels":null}}`))
	w.rival(every, "some-operator", "deployments", "scaled", "scale", func(i int) string { return fmt.Sprintf(`{"spec":{"replicas":%d}}`, 3+i%2) })

	want := map[string]string{
		"removed":   ".data: contested: somebody removed it",
		"added":     ".data.theirs: contested: kubectl-patch added it",
		"scaled":    ".spec.replicas: contested: some-operator (scale) took it back",
		"unmarked":  "contested: it was written and has changed again",
		"untracked": "contested: it was written and has changed again",
	}
	held := func(app *v1alpha1.Application) error {
		got := map[string]string{}
		for _, r := range app.Status.Resources {
			got[r.Name] = r.Reason + ": " + r.Message
		}
		for name, message := range want {
			if !strings.HasPrefix(got[name], "Held: "+message) {
				return fmt.Errorf("%s: want %q, got %q", name, message, got[name])
			}
		}
		return nil
	}
	w.until("shop", held)
	wrote := map[string]int{}
	for _, e := range w.writes(mark) {
		if !strings.Contains(e.URI, "dryRun") && e.Code < 300 {
			wrote[e.Name]++
		}
	}
	for name := range want {
		if got := wrote[name]; got > tripObjectAfter {
			t.Errorf("%s: written %d times, want at most %d", name, got, tripObjectAfter)
		}
	}

	w.stop()
	w.start()
	restarted := w.AuditMark(t)
	w.heals("quiet")
	w.until("shop", held)
	if got := w.realWrites(restarted); got != 1 {
		t.Errorf("a restarted agent remembers all of them and writes once, for the healed one; it wrote %d times", got)
	}
}

func TestSyncRequestClosesTheBreaker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	for i := 0; drift(w.get("shop"), ".data.mode") == nil || contested(w.get("shop")) != nil; i++ {
		if i > 10 {
			t.Fatal("the breaker has not tripped")
		}
		w.write("some-operator", "settings", fmt.Sprintf("theirs-%d", i))
		kubetest.Eventually(t, patience, func() error {
			if w.setting("settings") != "production" && contested(w.get("shop")) != nil {
				return fmt.Errorf("neither healed nor held")
			}
			return nil
		})
	}
	w.kubectl("annotate", "application", "shop", v1alpha1.AnnotationSync+`={"id":"again","by":"anna"}`)
	w.until("shop", synced(commit))
	if got := w.setting("settings"); got != "production" {
		t.Errorf("mode: got %s, want production", got)
	}
}

func TestOtherAppliersAreNotForced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/settings.yaml": configMap}, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	w.Kubectl(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {mode: theirs}}", "apply", "-n", w.ns, "--server-side", "--field-manager=argocd-controller", "--force-conflicts", "-f", "-")
	w.until("shop", func(app *v1alpha1.Application) error {
		d := drift(app, ".data.mode")
		if app.Status.Sync.Status != v1alpha1.OutOfSync || d == nil || d.Decision != "Hold" || d.Manager != "argocd-controller" {
			return fmt.Errorf("want the field held, got %s and %+v", app.Status.Sync.Status, d)
		}
		return nil
	})
	w.git.Commit(map[string]string{"shop/settings.yaml": configMap + "  level: high\n"}, "second")
	w.until("shop", func(app *v1alpha1.Application) error {
		if got := w.kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.mode} {.data.level}"); got != "theirs high" {
			return fmt.Errorf("want the other field to arrive, got %s", got)
		}
		return nil
	})
}

func TestAdoption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Row by row: what was there before, and what it is afterwards.
	for _, c := range []struct{ name, manifest, args string }{
		{"applied", "data: {mode: old, more: theirs}", "apply"},
		{"created", "data: {mode: old, more: theirs}", "create"},
		{"serverside", "data: {mode: old, more: theirs}", "apply --server-side --field-manager=kubectl"},
	} {
		manifest := fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, labels: {team: blue}}, %s}", c.name, c.manifest)
		w.Kubectl(t, manifest, append(strings.Fields(c.args), "-n", w.ns, "-f", "-")...)
	}
	files := map[string]string{}
	for _, name := range []string{"applied", "created", "serverside"} {
		files["shop/"+name+".yaml"] = fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {mode: production}}", name)
	}
	commit := w.git.Commit(files, "first")
	w.app("shop")
	w.until("shop", synced(commit))
	for _, name := range []string{"applied", "created"} {
		if got := w.kubectl("get", "configmap", name, "-o", "jsonpath={.data}"); got != `{"mode":"production"}` {
			t.Errorf("%s: what is not in Git goes away: got %s", name, got)
		}
	}
	if got := w.kubectl("get", "configmap", "serverside", "-o", "jsonpath={.data.mode}"); got != "production" {
		t.Errorf("serverside: got %s", got)
	}
}

func TestClaimedObjectsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, claim := range map[string]string{
		"argo": "annotations: {argocd.argoproj.io/tracking-id: 'web:/ConfigMap:x/argo'}",
		"flux": "labels: {kustomize.toolkit.fluxcd.io/name: web, kustomize.toolkit.fluxcd.io/namespace: flux-system}",
		"helm": "annotations: {meta.helm.sh/release-name: web, meta.helm.sh/release-namespace: x}",
	} {
		w.Kubectl(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, %s}, data: {mode: theirs}}", name, claim), "create", "-n", w.ns, "-f", "-")
	}
	commit := w.git.Commit(map[string]string{
		"other/shared.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {mode: theirs}}",
		"shop/all.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: argo}, data: {mode: production}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: flux}, data: {mode: production}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: helm}, data: {mode: production}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {mode: production}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: ours}, data: {mode: production}}
`}, "first")
	w.app("other")
	w.until("other", synced(commit))
	w.app("shop")
	owners := map[string]string{"argo": "Argo CD", "flux": "Flux", "helm": "Helm", "shared": w.ns + "/other"}
	w.until("shop", func(app *v1alpha1.Application) error {
		refused := map[string]string{}
		for _, r := range app.Status.Resources {
			if r.Reason == "Refused" {
				refused[r.Name] = r.Message
			}
		}
		for name, owner := range owners {
			if !strings.Contains(refused[name], owner) || !strings.Contains(refused[name], "Adopt=true") {
				return fmt.Errorf("%s: want a refusal that names %s and the way out, got %q", name, owner, refused[name])
			}
		}
		return nil
	})
	modes := func() string {
		return w.kubectl("get", "configmaps", "argo", "flux", "helm", "shared", "ours", "-o", "jsonpath={.items[*].data.mode}")
	}
	w.eventually("theirs theirs theirs theirs production", modes)
	w.kubectl("patch", "application", "shop", "--type=merge", "-p", `{"spec":{"syncPolicy":{"syncOptions":["Adopt=true"]}}}`)
	w.kubectl("delete", "application", "other")
	w.eventually("production production production production production", modes)
	w.until("shop", synced(commit))
}

func TestFieldPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{"shop/tuned.yaml": strings.ReplaceAll(configMap, "settings", "tuned"), "shop/own.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: own, annotations: {trueup.dev/yield: .data.mode}}, data: {mode: production, level: low}}", "shop/settings.yaml": configMap + "  size: small\n  level: low\n  note: first\n  query: first\n"}, "first")
	group := ""
	w.app("shop", func(app *v1alpha1.Application) {
		app.Spec.FieldPolicies = []v1alpha1.FieldPolicy{
			{Group: &group, Kind: "ConfigMap", Paths: []string{".data.mode"}, Managers: []string{"some-*"}, Policy: v1alpha1.PolicyYield},
			{Kind: "ConfigMap", Name: "sett*", Paths: []string{"/data/level"}, Policy: v1alpha1.PolicyHold},
			{Kind: "ConfigMap", Paths: []string{".data.note"}, Policy: v1alpha1.PolicyCreateOnly},
		}
		app.Spec.IgnoreDifferences = []v1alpha1.IgnoreDifference{{Kind: "ConfigMap", JSONPointers: []string{"/data/size"}}, {Kind: "ConfigMap", JQPathExpressions: []string{`.data | to_entries[] | select(.key == "none")`, `.data["query"]`}}, {Kind: "ConfigMap", Name: "tuned", ManagedFieldsManagers: []string{"tuner"}}}
	})
	w.until("shop", synced(commit))
	patch := `{"data":{"mode":"theirs","level":"theirs","size":"theirs","note":"theirs","query":"theirs"}}`
	if _, err := w.clients.Kube.CoreV1().ConfigMaps(w.ns).Patch(context.Background(), "settings", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "some-operator"}); err != nil {
		t.Fatal(err)
	}
	// All fields of a manager, and no field of another.
	w.write("tuner", "tuned", "theirs")
	w.until("shop", func(app *v1alpha1.Application) error {
		for _, d := range app.Status.Drift {
			if d.Name == "tuned" && d.Manager == "tuner" && d.Decision == "Yield" && strings.Contains(d.Reason, "spec.ignoreDifferences[2]") {
				return nil
			}
		}
		return fmt.Errorf("want the field left to tuner, got %+v", app.Status.Drift)
	})
	w.write("another-operator", "tuned", "broken")
	w.eventually("production", func() string { return w.setting("tuned") })
	// What an object says of itself holds for that object alone, and for that field alone.
	w.write("some-operator", "own", "theirs")
	w.eventually("theirs low", func() string {
		return w.kubectl("get", "configmap", "own", "-o", "jsonpath={.data.mode} {.data.level}")
	})
	want := map[string]string{".data.mode": "Yield", ".data.level": "Hold", ".data.size": "Yield", ".data.note": "Yield", ".data.query": "Yield"}
	w.until("shop", func(app *v1alpha1.Application) error {
		for path, decision := range want {
			if d := drift(app, path); d == nil || d.Decision != decision {
				return fmt.Errorf("%s: want %s, got %+v", path, decision, d)
			}
		}
		if app.Status.Sync.Status != v1alpha1.OutOfSync {
			return fmt.Errorf("a held field is OutOfSync")
		}
		return nil
	})
	// A change in Git arrives, and takes none of them.
	w.git.Commit(map[string]string{"shop/settings.yaml": configMap + "  size: big\n  level: high\n  note: second\n  more: \"1\"\n"}, "second")
	w.eventually("theirs theirs theirs theirs 1", func() string {
		return w.kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.mode} {.data.level} {.data.size} {.data.note} {.data.more}")
	})
	if got := w.setting("own"); got != "theirs" {
		t.Errorf("the field that the object yields: got %s, want theirs", got)
	}
	// The person's word on the mode is for one manager only: another's change is healed.
	w.write("another-operator", "settings", "broken")
	w.eventually("production", func() string { return w.setting("settings") })
}

func TestThousandObjectsChangedAtOnceAreHealedFairly(t *testing.T) {
	w := newWorld(t)
	files := manyObjects(1000)
	files["shop/settings.yaml"] = configMap
	commit := w.git.Commit(files, "many")
	w.app("many")
	w.app("shop")
	w.until("many", synced(commit))
	w.until("shop", synced(commit))
	w.kubectl("label", "configmaps", "-l", v1alpha1.LabelApp+"=many", "tier=broken", "--overwrite")
	start := time.Now()
	w.write("kubectl-edit", "settings", "broken")
	w.eventually("production", func() string { return w.setting("settings") })
	t.Logf("the small Application was healed after %s", time.Since(start).Round(10*time.Millisecond))
	kubetest.Eventually(t, patience, func() error {
		if broken := len(strings.Fields(w.kubectl("get", "configmaps", "-l", "tier=broken", "-o", "name"))); broken > 0 {
			return fmt.Errorf("%d are still broken", broken)
		}
		return nil
	})
	w.until("many", synced(commit))
	if n := len(w.get("many").Status.History); n > v1alpha1.MaxHistory {
		t.Errorf("the history is bounded, has %d", n)
	}
}
