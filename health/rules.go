package health

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/trueup/trueup/health/internal/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Rule judges the objects of one group and kind with CEL expressions over the variable object. They may use CEL's standard
// functions and macros, optional fields (object.?status.?phase), list.join(separator), and these, which read what may be
// absent without failing:
//
//	object.condition('Ready')         the condition's status: 'True', 'False', 'Unknown', or '' where it is absent
//	object.reason('Ready')            its reason, or ''
//	object.says('Ready')              its message, or else its reason, or ''
//	object.severity('Ready')          its severity, or ''
//	object.text('status.phase')       a scalar as a string of at most 1 KiB, or ''
//	object.number('status.replicas')  a number, or 0
//	object.items('status.members')    a list of at most 1,000, or []
//	object.present('status.url')      whether there is anything but null
//
// There is no clock. An expression with a loop has a cost limit, which a list of some hundred short items stays below.
// One that fails makes the object Unknown, with a message that says so. No rule is asked about a Secret.
type Rule struct {
	Group string `json:"group"` // exact, or a wildcard at its start: "*.crossplane.io"
	Kind  string `json:"kind"`  // one or more, separated by commas; each exact, or with a wildcard at its start: "*Template", "*"

	// The first that is true decides, in this order. Where none is: with Healthy given the object is Progressing,
	// without it the judgement goes on as if there were no rule.
	Degraded    string `json:"degraded,omitempty"`
	Suspended   string `json:"suspended,omitempty"`
	Progressing string `json:"progressing,omitempty"`
	Healthy     string `json:"healthy,omitempty"`

	Message string `json:"message,omitempty"` // an expression that gives the message
	Source  string `json:"source,omitempty"`  // where the facts come from
}

// Matches reports whether the rule is about objects of a kind.
func (r Rule) Matches(gk schema.GroupKind) bool {
	for kind := range strings.SplitSeq(r.Kind, ",") {
		if matches(r.Group, gk.Group) && matches(strings.TrimSpace(kind), gk.Kind) {
			return true
		}
	}
	return false
}

// RuleError says which of a list of rules cannot be used, and why.
type RuleError struct {
	Index int    // in the list
	Field string // "kind", "degraded" … "message"
	Rule  Rule
	Err   error
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("compiling the health rule of %s/%s: %s: %v", e.Rule.Group, e.Rule.Kind, e.Field, e.Err)
}

func (e *RuleError) Unwrap() error { return e.Err }

// compiledRule is a Rule ready to run, for one of its kinds.
type compiledRule struct {
	name    string // "cel/argoproj.io/Rollout"
	gk      schema.GroupKind
	cases   []ruleCase
	message *expression
}

type ruleCase struct {
	code Code
	when *expression
}

// compileRule returns an error that is about the named field.
func compileRule(env *cel.Env, rule Rule) (compiled compiledRule, field string, err error) {
	if rule.Kind == "" {
		return compiledRule{}, "kind", errors.New(`is empty; name one, or "*" for every kind of the group`)
	}
	for _, c := range []struct {
		code   Code
		source string
	}{{Degraded, rule.Degraded}, {Suspended, rule.Suspended}, {Progressing, rule.Progressing}, {Healthy, rule.Healthy}} {
		if c.source == "" {
			continue
		}
		when, err := compile(env, c.source, cel.BoolType)
		if err != nil {
			return compiledRule{}, strings.ToLower(string(c.code)), err
		}
		compiled.cases = append(compiled.cases, ruleCase{c.code, when})
	}
	switch {
	case len(compiled.cases) == 0:
		return compiledRule{}, "healthy", errors.New("there is no expression; give at least one of degraded, suspended, progressing and healthy")
	case rule.Message == "":
		return compiled, "", nil
	}
	if compiled.message, err = compile(env, rule.Message, cel.StringType); err != nil {
		return compiledRule{}, "message", err
	}
	return compiled, "", nil
}

// judge returns what the rule says about o; ok is false where it leaves the judgement to others. A rule that fails says so.
func (r *compiledRule) judge(o fields.Map) (Result, bool) {
	a := bind(o)
	for _, c := range r.cases {
		holds, err := eval[bool](c.when, a)
		if err != nil {
			what := strings.ToLower(string(c.code))
			return Result{Code: Unknown, Reason: "RuleFailed", Message: fmt.Sprintf("health rule failed: %s: %v", what, err), Rule: r.name}, true
		}
		if holds {
			return r.result(c.code, o, a), true
		}
	}
	if r.cases[len(r.cases)-1].code == Healthy {
		return r.result(Progressing, o, a), true
	}
	return Result{}, false
}

func (r *compiledRule) result(code Code, o fields.Map, a activation) Result {
	result := Result{Code: code, Reason: string(code), Rule: r.name}
	if r.message != nil {
		message, err := eval[string](r.message, a)
		if err != nil {
			message = fmt.Sprintf("health rule's message failed: %v", err)
		}
		result.Message = message
	}
	if result.Message == "" {
		result.Message = statusText(o)
	}
	return result
}

// statusText is what an object says about itself, for a rule without a message.
func statusText(o fields.Map) string {
	status := o.At("status")
	if message := status.Str("message"); message != "" {
		return message
	}
	if r, ok := byConditions(o, status); ok {
		return r.Message
	}
	if r, ok := byPhase(status); ok {
		return r.Message
	}
	return "its status says nothing yet"
}

// A ruleSet finds the rule of a kind: the exact one, or else the first whose wildcard matches.
type ruleSet struct {
	exact     map[schema.GroupKind]*compiledRule
	wildcards []*compiledRule
}

func newRuleSet(rules []Rule) (*ruleSet, error) {
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	set := &ruleSet{exact: make(map[schema.GroupKind]*compiledRule, len(rules))}
	for i, rule := range rules {
		compiled, field, err := compileRule(env, rule)
		if err != nil {
			return nil, &RuleError{i, field, rule, err}
		}
		for kind := range strings.SplitSeq(rule.Kind, ",") {
			if err := set.add(compiled, schema.GroupKind{Group: rule.Group, Kind: strings.TrimSpace(kind)}); err != nil {
				return nil, &RuleError{i, "kind", rule, err}
			}
		}
	}
	return set, nil
}

func (s *ruleSet) add(rule compiledRule, gk schema.GroupKind) error {
	rule.gk, rule.name = gk, "cel/"+gk.Group+"/"+gk.Kind
	switch {
	case strings.HasPrefix(gk.Group, "*") || strings.HasPrefix(gk.Kind, "*"):
		s.wildcards = append(s.wildcards, &rule)
	case s.exact[gk] != nil:
		return fmt.Errorf("there are two rules for %s/%s; keep one", gk.Group, gk.Kind)
	default:
		s.exact[gk] = &rule
	}
	return nil
}

func (s *ruleSet) find(gk schema.GroupKind) *compiledRule {
	if rule := s.exact[gk]; rule != nil {
		return rule
	}
	for _, rule := range s.wildcards {
		if matches(rule.gk.Group, gk.Group) && matches(rule.gk.Kind, gk.Kind) {
			return rule
		}
	}
	return nil
}

// matches reports whether s fits a pattern that is exact or has a wildcard at its start.
func matches(pattern, s string) bool {
	if suffix, wild := strings.CutPrefix(pattern, "*"); wild {
		return strings.HasSuffix(s, suffix)
	}
	return pattern == s
}

//go:embed rules/*.yaml
var ruleFiles embed.FS

// ShippedRules returns the rules for custom resources that ship with Trueup, as their files in the folder rules have them.
func ShippedRules() ([]Rule, error) {
	names, err := fs.Glob(ruleFiles, "rules/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the shipped health rules: %w", err)
	}
	var all []Rule
	for _, name := range names {
		data, err := ruleFiles.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		var rules []Rule
		if err := yaml.UnmarshalStrict(data, &rules); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		all = append(all, rules...)
	}
	return all, nil
}
