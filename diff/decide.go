package diff

import (
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Verdict is what to do about one field.
type Verdict string

const (
	// Enforce puts Git's value back.
	Enforce Verdict = "Enforce"
	// Yield leaves the field to its owner; it counts as in sync.
	Yield Verdict = "Yield"
	// Hold touches nothing and counts as out of sync.
	Hold Verdict = "Hold"
)

// Decision is a verdict with the rule that gave it and a reason for a person.
type Decision struct {
	Verdict Verdict
	Rule    string
	Reason  string
}

// Context is what a decision depends on besides the loss itself.
type Context struct {
	Object   ID
	Policies []Policy
	// Autoscaler names what scales the object, such as "HorizontalPodAutoscaler shop/web"; "" where nothing does.
	Autoscaler string
	// Adopting takes over the object from whoever had it, by a person's word.
	Adopting bool
	// Contested returns until when the field is held because its owner keeps taking it back, and how often it did.
	Contested func(path string, o Owner) (Fight, bool)
}

// Fight is a field that is held because its owner keeps taking it back.
type Fight struct {
	Count int
	Until time.Time
}

// rule looks at a loss and decides, or says that it has nothing to say.
type rule struct {
	name   string
	decide func(Loss, Context) (Decision, bool)
}

// RuleContested is the rule that holds a field because its owner keeps taking it back.
const RuleContested = "contested"

// chain is the order in which a loss is decided: the first rule that has something to say does.
var chain = []rule{
	{"policy", byPolicy},           // the Application's own policies, in their order
	{"autoscaler", byAutoscaler},   // the size of a workload that an autoscaler targets
	{"injector", byInjector},       // CA bundles
	{"aggregation", byAggregation}, // the rules of aggregated ClusterRoles
	{"applier", byApplier},         // another GitOps tool or operator that applies
	{RuleContested, byBreaker},     // an owner that takes the field back again and again
	{"person", byPerson},           // a person's tool
	{"default", byDefault},         // anybody else
}

// Decide returns what to do about a loss. It is pure: equal arguments give equal decisions.
func Decide(l Loss, c Context) Decision {
	for _, r := range chain {
		if d, ok := r.decide(l, c); ok {
			d.Rule = r.name
			return d
		}
	}
	return Decision{Verdict: Hold, Rule: "none", Reason: "no rule applies"} // not reached: the last rule always decides
}

func byPolicy(l Loss, c Context) (Decision, bool) {
	for _, p := range c.Policies {
		if p.Matches(c.Object, l) {
			return Decision{Verdict: p.Verdict, Reason: fmt.Sprintf("%s says so: %s", p.Source, l.Owner)}, true
		}
	}
	return Decision{}, false
}

func byAutoscaler(l Loss, c Context) (Decision, bool) {
	if c.Autoscaler == "" || !IsReplicas(l.Path) {
		return Decision{}, false
	}
	kind, _, _ := strings.Cut(c.Autoscaler, " ")
	if kind == "HorizontalPodAutoscaler" {
		kind = "HPA"
	}
	return Decision{Verdict: Yield, Reason: fmt.Sprintf("replicas is the %s's: %s scales this object", kind, c.Autoscaler)}, true
}

// IsReplicas reports whether p is the size of a workload.
func IsReplicas(p fieldpath.Path) bool { return len(p) == 2 && p.String() == ".spec.replicas" }

// bundleKinds are the kinds into which CA bundles are injected, by the last element of the field.
var bundleKinds = map[string]bool{
	"ValidatingWebhookConfiguration": true,
	"MutatingWebhookConfiguration":   true,
	"CustomResourceDefinition":       true,
	"APIService":                     true,
}

func byInjector(l Loss, c Context) (Decision, bool) {
	last := l.Path[len(l.Path)-1]
	if !bundleKinds[c.Object.Kind] || last.FieldName == nil || *last.FieldName != "caBundle" || l.Owner == (Owner{}) || ClassOf(l.Owner.Manager) == Person {
		return Decision{}, false
	}
	return Decision{Verdict: Yield, Reason: fmt.Sprintf("caBundle is injected by %s", l.Owner)}, true
}

func byAggregation(l Loss, c Context) (Decision, bool) {
	if c.Object.Kind != "ClusterRole" || l.Path.String() != ".rules" || l.Owner.Manager != "clusterrole-aggregation-controller" && l.Owner.Manager != "kube-controller-manager" {
		return Decision{}, false
	}
	return Decision{Verdict: Yield, Reason: fmt.Sprintf("rules are filled by %s from aggregationRule", l.Owner)}, true
}

func byApplier(l Loss, c Context) (Decision, bool) {
	class := ClassOf(l.Owner.Manager)
	if !l.Owner.Applies() || class == Person || class == Released || c.Adopting {
		return Decision{}, false
	}
	return Decision{Verdict: Hold, Reason: fmt.Sprintf("%s applies this field too: give it up on one side, or set a field policy", l.Owner)}, true
}

func byBreaker(l Loss, c Context) (Decision, bool) {
	if c.Contested == nil {
		return Decision{}, false
	}
	fight, ok := c.Contested(l.Path.String(), l.Owner)
	if !ok {
		return Decision{}, false
	}
	return Decision{Verdict: Hold, Reason: fmt.Sprintf("contested: %s took it back %d times; held until %s", l.Owner, fight.Count, fight.Until.UTC().Format(time.RFC3339))}, true
}

func byPerson(l Loss, _ Context) (Decision, bool) {
	if ClassOf(l.Owner.Manager) != Person {
		return Decision{}, false
	}
	return Decision{Verdict: Enforce, Reason: fmt.Sprintf("changed by %s", l.Owner)}, true
}

func byDefault(l Loss, _ Context) (Decision, bool) {
	switch {
	case l.Owner.Manager == "" && IsReplicas(l.Path):
		// The scale subresource drops a 0 where owners are reckoned; a removed size is 1 again, and its remover's.
		return Decision{Verdict: Enforce, Reason: "scaled to 0; the API server does not note by whom"}, true
	case l.Owner.Manager == "":
		return Decision{Verdict: Enforce, Reason: "removed"}, true
	case l.Owner.Manager == Ancient, l.Owner.Manager == BeforeFirst:
		return Decision{Verdict: Enforce, Reason: "changed by an unknown manager (" + l.Owner.Manager + ")"}, true
	case ClassOf(l.Owner.Manager) == Released:
		return Decision{Verdict: Enforce, Reason: "declared in Git again"}, true
	}
	return Decision{Verdict: Enforce, Reason: fmt.Sprintf("changed by %s", l.Owner)}, true
}
