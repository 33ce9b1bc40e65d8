package source

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestReadHook(t *testing.T) {
	type annotations map[string]any
	byDefault := []HookDelete{BeforeHookCreation}
	for name, c := range map[string]struct {
		annotations annotations
		want        hookReading
		err         string
	}{
		"no annotation":            {annotations{"a": "b"}, hookReading{keep: true}, ""},
		"Helm's install":           {annotations{"helm.sh/hook": "pre-install,pre-upgrade"}, hookReading{hook: &Hook{Phases: []HookPhase{PreSync}, Delete: byDefault}}, ""},
		"Helm's after an upgrade":  {annotations{"helm.sh/hook": " Post-Upgrade "}, hookReading{hook: &Hook{Phases: []HookPhase{PostSync}, Delete: byDefault}}, ""},
		"before and after":         {annotations{"helm.sh/hook": "pre-install, post-install"}, hookReading{hook: &Hook{Phases: []HookPhase{PreSync, PostSync}, Delete: byDefault}}, ""},
		"a definition":             {annotations{"helm.sh/hook": "crd-install"}, hookReading{keep: true}, ""},
		"a test":                   {annotations{"helm.sh/hook": "test-success"}, hookReading{}, ""},
		"turned off by a value":    {annotations{"helm.sh/hook": ""}, hookReading{keep: true}, ""},
		"no value":                 {annotations{"argocd.argoproj.io/hook": nil}, hookReading{}, "argocd.argoproj.io/hook is empty"},
		"another moment":           {annotations{"helm.sh/hook": "pre-delete,post-rollback"}, hookReading{left: []string{"pre-delete", "post-rollback"}}, ""},
		"a part that is not run":   {annotations{"helm.sh/hook": "post-install,post-delete"}, hookReading{hook: &Hook{Phases: []HookPhase{PostSync}, Delete: byDefault}, left: []string{"post-delete"}}, ""},
		"Argo CD's":                {annotations{"argocd.argoproj.io/hook": "PreSync, Sync,SyncFail"}, hookReading{hook: &Hook{Phases: []HookPhase{PreSync, Sync, SyncFail}, Delete: byDefault}}, ""},
		"Argo CD's wins":           {annotations{"argocd.argoproj.io/hook": "Sync", "helm.sh/hook": "pre-install"}, hookReading{hook: &Hook{Phases: []HookPhase{Sync}, Delete: byDefault}}, ""},
		"ours wins":                {annotations{"trueup.dev/hook": "PostSync", "argocd.argoproj.io/hook": "Sync"}, hookReading{hook: &Hook{Phases: []HookPhase{PostSync}, Delete: byDefault}}, ""},
		"skipped":                  {annotations{"argocd.argoproj.io/hook": "Skip"}, hookReading{}, ""},
		"Argo CD's on deletion":    {annotations{"argocd.argoproj.io/hook": "PostDelete"}, hookReading{left: []string{"PostDelete"}}, ""},
		"weight and policies":      {annotations{"helm.sh/hook": "pre-install", "helm.sh/hook-weight": "-5", "helm.sh/hook-delete-policy": "hook-succeeded, hook-failed"}, hookReading{hook: &Hook{Phases: []HookPhase{PreSync}, Weight: -5, Delete: []HookDelete{HookSucceeded, HookFailed}}}, ""},
		"wave and policy":          {annotations{"argocd.argoproj.io/hook": "PreSync", "argocd.argoproj.io/sync-wave": "3", "argocd.argoproj.io/hook-delete-policy": "HookFailed"}, hookReading{hook: &Hook{Phases: []HookPhase{PreSync}, Weight: 3, Delete: []HookDelete{HookFailed}}}, ""},
		"deadline":                 {annotations{"trueup.dev/hook": "PreSync", "trueup.dev/hook-deadline": "2h"}, hookReading{hook: &Hook{Phases: []HookPhase{PreSync}, Delete: byDefault, Deadline: 2 * time.Hour}}, ""},
		"an unknown phase":         {annotations{"argocd.argoproj.io/hook": "presync"}, hookReading{}, `"presync" is no phase of a sync: use PreSync`},
		"an unknown Helm hook":     {annotations{"helm.sh/hook": "PreSync"}, hookReading{}, `"presync" is no phase of a sync: use pre-install`},
		"an unknown policy":        {annotations{"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "always"}, hookReading{}, `"always" is no delete policy`},
		"a weight that is none":    {annotations{"helm.sh/hook": "pre-install", "helm.sh/hook-weight": "first"}, hookReading{}, `helm.sh/hook-weight: "first" is no whole number`},
		"a weight without quotes":  {annotations{"helm.sh/hook": "pre-install", "helm.sh/hook-weight": int64(1)}, hookReading{}, "helm.sh/hook-weight must be a string: put it in quotes"},
		"a deadline that is none":  {annotations{"trueup.dev/hook": "PreSync", "trueup.dev/hook-deadline": "-1h"}, hookReading{}, "is no time such as 30m"},
		"a hook that is no string": {annotations{"trueup.dev/hook": true}, hookReading{}, "trueup.dev/hook must be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readHook(map[string]any{"metadata": map[string]any{"annotations": map[string]any(c.annotations)}})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("want an error with %q, got %v", c.err, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := gocmp.Diff(c.want, got, gocmp.AllowUnexported(hookReading{})); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func hookPod(name, annotations string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  " + name + "\n  annotations: {" + annotations + "}\n"
}

func TestHooksOfAFolder(t *testing.T) {
	render := func(files map[string]string) (*Rendered, error) {
		return RenderDir(t.Context(), writeFiles(t, files), "app", Options{})
	}
	rendered, err := render(map[string]string{
		"app/a.yaml": hookPod("name: a", "argocd.argoproj.io/hook: PreSync") + "---\n" + hookPod("generateName: b-", "helm.sh/hook: post-install") + "---\n" +
			hookPod("name: c", "argocd.argoproj.io/hook: Skip") + "---\n" + hookPod("name: d", "helm.sh/hook: pre-delete") + "---\n" + hookPod("name: e", "x: y"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range rendered.Objects {
		text := o.GetName() + o.GetGenerateName()
		if o.Hook != nil {
			text += " " + string(o.Hook.Phases[0])
		}
		got = append(got, text)
	}
	if d := gocmp.Diff([]string{"a PreSync", "b- PostSync", "e"}, got); d != "" {
		t.Errorf("objects: -want +got:\n%s", d)
	}
	if d := gocmp.Diff([]string{"hooks are left out that are not for a sync: Pod d (pre-delete)"}, rendered.Warnings); d != "" {
		t.Errorf("warnings: -want +got:\n%s", d)
	}

	rendered, err = render(map[string]string{"app/kustomization.yaml": "resources: [a.yaml]\nnamePrefix: x-\n", "app/a.yaml": hookPod("name: a", "argocd.argoproj.io/hook: PreSync")})
	if err != nil || len(rendered.Objects) != 1 || rendered.Objects[0].Hook == nil || rendered.Objects[0].GetName() != "x-a" {
		t.Errorf("a kustomization's hook: got %+v, %v", rendered, err)
	}
	rendered, err = render(map[string]string{"app/a.yaml": hookPod("name: a", "helm.sh/hook: test")})
	if err != nil || len(rendered.Objects) != 0 || !strings.Contains(rendered.Empty, "nothing but hooks") {
		t.Errorf("nothing but a test: got %+v, %v", rendered, err)
	}
	for name, c := range map[string]struct{ content, want string }{
		"an unknown phase":  {chartConfigMap + "---\n" + hookPod("name: a", "argocd.argoproj.io/hook: Before"), `app/a.yaml:6: the annotation argocd.argoproj.io/hook: "Before" is no phase`},
		"an unknown policy": {hookPod("name: a", "helm.sh/hook: pre-install, helm.sh/hook-delete-policy: never"), `app/a.yaml:1: the annotation helm.sh/hook-delete-policy: "never" is no delete policy`},
		"no name":           {hookPod("generateName: a-", "x: y"), "app/a.yaml:1: Pod with metadata.generateName"},
	} {
		if _, err := render(map[string]string{"app/a.yaml": c.content}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want an error with %q, got %v", name, c.want, err)
		}
	}
}

func TestAHookOfAChartMustBeTheSameInEachRender(t *testing.T) {
	chart := func(name string) string {
		return writeChart(t, map[string]string{"chart/templates/a.yaml": hookPod(name, `helm.sh/hook: pre-install, random: {{ randAlpha 5 | quote }}`)})
	}
	rendered, err := RenderDir(t.Context(), chart("generateName: migrate-"), "chart", Options{})
	if err != nil || len(rendered.Objects) != 1 || rendered.Objects[0].Hook == nil {
		t.Errorf("a hook with a random annotation: got %+v, %v", rendered, err)
	}
	_, err = RenderDir(t.Context(), chart("name: migrate-{{ randAlpha 5 | lower }}"), "chart", Options{})
	if want := "is a hook that is another object in each render"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("want an error with %q, got %v", want, err)
	}
}

func TestHooksOfTheChartsOfAKustomization(t *testing.T) {
	for options, want := range map[string]int{"": 1, ", skipHooks: true": 0} {
		rendered, err := RenderDir(t.Context(), writeFiles(t, map[string]string{
			"app/kustomization.yaml":       "helmGlobals: {chartHome: .}\nhelmCharts: [{name: c, releaseName: c" + options + "}]\n",
			"app/c/Chart.yaml":             "apiVersion: v2\nname: c\nversion: 1.0.0\n",
			"app/c/templates/a.yaml":       chartConfigMap,
			"app/c/templates/migrate.yaml": hookPod("name: a", "helm.sh/hook: pre-install"),
		}), "app", Options{})
		if err != nil {
			t.Fatal(err)
		}
		hooks := 0
		for _, o := range rendered.Objects {
			if o.Hook != nil {
				hooks++
			}
		}
		if hooks != want || len(rendered.Objects) != want+1 {
			t.Errorf("with%s: want %d hooks, got %d among %d objects", options, want, hooks, len(rendered.Objects))
		}
	}
}
