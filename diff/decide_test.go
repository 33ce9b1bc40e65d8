package diff

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// field is a path of field names.
func field(names ...string) fieldpath.Path {
	var p fieldpath.Path
	for _, n := range names {
		p = append(p, fieldpath.FieldNameElement(n))
	}
	return p
}

func lossOf(o Owner, names ...string) Loss {
	return Loss{Path: field(names...), Pointer: names, Owner: o}
}

func updater(name string) Owner { return Owner{Manager: name, Operation: "Update"} }
func applier(name string) Owner { return Owner{Manager: name, Operation: "Apply"} }
func scaler(name string) Owner {
	return Owner{Manager: name, Operation: "Update", Subresource: "scale"}
}

func policy(v Verdict, adjust ...func(*Policy)) Policy {
	p := Policy{Verdict: v, Source: "spec.fieldPolicies[0]"}
	for _, f := range adjust {
		f(&p)
	}
	return p
}

func TestDecide(t *testing.T) {
	web := ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	webhook := ID{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration", Name: "hook"}
	role := ID{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "sum"}
	until := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	contested := func(string, Owner) (Fight, bool) { return Fight{Count: 4, Until: until}, true }
	calm := func(string, Owner) (Fight, bool) { return Fight{}, false }
	replicas := []string{"spec", "replicas"}
	image := []string{"spec", "image"}
	bundle := []string{"webhooks", "clientConfig", "caBundle"}
	for name, c := range map[string]struct {
		loss Loss
		ctx  Context
		want Decision
	}{
		"a person's change is undone": {
			lossOf(updater("kubectl-edit"), image...), Context{Object: web},
			Decision{Enforce, "person", "changed by kubectl-edit"},
		},
		"a person who applies is a person": {
			lossOf(applier("kubectl"), image...), Context{Object: web},
			Decision{Enforce, "person", "changed by kubectl"},
		},
		"a person's scaling without an autoscaler is undone": {
			lossOf(scaler("kubectl"), replicas...), Context{Object: web},
			Decision{Enforce, "person", "changed by kubectl (scale)"},
		},
		"with an autoscaler the size is the autoscaler's, whoever wrote it last": {
			lossOf(scaler("kubectl"), replicas...), Context{Object: web, Autoscaler: "HorizontalPodAutoscaler shop/web"},
			Decision{Yield, "autoscaler", "replicas is the HPA's: HorizontalPodAutoscaler shop/web scales this object"},
		},
		"KEDA by its name": {
			lossOf(scaler("keda-operator"), replicas...), Context{Object: web, Autoscaler: "ScaledObject shop/web"},
			Decision{Yield, "autoscaler", "replicas is the ScaledObject's: ScaledObject shop/web scales this object"},
		},
		"an autoscaler has nothing but the size": {
			lossOf(updater("kubectl-edit"), image...), Context{Object: web, Autoscaler: "HorizontalPodAutoscaler shop/web"},
			Decision{Enforce, "person", "changed by kubectl-edit"},
		},
		"a policy comes before an autoscaler": {
			lossOf(scaler("kube-controller-manager"), replicas...), Context{Object: web, Autoscaler: "HorizontalPodAutoscaler shop/web", Policies: []Policy{policy(Enforce)}},
			Decision{Enforce, "policy", "spec.fieldPolicies[0] says so: kube-controller-manager (scale)"},
		},
		"the first policy that matches": {
			lossOf(updater("operator"), image...), Context{Object: web, Policies: []Policy{policy(Hold, func(p *Policy) { p.Kind = "Service" }), policy(Yield), policy(Hold)}},
			Decision{Yield, "policy", "spec.fieldPolicies[0] says so: operator"},
		},
		"Trueup's own marks come before a policy": {
			lossOf(updater("operator"), "metadata", "labels", "trueup.dev/app"), Context{Object: web, Policies: []Policy{policy(Yield)}},
			Decision{Enforce, "own", "Trueup's own mark, changed by operator"},
		},
		"other labels are no marks": {
			lossOf(updater("operator"), "metadata", "labels", "team"), Context{Object: web, Policies: []Policy{policy(Yield)}},
			Decision{Yield, "policy", "spec.fieldPolicies[0] says so: operator"},
		},
		"an injected caBundle": {
			lossOf(updater("cainjector"), bundle...), Context{Object: webhook},
			Decision{Yield, "injector", "caBundle is injected by cainjector"},
		},
		"a caBundle by whatever controller or applier": {
			lossOf(applier("some-operator"), bundle...), Context{Object: webhook},
			Decision{Yield, "injector", "caBundle is injected by some-operator"},
		},
		"a caBundle that a person edited": {
			lossOf(updater("kubectl-edit"), bundle...), Context{Object: webhook},
			Decision{Enforce, "person", "changed by kubectl-edit"},
		},
		"a caBundle that was removed": {
			lossOf(Owner{}, bundle...), Context{Object: webhook},
			Decision{Enforce, "default", "removed"},
		},
		"a field called caBundle of another kind": {
			lossOf(updater("operator"), bundle...), Context{Object: web},
			Decision{Enforce, "default", "changed by operator"},
		},
		"the rules of an aggregated ClusterRole": {
			lossOf(updater("clusterrole-aggregation-controller"), "rules"), Context{Object: role},
			Decision{Yield, "aggregation", "rules are filled by clusterrole-aggregation-controller from aggregationRule"},
		},
		"the rules of a ClusterRole that a person edited": {
			lossOf(updater("kubectl-edit"), "rules"), Context{Object: role},
			Decision{Enforce, "person", "changed by kubectl-edit"},
		},
		"another applier is not forced": {
			lossOf(applier("argocd-controller"), image...), Context{Object: web},
			Decision{Hold, "applier", "argocd-controller applies this field too: give it up on one side, or set a field policy"},
		},
		"another applier, when the object is taken over": {
			lossOf(applier("argocd-controller"), image...), Context{Object: web, Adopting: true},
			Decision{Enforce, "default", "changed by argocd-controller"},
		},
		"an applier comes before a fight": {
			lossOf(applier("argocd-controller"), image...), Context{Object: web, Contested: contested},
			Decision{Hold, "applier", "argocd-controller applies this field too: give it up on one side, or set a field policy"},
		},
		"a field that is fought about": {
			lossOf(updater("operator"), image...), Context{Object: web, Contested: contested},
			Decision{Hold, "contested", "contested: operator took it back 4 times; held until 2030-01-01T12:00:00Z"},
		},
		"a field that is removed again and again": {
			lossOf(Owner{}, image...), Context{Object: web, Contested: contested},
			Decision{Hold, "contested", "contested: somebody removed it 4 times; held until 2030-01-01T12:00:00Z"},
		},
		"a fight with a person's tool": {
			lossOf(updater("kubectl-edit"), image...), Context{Object: web, Contested: contested},
			Decision{Hold, "contested", "contested: kubectl-edit took it back 4 times; held until 2030-01-01T12:00:00Z"},
		},
		"a fight that is over": {
			lossOf(updater("operator"), image...), Context{Object: web, Contested: calm},
			Decision{Enforce, "default", "changed by operator"},
		},
		"a removed field": {
			lossOf(Owner{}, image...), Context{Object: web},
			Decision{Enforce, "default", "removed"},
		},
		"a size without an owner": {
			lossOf(Owner{}, replicas...), Context{Object: web},
			Decision{Enforce, "default", "scaled to 0; the API server does not note by whom"},
		},
		"beyond ten managers": {
			lossOf(updater(Ancient), image...), Context{Object: web},
			Decision{Enforce, "default", "changed by an unknown manager (ancient-changes)"},
		},
		"without managed fields": {
			lossOf(updater(BeforeFirst), image...), Context{Object: web},
			Decision{Enforce, "default", "changed by an unknown manager (before-first-apply)"},
		},
		"what was handed over is taken back": {
			lossOf(applier("trueup-released"), replicas...), Context{Object: web},
			Decision{Enforce, "default", "declared in Git again"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, Decide(c.loss, c.ctx)); d != "" {
				t.Errorf("decision (-want +got):\n%s", d)
			}
		})
	}
}

func TestClassOf(t *testing.T) {
	for manager, want := range map[string]Class{
		"kubectl": Person, "kubectl-edit": Person, "kubectl-client-side-apply": Person, "Lens": Person, "headlamp-server": Person,
		"cainjector": Injector, "trueup-released": Released,
		"": "", "kubectlx": "", "kube-controller-manager": "", "argocd-controller": "", "trueup": "", "Kubectl": "",
	} {
		if got := ClassOf(manager); got != want {
			t.Errorf("ClassOf(%q): want %q, got %q", manager, want, got)
		}
	}
	for _, k := range KnownOwners {
		if k.Source == "" || k.Class == "" || k.Manager == "" {
			t.Errorf("a row of the table is not filled: %+v", k)
		}
	}
}
