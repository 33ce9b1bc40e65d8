package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/kubetest"
)

func TestSyncHooksOfAChartRunInTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chart := func(version string) map[string]string {
		return map[string]string{
			"shop/Chart.yaml": "apiVersion: v2\nname: shop\nversion: " + version + "\n",
			"shop/templates/hooks.yaml": hookJob("first", `helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "-5"`) + "---\n" +
				hookJob("second", `helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"`) + "---\n" +
				hookJob("after", `helm.sh/hook: "post-install,post-upgrade"`) + "---\n" +
				hookJob("probe", `helm.sh/hook: test`) + "---\n" +
				hookJob("bye", `helm.sh/hook: pre-delete`),
			"shop/templates/web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {version: {{ .Chart.Version | quote }}}\n",
		}
	}
	first := w.git.Commit(chart("1.0.0"), "first")
	mark := w.AuditMark(t)
	w.app("shop")
	app := w.until("shop", waitsForHook("PreSync hook Job"))
	if got := w.names("jobs") + " " + w.names("configmaps"); got != "first kube-root-ca.crt" {
		t.Errorf("only the first hook should run: %s", got)
	}
	if app.Status.Health.Status == "Healthy" || app.Status.Sync.SyncedRevision != "" {
		t.Errorf("the Application should be neither healthy nor synced, got %+v and %+v", app.Status.Health, app.Status.Sync)
	}
	w.ends("first", "Succeeded")
	w.ends("second", "Succeeded")
	w.until("shop", waitsForHook("PostSync hook Job"))
	if got := w.names("jobs") + " " + w.kubectl("get", "configmap", "web", "-o", "jsonpath={.data.version}"); got != "after first 1.0.0" {
		t.Errorf("the second hook should be deleted, and the objects written: %s", got)
	}
	w.ends("after", "Succeeded")
	all := []string{"PreSync first Succeeded", "PreSync second Succeeded", "PostSync after Succeeded"}
	app = w.until("shop", hooksRan(v1alpha1.PhaseSucceeded, all...))
	w.until("shop", synced(first))
	if got := w.jobsMade(mark); fmt.Sprint(got) != "map[after:1 first:1 second:1]" {
		t.Errorf("each hook should have been made once, got %v", got)
	}
	if c := condition(app, v1alpha1.ConditionRendered); !strings.Contains(c.Message, "Job bye (pre-delete)") || strings.Contains(c.Message, "probe") {
		t.Errorf("what is left out should be named, and no test: %s", c.Message)
	}
	if n := app.Status.Objects.Total; n != 1 {
		t.Errorf("hooks are no objects of the Application, got %d objects", n)
	}

	// Neither healing, nor a look at Git, nor a commit that changes nothing here, nor a restart runs a hook.
	mark = w.AuditMark(t)
	w.kubectl("patch", "configmap", "web", "-p", `{"data":{"version":"drifted"}}`)
	w.until("shop", func(*v1alpha1.Application) error {
		if got := w.kubectl("get", "configmap", "web", "-o", "jsonpath={.data.version}"); got != "1.0.0" {
			return errors.New("not healed: " + got)
		}
		return nil
	})
	other := w.git.Commit(map[string]string{"README.md": "hello"}, "unrelated")
	w.until("shop", synced(other))
	w.stop()
	w.start()
	w.looksAgain("shop")
	w.kubectl("delete", "job", "first")
	w.looksAgain("shop")
	if got := w.jobsMade(mark); len(got) != 0 {
		t.Errorf("no hook should run again, got %v", got)
	}

	// A commit that changes something runs them anew, in place of the earlier ones.
	before := w.uid("job/after")
	second := w.git.Commit(chart("2.0.0"), "second")
	w.ends("first", "Succeeded")
	w.ends("second", "Succeeded")
	w.until("shop", waitsForHook("PostSync hook Job"))
	w.ends("after", "Succeeded")
	w.until("shop", hooksRan(v1alpha1.PhaseSucceeded, all...))
	w.until("shop", synced(second))
	if after := w.uid("job/after"); after == "" || after == before {
		t.Errorf("the earlier Job should have been replaced, got %q and %q", before, after)
	}
	if got := w.jobsMade(mark); fmt.Sprint(got) != "map[after:1 first:1 second:1]" {
		t.Errorf("each hook should have run once more, got %v", got)
	}
}

func TestSyncHookThatFailsInPreSyncStopsTheSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	presync := "argocd.argoproj.io/hook: PreSync"
	first := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "one") + "---\n" + settings("other", "one")}, "first")
	w.app("shop")
	w.until("shop", synced(first))
	mark := w.AuditMark(t)
	second := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "two") + "---\n" + settings("other", "one"), "shop/hook.yaml": hookJob("migrate", presync)}, "second")
	w.ends("migrate", "Failed")
	stopped := func(app *v1alpha1.Application) error {
		c := condition(app, v1alpha1.ConditionApplied)
		if c.Reason != "HookFailed" || !strings.Contains(c.Message, "the PreSync hook Job "+w.ns+"/migrate failed: 0 of 1 pods succeeded") || condition(app, v1alpha1.ConditionReady).Status == "True" {
			return errors.New("the condition should say that the hook failed")
		}
		if app.Status.Sync.SyncedRevision != first || app.Status.Sync.Revision != second {
			return errors.New("the first commit should be what was synced last")
		}
		return nil
	}
	app := w.until("shop", stopped)
	if op := app.Status.OperationState; op == nil || op.Phase != v1alpha1.PhaseFailed || !strings.Contains(op.Message, "the PreSync hook Job") || app.Status.History[0].Result != v1alpha1.PhaseFailed {
		t.Errorf("the sync should have failed, got %+v and %+v", op, app.Status.History)
	}
	value := func(name string) string {
		return w.kubectl("get", "configmap", name, "-o", "jsonpath={.data.mode}")
	}
	old := value("settings")
	if n := len(slices.DeleteFunc(w.writes(mark), func(e kubetest.AuditEvent) bool {
		return strings.Contains(e.URI, "dryRun") || e.Resource == "jobs"
	})); n != 0 {
		t.Errorf("nothing but the hook should have been written, got %d writes", n)
	}

	// It is not tried again, also not by a restart; healing goes on.
	w.stop()
	w.start()
	w.kubectl("patch", "configmap", "other", "-p", `{"data":{"mode":"drifted"}}`)
	w.until("shop", func(app *v1alpha1.Application) error {
		if got := value("other"); got == "drifted" {
			return errors.New("not healed")
		}
		return stopped(app)
	})
	if got := w.jobsMade(mark); fmt.Sprint(got) != "map[migrate:1]" || value("settings") != old {
		t.Errorf("the hook should have run once and nothing be changed, got %v and %s", got, value("settings"))
	}

	// A person's word runs it again.
	w.ask("one")
	w.ends("migrate", "Succeeded")
	app = w.until("shop", synced(second))
	if app.Status.LastRequest == nil || app.Status.LastRequest.Phase != v1alpha1.PhaseSucceeded {
		t.Errorf("the request should be answered when all of it is done, got %+v", app.Status.LastRequest)
	}
	if got := w.jobsMade(mark); fmt.Sprint(got) != "map[migrate:2]" || value("settings") == old {
		t.Errorf("the hook should have run twice and the change be made, got %v and %s", got, value("settings"))
	}
	w.ask("two")
	w.until("shop", waitsForHook("PreSync hook"))
	w.ends("migrate", "Succeeded")
	w.until("shop", hooksRan(v1alpha1.PhaseSucceeded, "PreSync migrate Succeeded"))
	if got := w.jobsMade(mark); fmt.Sprint(got) != "map[migrate:3]" {
		t.Errorf("a sync that is asked for runs hooks, got %v", got)
	}
}

func TestSyncHookRunsOnceThroughRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	commit := w.git.Commit(map[string]string{
		"shop/app.yaml": settings("settings", "one"),
		"shop/hook.yaml": hookJob("before", "argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded") + "---\n" +
			hookJob("during", "argocd.argoproj.io/hook: Sync") + "---\n" +
			strings.Replace(hookJob("after", "argocd.argoproj.io/hook: PostSync"), "name: after", "generateName: after-", 1),
	}, "first")
	mark := w.AuditMark(t)
	w.app("shop")
	w.until("shop", waitsForHook("PreSync hook"))
	w.stop()
	w.start()
	w.looksAgainWhileWaiting("shop")
	w.stop()
	w.ends("before", "Succeeded") // while nobody looks
	// As if it had been killed before the status told of the hook.
	w.kubectl("patch", "application", "shop", "--subresource=status", "--type=merge", "-p", `{"status":{"hooks":null}}`)
	w.start()
	w.until("shop", waitsForHook("Sync hook Job "+w.ns+"/during"))
	if got := w.names("jobs") + " " + w.uid("configmap/settings"); !strings.HasPrefix(got, "during ") || got == "during " {
		t.Errorf("the writes come with the Sync hook, and the PreSync hook goes: %s", got)
	}
	w.stop()
	w.start()
	w.looksAgainWhileWaiting("shop")
	w.ends("during", "Succeeded")
	app := w.until("shop", waitsForHook("PostSync hook Job "+w.ns+"/after-"))
	after := app.Status.Hooks.Hooks[2].Name
	w.stop()
	w.start()
	w.ends(after, "Failed")
	app = w.until("shop", hooksRan(v1alpha1.PhaseFailed, "PreSync before Succeeded", "Sync during Succeeded", "PostSync "+after+" Failed"))
	if app.Status.Sync.Status != v1alpha1.Synced || app.Status.Sync.SyncedRevision != commit || condition(app, v1alpha1.ConditionApplied).Reason != "HookFailed" {
		t.Errorf("everything is applied, and the PostSync hook failed: got %+v", app.Status)
	}
	w.stop()
	w.start()
	w.looksAgain("shop")
	want := map[string]int{"before": 1, "during": 1, after: 1}
	if got := w.jobsMade(mark); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("each hook should have been made once, got %v", got)
	}
}

// looksAgainWhileWaiting asks the Application to look at Git anew while its sync waits, and waits until it has.
func (w *world) looksAgainWhileWaiting(name string) {
	w.t.Helper()
	w.refresh(name)
	w.until(name, func(app *v1alpha1.Application) error {
		if want := app.Annotations[v1alpha1.AnnotationRefresh]; app.Status.ObservedRefresh != want {
			return fmt.Errorf("want the refresh %s answered", want)
		}
		return waitsForHook("hook")(app)
	})
}

func TestSyncHooksSyncFailAndSkip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hooks := hookJob("tell", "argocd.argoproj.io/hook: SyncFail") + "---\n" + hookSettings("skipped", "argocd.argoproj.io/hook: Skip") + "---\n" +
		hookSettings("made", "trueup.dev/hook: PreSync")
	w.git.Commit(map[string]string{
		"shop/app.yaml":  settings("settings", "one") + "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 70000}]}\n",
		"shop/hook.yaml": hooks,
	}, "bad")
	mark := w.AuditMark(t)
	w.app("shop")
	w.ends("tell", "Succeeded")
	w.until("shop", func(app *v1alpha1.Application) error {
		if c := condition(app, v1alpha1.ConditionApplied); c.Reason != "Refused" || !strings.Contains(c.Message, "70000") && !strings.Contains(c.Message, "port") {
			return errors.New("the commit should be refused")
		}
		if h := app.Status.Hooks; h == nil || len(h.Hooks) != 1 || h.Hooks[0].Phase != "SyncFail" || h.Hooks[0].State != v1alpha1.PhaseSucceeded {
			return fmt.Errorf("the SyncFail hook should have run, got %+v", h)
		}
		return nil
	})
	if got := w.names("configmaps"); got != "kube-root-ca.crt" {
		t.Errorf("nothing of the sync and no PreSync hook should be there: %s", got)
	}
	good := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "one")}, "good")
	w.until("shop", synced(good))
	w.until("shop", hooksRan(v1alpha1.PhaseSucceeded, "PreSync made Succeeded"))
	if got := w.names("configmaps"); got != "kube-root-ca.crt made settings" {
		t.Errorf("what is skipped should not be there: %s", got)
	}
	if got := w.jobsMade(mark); fmt.Sprint(got) != "map[tell:1]" {
		t.Errorf("the SyncFail hook should have run once, got %v", got)
	}
}

func TestSyncHookNeverTakesTheObjectOfSomebodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Kubectl(t, hookJob("migrate", "mine: yes-it-is"), "create", "-n", w.ns, "-f", "-")
	before := w.uid("job/migrate")
	commit := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "one"), "shop/hook.yaml": hookJob("migrate", "argocd.argoproj.io/hook: PreSync")}, "first")
	w.app("shop")
	w.until("shop", func(app *v1alpha1.Application) error {
		c := condition(app, v1alpha1.ConditionApplied)
		if want := "shop/hook.yaml:1: the PreSync hook Job " + w.ns + "/migrate: Job " + w.ns + "/migrate is there and is no hook of this Application"; c.Reason != "Refused" || !strings.Contains(c.Message, want) {
			return errors.New("the hook should be refused: " + want)
		}
		return nil
	})
	if got := w.uid("job/migrate"); got != before || w.uid("configmap/settings") != "" {
		t.Errorf("the Job should be left alone and nothing be written, got %s", got)
	}
	w.kubectl("delete", "job", "migrate")
	w.ask("one")
	w.ends("migrate", "Succeeded")
	w.until("shop", synced(commit))
}

func TestSyncHooksGoWithTheirApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "one"), "shop/hook.yaml": hookJob("migrate", "argocd.argoproj.io/hook: PreSync")}, "first")
	w.app("shop", func(app *v1alpha1.Application) { app.Finalizers = []string{v1alpha1.FinalizerCascade} })
	w.until("shop", waitsForHook("PreSync hook"))
	w.kubectl("delete", "application", "shop", "--timeout=60s")
	if got := w.uid("job/migrate"); got != "" {
		t.Error("the hook's Job should be gone")
	}
}

func TestSyncHooksDoNotRunAfterAnAgentThatKeptNoState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "one"), "shop/hook.yaml": hookJob("migrate", "argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: HookSucceeded")}, "first")
	w.app("shop")
	w.ends("migrate", "Succeeded")
	w.until("shop", synced(first))
	w.stop()
	w.kubectl("patch", "application", "shop", "--subresource=status", "--type=merge", "-p", `{"status":{"hooks":null,"sync":{"syncedState":null}}}`)
	mark := w.AuditMark(t)
	w.start()
	w.looksAgain("shop")
	w.until("shop", func(app *v1alpha1.Application) error {
		if app.Status.Sync.SyncedState == "" {
			return errors.New("the state should be noted")
		}
		return synced(first)(app)
	})
	if got := w.jobsMade(mark); len(got) != 0 {
		t.Errorf("everything is in place, so no hook should run, got %v", got)
	}
	second := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "two")}, "second")
	w.ends("migrate", "Succeeded")
	w.until("shop", synced(second))
	if got := w.jobsMade(mark); fmt.Sprint(got) != "map[migrate:1]" {
		t.Errorf("the next commit runs it, got %v", got)
	}
}

func TestSyncHookThatHoldsDataIsKeptAndACommitWaitsForAHookAtWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	data := w.ns + "-data"
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + data + ", annotations: {helm.sh/hook: pre-install}}\n"
	t.Cleanup(func() { _, _ = w.TryKubectl(context.Background(), "", "delete", "namespace", data, "--wait=false") })
	w.git.Commit(map[string]string{
		"shop/app.yaml":   settings("settings", "one"),
		"shop/rules.yaml": hookSettings("rules", "argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/hook-delete-policy: HookFailed"),
		"shop/job.yaml":   hookJob("migrate", "argocd.argoproj.io/hook: PostSync"),
	}, "first")
	w.app("shop")
	w.until("shop", waitsForHook("PostSync hook Job"))
	mark := w.AuditMark(t)
	w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "two")}, "second")
	w.until("shop", waitsForHook("migrate, the hook of an earlier sync, which still runs; to go on without it, delete it"))
	if got := w.kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.mode}"); got != "one" || len(w.jobsMade(mark)) != 0 {
		t.Errorf("nothing should be written while an earlier hook is at work, got %s and %v", got, w.jobsMade(mark))
	}
	w.ends("migrate", "Succeeded")

	// What the first sync has left may not be deleted for the second.
	w.until("shop", func(app *v1alpha1.Application) error {
		want := "rules is there from an earlier sync: delete it, or give the hook the delete policy BeforeHookCreation"
		if c := condition(app, v1alpha1.ConditionApplied); c.Reason != "Refused" || !strings.Contains(c.Message, want) {
			return errors.New("the hook should be refused")
		}
		return nil
	})
	w.git.Commit(map[string]string{"shop/rules.yaml": namespace}, "a namespace")
	w.ends("migrate", "Succeeded")
	ran := hooksRan(v1alpha1.PhaseSucceeded, "PreSync "+data+" Succeeded", "PostSync migrate Succeeded")
	w.until("shop", ran)
	before := w.uid("namespace/" + data)
	fourth := w.git.Commit(map[string]string{"shop/app.yaml": settings("settings", "four")}, "fourth")
	w.ends("migrate", "Succeeded")
	app := w.until("shop", func(app *v1alpha1.Application) error {
		if app.Status.Sync.SyncedRevision != fourth {
			return errors.New("not synced yet")
		}
		return ran(app)
	})
	if got := w.uid("namespace/" + data); got != before || before == "" {
		t.Errorf("the namespace should be kept, got %q and %q: %+v", got, before, app.Status.Hooks)
	}
}
