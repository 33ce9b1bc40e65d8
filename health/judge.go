package health

import (
	"iter"
	"sync"

	"github.com/trueup/trueup/health/internal/fields"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options adapt the judgement to a cluster. The zero value is the default. Its functions have to be safe for concurrent
// use, and must not block: they are called for each object.
type Options struct {
	// IngressNeedsAddress makes an Ingress wait for its load balancer's address. Many ingress controllers never write one.
	IngressNeedsAddress bool

	// HasStatus says whether a kind has a status subresource, as discovery tells; known is false where that is not known.
	// A kind without one is Healthy once present; an object of a kind with one is Progressing until its status is written.
	// Nil knows nothing: an object without a status that nothing else judges is Unknown then.
	HasStatus func(schema.GroupKind) (declared, known bool)

	// WaitForFirstConsumer says whether a storage class binds its claims only once a pod uses them; known is false where
	// that is not known. Nil knows nothing: an unbound claim that no provisioner works on blocks nobody then.
	WaitForFirstConsumer func(storageClass string) (waits, known bool)
}

// Judge judges objects by compiled rules. It is immutable and safe for concurrent use.
type Judge struct {
	opts  Options
	rules []*ruleSet // in the order in which they are asked
}

// NewJudge returns a Judge that asks rules before the shipped ones, and both before the functions of built-in kinds.
// It fails on the first rule that does not compile, with a *RuleError. Compiling takes a while: keep the Judge.
func NewJudge(rules []Rule, opts Options) (*Judge, error) {
	return (&Judge{opts: opts, rules: []*ruleSet{shipped()}}).With(rules)
}

// With returns a Judge that asks rules before those of j, and is j otherwise. It fails as NewJudge does.
func (j *Judge) With(rules []Rule) (*Judge, error) {
	set, err := newRuleSet(rules)
	if err != nil {
		return nil, err
	}
	return &Judge{opts: j.opts, rules: append([]*ruleSet{set}, j.rules...)}, nil
}

// shipped compiles the shipped rules once for all Judges. A test compiles them too, so they do.
var shipped = sync.OnceValue(func() *ruleSet {
	rules, err := ShippedRules()
	if err != nil {
		panic(err)
	}
	set, err := newRuleSet(rules)
	if err != nil {
		panic(err)
	}
	return set
})

var defaultJudge = sync.OnceValue(func() *Judge { return &Judge{rules: []*ruleSet{shipped()}} })

// Judged reports whether objects of the kind have a health, as the function Judged does, or are judged by a rule. The
// others' metadata is all that has to be watched.
func (j *Judge) Judged(gk schema.GroupKind) bool {
	for range j.rulesOf(gk) {
		return true
	}
	return Judged(gk)
}

// rulesOf yields the rules that fit a kind, in the order in which they are asked. There are none for Secrets: a message
// could give their data away.
func (j *Judge) rulesOf(gk schema.GroupKind) iter.Seq[*compiledRule] {
	return func(yield func(*compiledRule) bool) {
		if gk == (schema.GroupKind{Kind: "Secret"}) {
			return
		}
		for _, set := range j.rules {
			if rule := set.find(gk); rule != nil && !yield(rule) {
				return
			}
		}
	}
}

// Of returns the health of obj. A nil object is Missing.
// It neither changes nor keeps obj, never blocks and is safe for concurrent use.
func (j *Judge) Of(obj *unstructured.Unstructured) Result {
	if obj == nil || obj.Object == nil {
		return Absent(nil, "")
	}
	r := j.judge(obj.Object)
	r.Message = fields.Clip(r.Message, fields.MaxMessage)
	return r
}

// judge is the order of the package's doc comment.
func (j *Judge) judge(o fields.Map) Result {
	gk := groupKind(o)
	metadata, status := o.At("metadata"), o.At("status")
	if metadata.Str("deletionTimestamp") != "" {
		return terminating(gk, metadata, status)
	}
	kind, isBuiltin := builtins[gk]
	if !isBuiltin {
		if r, ok := stale(metadata, status); ok {
			return r
		}
	}
	for rule := range j.rulesOf(gk) {
		if r, ok := rule.judge(o); ok {
			return r
		}
	}
	if isBuiltin {
		r := kind.judge(j, o, status)
		r.Rule = kind.rule
		return r
	}
	if !Judged(gk) {
		return Result{Code: Healthy, Reason: "Present", Message: "present; its kind has no health", Rule: "builtin/" + gk.Kind}
	}
	return j.generic(gk, o, status)
}

// generic judges a kind that nothing is known about.
func (j *Judge) generic(gk schema.GroupKind, o, status fields.Map) Result {
	if r, ok := byConditions(o, status); ok {
		return r
	}
	if r, ok := byParents(o, status); ok {
		return r
	}
	if r, ok := byPhase(status); ok {
		return r
	}
	return j.byPresence(gk, status)
}
