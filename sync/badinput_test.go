package sync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/sync/v1alpha1"
	"github.com/trueup/trueup/testdata/gitserver"
	"github.com/trueup/trueup/testdata/kubetest"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// settings is a ConfigMap with one value.
func settings(name, mode string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  mode: %s\n", name, mode)
}

// on is the same world for a subtest.
func (w *world) on(t testing.TB) *world {
	sub := *w
	sub.t = t
	return &sub
}

// edit changes a ConfigMap as a person with kubectl does.
func (w *world) edit(name, mode string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"data":{"mode":%q}}`, mode)
	_, err := w.clients.Dynamic.Resource(configMaps).Namespace(w.ns).Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		w.t.Fatal(err)
	}
}

// setting returns the value of a ConfigMap, "" where there is none.
func (w *world) setting(name string) string {
	w.t.Helper()
	return w.kubectl("get", "configmap", name, "--ignore-not-found", "-o", "jsonpath={.data.mode}")
}

// heals edits a ConfigMap and waits until it is as it was.
func (w *world) heals(name string) {
	w.t.Helper()
	before := w.setting(name)
	w.edit(name, "edited")
	kubetest.Eventually(w.t, patience, func() error {
		if got := w.setting(name); got != before {
			return fmt.Errorf("ConfigMap %s has %q, want %q again", name, got, before)
		}
		return nil
	})
}

// changes are those of writes that were no dry-run.
func (w *world) changes(since kubetest.AuditMark) []kubetest.AuditEvent {
	w.t.Helper()
	return slices.DeleteFunc(w.writes(since), func(e kubetest.AuditEvent) bool { return strings.Contains(e.URI, "dryRun=All") })
}

// says wants a condition to be false with all the words in its message, and the sum of it in Ready.
func says(condition string, words ...string) func(*v1alpha1.Application) error {
	return func(app *v1alpha1.Application) error {
		c := meta.FindStatusCondition(app.Status.Conditions, condition)
		ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionFalse || ready.Status != metav1.ConditionFalse {
			return fmt.Errorf("want the conditions %s and Ready to be False", condition)
		}
		for _, w := range words {
			if !strings.Contains(c.Message, w) || !strings.Contains(ready.Message, w) {
				return fmt.Errorf("want the conditions %s and Ready to say %q", condition, w)
			}
		}
		return nil
	}
}

// bad is one mistake in a commit on top of a good one.
type bad struct {
	files     map[string]string
	links     map[string]string
	remove    []string
	condition string
	says      []string // NS stands for the namespace
	resources []string // names of the objects that are listed with an error
}

func aliasBomb() string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

// mistakes are by the folder in which they are made; each folder has the ConfigMaps FOLDER and FOLDER-next.
var mistakes = map[string]bad{
	"invalid-yaml": {
		files:     map[string]string{"bad.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n data: 1\n"},
		condition: v1alpha1.ConditionRendered, says: []string{"invalid-yaml/bad.yaml:5: invalid YAML"},
	},
	"no-kind": {
		files:     map[string]string{"bad.yaml": "# a comment\napiVersion: v1\nmetadata: {name: x}\n"},
		condition: v1alpha1.ConditionRendered, says: []string{"no-kind/bad.yaml:2: object without kind"},
	},
	"no-name": {
		files:     map[string]string{"bad.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {a: b}}\n"},
		condition: v1alpha1.ConditionRendered, says: []string{"no-name/bad.yaml:1: ConfigMap without metadata.name"},
	},
	"twice": {
		files:     map[string]string{"again.yaml": settings("twice", "again")},
		condition: v1alpha1.ConditionRendered, says: []string{"ConfigMap NS/twice is declared twice: in twice/again.yaml:1 and in twice/settings.yaml:1"},
	},
	"huge-file": {
		files:     map[string]string{"bad.yaml": settings("huge", strings.Repeat("x", 50<<20))},
		condition: v1alpha1.ConditionRendered, says: []string{"huge-file/bad.yaml has 50 MiB, more than the 10 MiB"},
	},
	"alias-bomb": {
		files:     map[string]string{"bad.yaml": aliasBomb()},
		condition: v1alpha1.ConditionRendered, says: []string{"alias-bomb/bad.yaml:1: aliases expand to too much data"},
	},
	"deep-nesting": {
		files:     map[string]string{"bad.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: deep}\ndata:\n  x: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "\n"},
		condition: v1alpha1.ConditionRendered, says: []string{"deep-nesting/bad.yaml:5: nested more than 512 levels deep"},
	},
	"deep-kustomize": {
		files: map[string]string{
			"kustomization.yaml": "namePrefix: x-\nresources: [bad.yaml]\n",
			"bad.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: deep}\ndata:\n  x: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "\n",
		},
		condition: v1alpha1.ConditionRendered, says: []string{"deep-kustomize/bad.yaml:5: nested more than 512 levels deep"},
	},
	"kustomize-cycle": {
		files:     map[string]string{"kustomization.yaml": "resources: [below]\n", "below/kustomization.yaml": "resources: [..]\n"},
		condition: v1alpha1.ConditionRendered, says: []string{"kustomize-cycle/kustomization.yaml", "cycle detected"},
	},
	"kustomize-climbs": {
		files:     map[string]string{"kustomization.yaml": "configMapGenerator: [{name: x, files: [../../../../etc/passwd]}]\n"},
		condition: v1alpha1.ConditionRendered, says: []string{"kustomize-climbs/kustomization.yaml", "leaves the repository"},
	},
	"jsonnet-climbs": {
		files:     map[string]string{"bad.jsonnet": "\nimportstr '../../../../etc/passwd'\n"},
		condition: v1alpha1.ConditionRendered, says: []string{"jsonnet-climbs/bad.jsonnet:2: import of ../../../../etc/passwd", "leaves the repository"},
	},
	"link-out": {
		links:     map[string]string{"bad.yaml": "/etc/passwd"},
		condition: v1alpha1.ConditionRendered, says: []string{"link-out/bad.yaml is a symbolic link that leaves the repository"},
	},
	"path-gone": {
		remove:    []string{"path-gone"},
		condition: v1alpha1.ConditionRendered, says: []string{`path "path-gone" does not exist`},
	},
	"unknown-field": {
		files:     map[string]string{"bad.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: bad\nspec:\n  portz: []\n"},
		condition: v1alpha1.ConditionApplied, says: []string{"unknown-field/bad.yaml:1", "Service NS/bad", ".spec.portz", "nothing was changed"}, resources: []string{"bad"},
	},
	"wrong-type": {
		files:     map[string]string{"bad.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: bad\nspec:\n  ports: http\n"},
		condition: v1alpha1.ConditionApplied, says: []string{"wrong-type/bad.yaml:1", "Service NS/bad", ".spec.ports", "nothing was changed"}, resources: []string{"bad"},
	},
	"invalid-value": {
		files:     map[string]string{"bad.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: bad\nspec:\n  ports: [{port: 100000}]\n"},
		condition: v1alpha1.ConditionApplied, says: []string{"invalid-value/bad.yaml:1", "Service NS/bad", "spec.ports[0].port", "nothing was changed"}, resources: []string{"bad"},
	},
	"admission": {
		files:     map[string]string{"bad.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: refused\n  labels: {forbidden: here}\n"},
		condition: v1alpha1.ConditionApplied, says: []string{"admission/bad.yaml:1", "ConfigMap NS/refused", "not in this house", "nothing was changed"}, resources: []string{"refused"},
	},
	"unknown-kind": {
		files:     map[string]string{"bad.yaml": "apiVersion: NS.example.com/v1\nkind: Nothing\nmetadata:\n  name: unknown\n"},
		condition: v1alpha1.ConditionApplied, says: []string{"unknown-kind/bad.yaml:1", "the cluster serves no NS.example.com/v1 Nothing: apply its CustomResourceDefinition", "nothing was changed"}, resources: []string{"unknown"},
	},
	"forbidden-kind": {
		files:     map[string]string{"bad.yaml": "apiVersion: NS.example.com/v1\nkind: Vault\nmetadata:\n  name: secretive\n"},
		condition: v1alpha1.ConditionApplied, says: []string{"forbidden-kind/bad.yaml:1", "Vault", "forbidden", "trueup install --allow", "nothing was changed"}, resources: []string{"secretive"},
	},
	"several": {
		files: map[string]string{
			"bad-a.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: bad-a}\nspec: {portz: []}\n",
			"bad-b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad-b}\ndata: [1]\n",
			"good.yaml":  settings("several-good", "new"),
		},
		condition: v1alpha1.ConditionApplied, says: []string{"2 of 5 objects refused", "several/bad-a.yaml:1", "several/bad-b.yaml:1"}, resources: []string{"bad-a", "bad-b"},
	},
}

func TestBadCommitChangesNothingAndTheLastGoodStateRunsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseLabel("forbidden", "not in this house")
	w.definition("vaults", "Vault", "")
	good := map[string]string{}
	for folder := range mistakes {
		good[folder+"/settings.yaml"] = settings(folder, "good")
		good[folder+"/next.yaml"] = settings(folder+"-next", "good")
	}
	first := w.git.Commit(good, "all is well")
	for folder := range mistakes {
		w.app(folder)
	}
	for folder := range mistakes {
		w.until(folder, synced(first))
	}

	mark := w.AuditMark(t)
	second := w.git.CommitTo(gitserver.DefaultBranch, "mistakes", w.makeMistakes()...)
	for folder, b := range mistakes {
		t.Run(folder, func(t *testing.T) {
			w := w.on(t)
			words := slices.Clone(b.says)
			for i := range words {
				words[i] = strings.ReplaceAll(words[i], "NS", w.ns)
			}
			app := w.until(folder, says(b.condition, words...))
			if s := app.Status.Sync; s.SyncedRevision != first || s.Status == v1alpha1.Synced {
				t.Errorf("want the commit %.7s to be the last that was synced, and the Application not Synced, got %+v", first, s)
			}
			if b.condition == v1alpha1.ConditionRendered && (app.Status.Sync.FailedRevision != second || app.Status.Sync.Revision != first) {
				t.Errorf("want revision %.7s and the failed revision %.7s, got %+v", first, second, app.Status.Sync)
			}
			for _, name := range b.resources {
				if !slices.ContainsFunc(app.Status.Resources, func(r v1alpha1.ResourceStatus) bool { return r.Name == name && r.Message != "" && r.Reason != "" }) {
					t.Errorf("want %s in status.resources with its error, got %+v", name, app.Status.Resources)
				}
			}
		})
	}
	if got := w.changes(mark); len(got) != 0 {
		t.Errorf("the commit is broken in every folder, yet the agent wrote %v", got)
	}
	for folder := range mistakes {
		w.heals(folder)
		if got := w.setting(folder + "-next"); got != "good" {
			t.Errorf("ConfigMap %s-next has %q, though its commit was refused", folder, got)
		}
	}

	var repair []gitserver.Change
	for folder, b := range mistakes {
		for name := range b.files {
			repair = append(repair, gitserver.Change{Path: folder + "/" + name, Delete: true})
		}
		for name := range b.links {
			repair = append(repair, gitserver.Change{Path: folder + "/" + name, Delete: true})
		}
		repair = append(repair, gitserver.Change{Path: folder + "/next.yaml", Content: settings(folder+"-next", "repaired")})
	}
	third := w.git.CommitTo(gitserver.DefaultBranch, "repair", repair...)
	for folder := range mistakes {
		w.until(folder, synced(third))
		if got := w.setting(folder + "-next"); got != "repaired" {
			t.Errorf("ConfigMap %s-next has %q after the repair", folder, got)
		}
	}
}

// makeMistakes are the changes of one commit that breaks every folder, and besides has a link that leaves the
// repository where nobody looks.
func (w *world) makeMistakes() []gitserver.Change {
	changes := []gitserver.Change{{Path: "elsewhere/passwd.yaml", Content: "/etc/passwd", Symlink: true}}
	for folder, b := range mistakes {
		for name, content := range b.files {
			changes = append(changes, gitserver.Change{Path: folder + "/" + name, Content: strings.ReplaceAll(content, "NS", w.ns)})
		}
		for name, target := range b.links {
			changes = append(changes, gitserver.Change{Path: folder + "/" + name, Content: target, Symlink: true})
		}
		for _, path := range b.remove {
			changes = append(changes, gitserver.Change{Path: path, Delete: true})
		}
		if b.remove == nil {
			changes = append(changes, gitserver.Change{Path: folder + "/next.yaml", Content: settings(folder+"-next", "bad")})
		}
	}
	return changes
}

// refuseLabel makes admission refuse ConfigMaps of the namespace that have a label.
func (w *world) refuseLabel(label, message string) {
	w.t.Helper()
	w.Kubectl(w.t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations:
    - expression: '!has(object.metadata.labels) || !(%[2]q in object.metadata.labels)'
      message: %[3]q
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
`, w.ns, label, message), "apply", "-f", "-")
	w.t.Cleanup(func() {
		_, _ = w.TryKubectl(context.Background(), "", "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", w.ns)
	})
	kubetest.Eventually(w.t, patience, func() error { // the API server takes a moment to see the policy
		manifest := fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: probe, labels: {%q: x}}}", label)
		_, err := w.TryKubectl(w.t.Context(), manifest, "-n", w.ns, "create", "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), message) {
			return fmt.Errorf("creating a ConfigMap with the label %s: got %v, want the policy's refusal", label, err)
		}
		return nil
	})
}

// definition makes a CustomResourceDefinition of the group NAMESPACE.example.com.
func (w *world) definition(plural, kind, spec string) {
	w.t.Helper()
	w.Kubectl(w.t, definitionManifest(w.ns, plural, kind, spec), "apply", "-f", "-")
	name := plural + "." + w.ns + ".example.com"
	w.t.Cleanup(func() { _, _ = w.TryKubectl(context.Background(), "", "delete", "crd", name, "--wait=false") })
	w.Kubectl(w.t, "", "wait", "--for=condition=Established", "crd/"+name, "--timeout=30s")
}

// definitionManifest defines a kind of the group NAMESPACE.example.com; spec are the properties of its spec.
func definitionManifest(ns, plural, kind, spec string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]s.%[3]s.example.com
spec:
  group: %[3]s.example.com
  scope: Namespaced
  names: {plural: %[1]s, singular: %[4]s, kind: %[2]s}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties: {%[5]s}
`, plural, kind, ns, strings.ToLower(kind), spec)
}

// allow lets the agent manage the group NAMESPACE.example.com.
func (w *world) allow() {
	w.t.Helper()
	name := "trueup-managed-" + w.ns
	w.Kubectl(w.t, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %s, labels: {trueup.dev/aggregate-to-managed: "true"}}
rules: [{apiGroups: [%s.example.com], resources: ["*"], verbs: [get, list, watch, create, patch, delete]}]
`, name, w.ns), "apply", "-f", "-")
	w.t.Cleanup(func() { _, _ = w.TryKubectl(context.Background(), "", "delete", "clusterrole", name) })
}
