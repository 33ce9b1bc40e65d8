package diff

import (
	"fmt"
	"slices"
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

// Rule is one rule of the chain that decides about fields which somebody else owns.
type Rule struct {
	Name string
	// Says is what the rule does, in a sentence for a person.
	Says string

	decide func(Loss, Context) (Decision, bool) // ok is false where the rule has nothing to say
}

// RuleContested is the rule that holds a field because its owner keeps taking it back.
const RuleContested = "contested"

// chain is the order in which a loss is decided: the first rule that has something to say does.
var chain = []Rule{
	{"own", "Trueup's own labels and annotations are put back: by them it knows an object as its own.", byMark},
	{"key", "A key of a list item goes with its item, and is left to others only by a policy for the item: without it, another one would be applied.", byKey},
	{"policy", "A policy of the Application or an annotation trueup.dev/yield that matches decides, the first one in their order.", byPolicy},
	{"autoscaler", "The replicas of a workload that an HPA or a KEDA ScaledObject targets are the autoscaler's.", byAutoscaler},
	{"injector", "A caBundle of a webhook, a CustomResourceDefinition or an APIService is left to whoever injects it, unless that is a person.", byInjector},
	{"aggregation", "The rules of a ClusterRole are left to the controller that aggregates them.", byAggregation},
	{"applier", "A field that another tool applies is held: nobody's value is forced, and the Application is OutOfSync.", byApplier},
	{RuleContested, "A field that its owner took back again and again is held for a while; the rest of the object goes on.", byBreaker},
	{"person", "What a person changed with a tool such as kubectl is put back.", byPerson},
	{"default", "What anybody else changed or removed is put back.", byDefault},
}

// Rules returns the chain of rules in the order in which they are asked; the first that has something to say decides.
func Rules() []Rule { return slices.Clone(chain) }

// Decide returns what to do about a loss. It is pure: equal arguments give equal decisions.
func Decide(l Loss, c Context) Decision {
	for _, r := range chain {
		if d, ok := r.decide(l, c); ok {
			d.Rule = r.Name
			return d
		}
	}
	return Decision{Verdict: Hold, Rule: "none", Reason: "no rule applies"} // not reached: the last rule always decides
}

// decided decides about a loss. Of several owners of one value each may be one that the field is left to: it is taken from
// nobody before all have been asked.
func (l Loss) decided(c Context) DecidedLoss {
	first := DecidedLoss{l, Decide(l, c)}
	if first.Verdict != Enforce {
		return first
	}
	for _, owner := range l.others {
		other := l
		other.Owner = owner
		if d := Decide(other, c); d.Verdict != Enforce {
			return DecidedLoss{other, d}
		}
	}
	return first
}

// mark is what our own labels and annotations begin with.
const mark = "trueup.dev/"

func byMark(l Loss, _ Context) (Decision, bool) {
	if !isMark(l.Path) {
		return Decision{}, false
	}
	return Decision{Verdict: Enforce, Reason: fmt.Sprintf("Trueup's own mark, changed by %s", l.Owner)}, true
}

func byKey(l Loss, c Context) (Decision, bool) {
	if !isKey(l.Path) {
		return Decision{}, false
	}
	if d, ok := byPolicy(itemOf(l), c); ok && d.Verdict != Enforce {
		return d, true
	}
	return Decision{Verdict: Enforce, Reason: fmt.Sprintf("a key of its list item: %s", l.Owner)}, true
}

// itemOf returns the list item that l is a key of.
func itemOf(l Loss) Loss {
	if len(l.Pointer) == len(l.Path) {
		l.Pointer = l.Pointer[:len(l.Pointer)-1]
	}
	l.Path = l.Path[:len(l.Path)-1]
	return l
}

func isMark(p fieldpath.Path) bool {
	return len(p) == 3 && isField(p[0], "metadata") && p[2].FieldName != nil && strings.HasPrefix(*p[2].FieldName, mark)
}

func isField(pe fieldpath.PathElement, name string) bool {
	return pe.FieldName != nil && *pe.FieldName == name
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
	if !l.Owner.otherApplier() || c.Adopting {
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
	what := l.Owner.String() + " took it back"
	if l.Owner == (Owner{}) {
		what = "somebody removed it"
	}
	return Contested(what, fight), true
}

// Contested returns the decision to hold what there is a fight about; what says what has happened so many times.
func Contested(what string, fight Fight) Decision {
	return Decision{Verdict: Hold, Rule: RuleContested, Reason: fmt.Sprintf("contested: %s %d times; held until %s", what, fight.Count, fight.Until.UTC().Format(time.RFC3339))}
}

func byPerson(l Loss, _ Context) (Decision, bool) {
	if ClassOf(l.Owner.Manager) != Person {
		return Decision{}, false
	}
	return Decision{Verdict: Enforce, Reason: fmt.Sprintf("changed by %s", l.Owner)}, true
}

func byDefault(l Loss, _ Context) (Decision, bool) {
	switch {
	case l.unsure:
		return Decision{Verdict: Enforce, Reason: "removed or taken: its keys do not tell which item it is"}, true
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
