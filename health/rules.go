package health

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Rule judges the objects of one group and kind with CEL expressions over the variable object; newEnv lists what they
// may use.
type Rule struct {
	Group string `json:"group"` // exact, or a wildcard: "*.crossplane.io"
	Kind  string `json:"kind"`  // exact, or "*"

	// The first that is true decides, in this order. Where none is: with Healthy given the object is Progressing,
	// without it the judgement goes on as if there were no rule.
	Degraded    string `json:"degraded,omitempty"`
	Suspended   string `json:"suspended,omitempty"`
	Progressing string `json:"progressing,omitempty"`
	Healthy     string `json:"healthy,omitempty"`

	Message string `json:"message,omitempty"` // an expression that gives the message
	Source  string `json:"source,omitempty"`  // where the facts come from
}

// compiledRule is a Rule ready to run.
type compiledRule struct {
	name     string // "cel/argoproj.io/Rollout"
	group    string
	kind     string
	cases    []ruleCase
	message  *expression
	complete bool // Healthy is given: no case is Progressing
}

type ruleCase struct {
	code Code
	when *expression
}

func compileRule(env *cel.Env, rule Rule) (*compiledRule, error) {
	name := "cel/" + rule.Group + "/" + rule.Kind
	if rule.Kind == "" {
		return nil, fmt.Errorf("compiling health rule %s: kind is empty; name one, or \"*\" for every kind of the group", name)
	}
	compiled := &compiledRule{name: name, group: rule.Group, kind: rule.Kind, complete: rule.Healthy != ""}
	for _, c := range []struct {
		code   Code
		source string
	}{{Degraded, rule.Degraded}, {Suspended, rule.Suspended}, {Progressing, rule.Progressing}, {Healthy, rule.Healthy}} {
		if c.source == "" {
			continue
		}
		when, err := compile(env, c.source, cel.BoolType)
		if err != nil {
			return nil, fmt.Errorf("compiling health rule %s: %s: %w", name, strings.ToLower(string(c.code)), err)
		}
		compiled.cases = append(compiled.cases, ruleCase{c.code, when})
	}
	if len(compiled.cases) == 0 {
		return nil, fmt.Errorf("compiling health rule %s: no expression; give at least one of degraded, suspended, progressing and healthy", name)
	}
	if rule.Message != "" {
		message, err := compile(env, rule.Message, cel.StringType)
		if err != nil {
			return nil, fmt.Errorf("compiling health rule %s: message: %w", name, err)
		}
		compiled.message = message
	}
	return compiled, nil
}

// judge returns what the rule says about o; ok is false where it leaves the judgement to others. A rule that fails says so.
func (r *compiledRule) judge(o fields) (Result, bool) {
	a := activation{o}
	for _, c := range r.cases {
		holds, err := eval[bool](c.when, a)
		if err != nil {
			what := strings.ToLower(string(c.code))
			return Result{Code: Unknown, Reason: "RuleFailed", Message: fmt.Sprintf("health rule failed: %s: %v", what, err), Rule: r.name}, true
		}
		if holds {
			return r.result(c.code, a), true
		}
	}
	if r.complete {
		return r.result(Progressing, a), true
	}
	return Result{}, false
}

func (r *compiledRule) result(code Code, a activation) Result {
	result := Result{Code: code, Reason: string(code), Rule: r.name}
	if r.message != nil {
		message, err := eval[string](r.message, a)
		if err != nil {
			message = fmt.Sprintf("health rule's message failed: %v", err)
		}
		result.Message = message
	}
	status := fields(a.object).at("status")
	result.Message = cmp.Or(result.Message, status.str("message"), "by its health rule")
	return result
}

// A ruleSet finds the rule of a kind: the exact one, or else the first whose wildcard matches.
type ruleSet struct {
	exact     map[schema.GroupKind]*compiledRule
	wildcards []*compiledRule
}

func newRuleSet(rules []Rule) (*ruleSet, error) {
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("setting up CEL: %w", err)
	}
	set := &ruleSet{exact: make(map[schema.GroupKind]*compiledRule, len(rules))}
	for _, rule := range rules {
		compiled, err := compileRule(env, rule)
		if err != nil {
			return nil, err
		}
		gk := schema.GroupKind{Group: rule.Group, Kind: rule.Kind}
		if strings.HasPrefix(rule.Group, "*") || rule.Kind == "*" {
			set.wildcards = append(set.wildcards, compiled)
		} else if set.exact[gk] != nil {
			return nil, fmt.Errorf("compiling health rule %s: there are two rules for this kind", compiled.name)
		} else {
			set.exact[gk] = compiled
		}
	}
	return set, nil
}

func (s *ruleSet) find(gk schema.GroupKind) *compiledRule {
	if rule := s.exact[gk]; rule != nil {
		return rule
	}
	for _, rule := range s.wildcards {
		if (rule.kind == "*" || rule.kind == gk.Kind) && matchGroup(rule.group, gk.Group) {
			return rule
		}
	}
	return nil
}

func matchGroup(pattern, group string) bool {
	if suffix, wild := strings.CutPrefix(pattern, "*"); wild {
		return strings.HasSuffix(group, suffix)
	}
	return pattern == group
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
