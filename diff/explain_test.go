package diff

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const manager = "trueup"

// entry is one entry of managed fields, an Update of the main resource unless its manager applies.
func entry(name, operation, subresource, fields string) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	e := metav1.ManagedFieldsEntry{
		Manager: name, Operation: metav1.ManagedFieldsOperationType(operation), Subresource: subresource,
		APIVersion: "apps/v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{},
	}
	e.FieldsV1.SetRawBytes([]byte(fields))
	return e
}

func deployment(spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "labels": map[string]any{"tier": "front"}},
		"spec":     spec,
	}
}

func TestExplain(t *testing.T) {
	const labels = `"f:metadata":{"f:labels":{"f:tier":{}}}`
	ours := func(spec string) metav1.ManagedFieldsEntry {
		return entry(manager, "Apply", "", "{"+labels+`,"f:spec":{`+spec+"}}")
	}
	replicas := map[string]any{"replicas": int64(2), "paused": false}
	pathOf := func(s string) []PathPattern {
		p, err := ParsePath(s)
		if err != nil {
			t.Fatal(err)
		}
		return []PathPattern{p}
	}
	const tier = ".metadata.labels.tier: Apply trueup: Ours : as Git declares it"
	for sentence, c := range map[string]struct {
		spec    map[string]any
		entries []metav1.ManagedFieldsEntry
		context Context
		want    []string
	}{
		"what Git declares and nobody has touched is ours": {
			replicas, []metav1.ManagedFieldsEntry{ours(`"f:replicas":{},"f:paused":{}`)}, Context{},
			[]string{tier, ".spec.paused: Apply trueup: Ours : as Git declares it", ".spec.replicas: Apply trueup: Ours : as Git declares it"},
		},
		"Trueup's own marks are ours, though Git does not declare them": {
			map[string]any{"paused": false},
			[]metav1.ManagedFieldsEntry{entry(manager, "Apply", "", `{"f:metadata":{"f:annotations":{"f:trueup.dev/applied":{}},"f:labels":{"f:tier":{}}},"f:spec":{"f:paused":{}}}`)}, Context{},
			[]string{".metadata.annotations.trueup.dev/applied: Apply trueup: Ours own: Trueup's own mark", tier, ".spec.paused: Apply trueup: Ours : as Git declares it"},
		},
		"a person's change is put back": {
			replicas, []metav1.ManagedFieldsEntry{ours(`"f:paused":{}`), entry("kubectl", "Update", "scale", `{"f:spec":{"f:replicas":{}}}`)}, Context{},
			[]string{tier, ".spec.paused: Apply trueup: Ours : as Git declares it", ".spec.replicas: Update kubectl (scale): Enforce person: changed by kubectl (scale)"},
		},
		"an autoscaler has the replicas, and what is removed is put back": {
			map[string]any{"replicas": int64(2), "paused": false, "minReadySeconds": int64(5)},
			[]metav1.ManagedFieldsEntry{ours(`"f:minReadySeconds":{}`), entry("kube-controller-manager", "Update", "scale", `{"f:spec":{"f:replicas":{}}}`)},
			Context{Autoscaler: "HorizontalPodAutoscaler shop/web"},
			[]string{tier, ".spec.minReadySeconds: Apply trueup: Ours : as Git declares it", ".spec.paused:  nobody: Enforce default: removed",
				".spec.replicas: Update kube-controller-manager (scale): Yield autoscaler: replicas is the HPA's: HorizontalPodAutoscaler shop/web scales this object"},
		},
		"another applier's field is held, and a shared one is told": {
			replicas, []metav1.ManagedFieldsEntry{ours(`"f:replicas":{}`), entry("flux", "Apply", "", `{"f:spec":{"f:replicas":{},"f:paused":{}}}`)}, Context{},
			[]string{tier, ".spec.paused: Apply flux: Hold applier: flux applies this field too: give it up on one side, or set a field policy",
				".spec.replicas: Apply trueup: Ours shared: as Git declares it, and flux has set the same value"},
		},
		"a policy is named": {
			replicas, []metav1.ManagedFieldsEntry{ours(`"f:paused":{}`), entry("tuner", "Update", "", `{"f:spec":{"f:replicas":{}}}`)},
			Context{Policies: []Policy{{Paths: pathOf(".spec.replicas"), Verdict: Hold, Source: "spec.fieldPolicies[0]"}}},
			[]string{tier, ".spec.paused: Apply trueup: Ours : as Git declares it", ".spec.replicas: Update tuner: Hold policy: spec.fieldPolicies[0] says so: tuner"},
		},
		"what a person added is taken away, but for labels and annotations; what a controller added is not told": {
			map[string]any{"paused": false},
			[]metav1.ManagedFieldsEntry{
				ours(`"f:paused":{}`),
				entry("kubectl-edit", "Update", "", `{"f:metadata":{"f:annotations":{"f:note":{}}},"f:spec":{"f:minReadySeconds":{}}}`),
				entry("controller", "Update", "", `{"f:spec":{"f:progressDeadlineSeconds":{}}}`),
			}, Context{},
			[]string{".metadata.annotations.note: Update kubectl-edit: Yield extra: not in Git, added by kubectl-edit: left as it is", tier,
				".spec.minReadySeconds: Update kubectl-edit: Enforce extra: not in Git, added by kubectl-edit: taken away",
				".spec.paused: Apply trueup: Ours : as Git declares it"},
		},
		"of what has left Git the replicas keep their value, and the rest is taken away": {
			map[string]any{"minReadySeconds": int64(5)}, []metav1.ManagedFieldsEntry{ours(`"f:minReadySeconds":{},"f:replicas":{},"f:paused":{}`)}, Context{},
			[]string{tier, ".spec.minReadySeconds: Apply trueup: Ours : as Git declares it", ".spec.paused: Apply trueup: Enforce not-git: no longer in Git: taken away",
				".spec.replicas: Apply trueup: Yield hand-off: no longer in Git: it keeps the value that it has"},
		},
		"replicas in Git are handed over once an autoscaler is there": {
			replicas, []metav1.ManagedFieldsEntry{ours(`"f:replicas":{},"f:paused":{}`)}, Context{Autoscaler: "ScaledObject shop/web"},
			[]string{tier, ".spec.paused: Apply trueup: Ours : as Git declares it",
				".spec.replicas: Apply trueup: Yield hand-off: about to be left to whoever takes it, with the value that it has"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := Desired{Digest: "git", Config: func() (map[string]any, error) { return deployment(c.spec), nil }}
			o := Observed{Exists: true, Applied: Applied{Config: "before"}, Managed: c.entries}
			c.context.Object = ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
			fields, err := Explain(d, o, c.context, manager)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range fields {
				got = append(got, fmt.Sprintf("%s: %s %s: %s %s: %s", f.Path, f.Owner.Operation, f.Owner, f.Verdict, f.Rule, f.Reason))
				if (f.Owner != Owner{}) && f.Owner.Time.Year() != 2026 {
					t.Errorf("%s: since %s", f.Path, f.Owner.Time)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestAnObjectThatIsNotThereHasNoFields(t *testing.T) {
	fields, err := Explain(Desired{}, Observed{}, Context{}, manager)
	if err != nil || fields != nil {
		t.Errorf("got %v, %v", fields, err)
	}
}

func TestEveryRuleSaysWhatItDoes(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if r.Name == "" || seen[r.Name] || r.Says == "" || r.Says[len(r.Says)-1] != '.' {
			t.Errorf("the rule %q says %q", r.Name, r.Says)
		}
		seen[r.Name] = true
	}
	if rules := Rules(); rules[len(rules)-1].Name != "default" {
		t.Errorf("the last rule is %q, and not the one that always decides", rules[len(rules)-1].Name)
	}
}

func TestAnObjectInSyncIsOursInAllFields(t *testing.T) {
	d := Desired{Digest: "git", Config: func() (map[string]any, error) { return deployment(map[string]any{"replicas": int64(2)}), nil }}
	entries := []metav1.ManagedFieldsEntry{entry(manager, "Apply", "", `{"f:metadata":{"f:labels":{"f:tier":{}}},"f:spec":{"f:replicas":{}}}`)}
	o := Observed{Exists: true, Applied: Applied{Config: "git", Fields: "all"}, Fields: "all", Managed: entries}
	fields, err := Explain(d, o, Context{Object: ID{Kind: "Deployment"}}, manager)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		if f.Verdict != Ours {
			t.Errorf("%s: %s, %s", f.Path, f.Verdict, f.Reason)
		}
	}
	if len(fields) != 2 {
		t.Errorf("%d fields", len(fields))
	}
}
