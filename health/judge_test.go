package health

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func object(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func newJudge(t testing.TB, opts Options, rules ...Rule) *Judge {
	t.Helper()
	j, err := NewJudge(rules, opts)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

const widget = `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 3}, status: {phase: Running, done: 1}}`

func TestRules(t *testing.T) {
	const name = "cel/example.com/Widget"
	rule := func(change func(*Rule)) Rule {
		r := Rule{Group: "example.com", Kind: "Widget"}
		change(&r)
		return r
	}
	for sentence, test := range map[string]struct {
		rule Rule
		want Result
	}{
		"degraded goes first": {
			rule(func(r *Rule) { r.Degraded, r.Suspended, r.Healthy = "true", "true", "true" }),
			Result{Degraded, "Degraded", "status.phase is Running", name},
		},
		"suspended goes before progressing and healthy": {
			rule(func(r *Rule) { r.Degraded, r.Suspended, r.Progressing, r.Healthy = "false", "true", "true", "true" }),
			Result{Suspended, "Suspended", "status.phase is Running", name},
		},
		"progressing goes before healthy": {
			rule(func(r *Rule) { r.Progressing, r.Healthy = "object.status.done < object.spec.size", "true" }),
			Result{Progressing, "Progressing", "status.phase is Running", name},
		},
		"a rule that knows what is healthy calls the rest Progressing": {
			rule(func(r *Rule) { r.Degraded, r.Healthy = "false", "object.status.done == 3" }),
			Result{Progressing, "Progressing", "status.phase is Running", name},
		},
		"a rule that only knows what is degraded leaves the rest to the generic judgement": {
			rule(func(r *Rule) { r.Degraded = "object.status.done == 0" }),
			Result{Healthy, "Running", "status.phase is Running", "phase"},
		},
		"a message may have numbers": {
			rule(func(r *Rule) {
				r.Healthy = "true"
				r.Message = "string(object.number('status.done')) + ' of ' + string(object.number('spec.size')) + ' done'"
			}),
			Result{Healthy, "Healthy", "1 of 3 done", name},
		},
		"optional fields read what may be absent": {
			rule(func(r *Rule) { r.Degraded = "object.?status.?error.orValue('') != ''" }),
			Result{Healthy, "Running", "status.phase is Running", "phase"},
		},
		"a rule that fails says so": {
			rule(func(r *Rule) { r.Degraded = "object.status.error == 'x'" }),
			Result{Unknown, "RuleFailed", "health rule failed: degraded: no such key: error", name},
		},
		"a rule that gives no bool says so": {
			rule(func(r *Rule) { r.Healthy = "object.status.phase" }),
			Result{Unknown, "RuleFailed", "health rule failed: healthy: gave a string, wanted a bool", name},
		},
		"a message that fails leaves the code as it is": {
			rule(func(r *Rule) { r.Degraded, r.Message = "true", "object.status.error" }),
			Result{Degraded, "Degraded", "health rule's message failed: no such key: error", name},
		},
		"a rule that costs too much says so": {
			rule(func(r *Rule) {
				ten := "[0,1,2,3,4,5,6,7,8,9]"
				r.Degraded = ten + ".all(a, " + ten + ".all(b, " + ten + ".all(c, " + ten + ".all(d, " + ten + ".all(e, a + b + c + d + e < object.spec.size + 99)))))"
			}),
			Result{Unknown, "RuleFailed", "health rule failed: degraded: operation cancelled: actual cost limit exceeded", name},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(test.want, newJudge(t, Options{}, test.rule).Of(object(t, widget))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRuleOrder(t *testing.T) {
	says := func(group, kind, message string) Rule {
		return Rule{Group: group, Kind: kind, Healthy: "true", Message: "'" + message + "'"}
	}
	for sentence, test := range map[string]struct {
		object string
		rules  []Rule
		want   string
	}{
		"the exact rule goes before a wildcard":       {widget, []Rule{says("*", "*", "any"), says("example.com", "Widget", "exact")}, "exact"},
		"the first wildcard that fits decides":        {widget, []Rule{says("*.org", "*", "org"), says("*.com", "*get", "get"), says("*", "*", "any")}, "get"},
		"a rule may list kinds":                       {widget, []Rule{says("example.com", "Gadget, Widget", "listed")}, "listed"},
		"a given rule goes before a shipped one":      {`{apiVersion: argoproj.io/v1alpha1, kind: AppProject}`, []Rule{says("argoproj.io", "AppProject", "mine")}, "mine"},
		"even a given wildcard goes before":           {`{apiVersion: argoproj.io/v1alpha1, kind: AppProject}`, []Rule{says("*", "*", "mine")}, "mine"},
		"a given rule goes before a built-in kind":    {`{apiVersion: apps/v1, kind: Deployment}`, []Rule{says("apps", "Deployment", "mine")}, "mine"},
		"a given rule judges a kind without a health": {`{apiVersion: v1, kind: ConfigMap}`, []Rule{says("", "ConfigMap", "mine")}, "mine"},
		"a rule that does not decide leaves it to the shipped one": {
			`{apiVersion: argoproj.io/v1alpha1, kind: AppProject}`, []Rule{{Group: "argoproj.io", Kind: "AppProject", Degraded: "false"}}, "present; it has no status",
		},
		"no rule is asked about an object that is being deleted": {
			`{apiVersion: example.com/v1, kind: Widget, metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}}`, []Rule{says("*", "*", "any")}, "being deleted",
		},
		"no rule is asked about an old generation": {
			`{apiVersion: example.com/v1, kind: Widget, metadata: {generation: 2}, status: {observedGeneration: 1}}`, []Rule{says("*", "*", "any")},
			"its controller has seen generation 1 of 2",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := newJudge(t, Options{}, test.rules...).Of(object(t, test.object)).Message; got != test.want {
				t.Errorf("want message %q, got %q", test.want, got)
			}
		})
	}
}

func TestNewJudgeRefuses(t *testing.T) {
	for sentence, test := range map[string]struct {
		rules []Rule
		want  string
	}{
		"a syntax error": {
			[]Rule{{Group: "example.com", Kind: "Widget", Degraded: "object.status.phase =="}},
			"compiling the health rule of example.com/Widget: degraded: ERROR: <input>:1:23: Syntax error",
		},
		"a variable that is not there": {
			[]Rule{{Group: "example.com", Kind: "Widget", Healthy: "obj.status.phase == 'Ready'"}},
			"healthy: ERROR: <input>:1:1: undeclared reference to 'obj'",
		},
		"an expression of another type": {
			[]Rule{{Group: "example.com", Kind: "Widget", Healthy: "object.number('status.n')"}},
			"healthy: gives a int, wanted a bool: object.number('status.n')",
		},
		"a message that is no string": {
			[]Rule{{Group: "example.com", Kind: "Widget", Healthy: "true", Message: "true"}},
			"message: gives a bool, wanted a string: true",
		},
		"a rule without a kind": {
			[]Rule{{Group: "example.com", Healthy: "true"}},
			`compiling the health rule of example.com/: kind: is empty; name one, or "*" for every kind of the group`,
		},
		"a rule without an expression": {
			[]Rule{{Group: "example.com", Kind: "Widget", Message: "'x'"}},
			"healthy: there is no expression; give at least one of degraded, suspended, progressing and healthy",
		},
		"two rules for one kind": {
			[]Rule{{Group: "example.com", Kind: "Widget", Healthy: "true"}, {Group: "example.com", Kind: "Gadget,Widget", Healthy: "true"}},
			"compiling the health rule of example.com/Gadget,Widget: kind: there are two rules for example.com/Widget; keep one",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			j, err := NewJudge(test.rules, Options{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want an error with %q, got %v", test.want, err)
			}
			if j != nil {
				t.Error("want no Judge beside an error")
			}
		})
	}
}

func TestRuleErrorNamesTheRuleAndItsField(t *testing.T) {
	_, err := NewJudge([]Rule{{Kind: "Pod", Healthy: "true"}, {Kind: "Job", Healthy: "true", Message: "nobody"}}, Options{})
	wrong, ok := errors.AsType[*RuleError](err)
	if !ok || wrong.Index != 1 || wrong.Field != "message" || wrong.Rule.Kind != "Job" {
		t.Errorf("want a RuleError about the message of rule 1, got %+v", err)
	}
}

func TestWith(t *testing.T) {
	rule := func(message string) Rule {
		return Rule{Group: "example.com", Kind: "Widget", Healthy: "true", Message: "'" + message + "'"}
	}
	agent := newJudge(t, Options{IngressNeedsAddress: true}, rule("agent"))
	app, err := agent.With([]Rule{rule("app")})
	if err != nil {
		t.Fatal(err)
	}
	for sentence, test := range map[string]struct {
		judge        *Judge
		object, want string
	}{
		"further rules go first":            {app, widget, "app"},
		"the Judge itself stays as it was":  {agent, widget, "agent"},
		"the options stay":                  {app, `{apiVersion: networking.k8s.io/v1, kind: Ingress}`, "waiting for its load balancer's address"},
		"the shipped rules are still asked": {app, `{apiVersion: argoproj.io/v1alpha1, kind: AppProject}`, "present; it has no status"},
	} {
		if got := test.judge.Of(object(t, test.object)).Message; got != test.want {
			t.Errorf("%s: want %q, got %q", sentence, test.want, got)
		}
	}
}

func TestRuleMatches(t *testing.T) {
	widget := schema.GroupKind{Group: "example.com", Kind: "Widget"}
	for sentence, test := range map[string]struct {
		rule Rule
		want bool
	}{
		"the same kind":                  {Rule{Group: "example.com", Kind: "Widget"}, true},
		"one of several":                 {Rule{Group: "example.com", Kind: "Gadget, Widget"}, true},
		"wildcards":                      {Rule{Group: "*.com", Kind: "*get"}, true},
		"the same kind of another group": {Rule{Group: "example.org", Kind: "Widget"}, false},
		"another kind":                   {Rule{Group: "example.com", Kind: "Gadget"}, false},
	} {
		if got := test.rule.Matches(widget); got != test.want {
			t.Errorf("%s: want %v, got %v", sentence, test.want, got)
		}
	}
}

func TestShippedRules(t *testing.T) {
	rules, err := ShippedRules()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newRuleSet(rules); err != nil {
		t.Fatal(err)
	}
	decided := make(map[string]bool)
	for _, f := range loadFixtures(t) {
		decided[f.want.Rule+" "+string(f.want.Code)] = true
	}
	for _, rule := range rules {
		if !strings.HasPrefix(rule.Source, "https://") {
			t.Errorf("the rule of %s/%s does not name its source", rule.Group, rule.Kind)
		}
		for code, expression := range map[Code]string{Degraded: rule.Degraded, Suspended: rule.Suspended, Progressing: rule.Progressing, Healthy: rule.Healthy} {
			if expression != "" && !fixtureFor(decided, rule, code) {
				t.Errorf("no fixture shows the rule of %s/%s say %s", rule.Group, rule.Kind, code)
			}
		}
	}
}

func fixtureFor(decided map[string]bool, rule Rule, code Code) bool {
	for kind := range strings.SplitSeq(rule.Kind, ",") {
		if decided["cel/"+rule.Group+"/"+kind+" "+string(code)] {
			return true
		}
	}
	return false
}

func TestOptions(t *testing.T) {
	claim := `{apiVersion: v1, kind: PersistentVolumeClaim, spec: {storageClassName: fast}, status: {phase: Pending}}`
	bare := `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}`
	hasStatus := func(declared, known bool) Options {
		return Options{HasStatus: func(gk schema.GroupKind) (bool, bool) {
			return declared, known && gk == schema.GroupKind{Group: "example.com", Kind: "Widget"}
		}}
	}
	waits := func(waits, known bool) Options {
		return Options{WaitForFirstConsumer: func(class string) (bool, bool) { return waits, known && class == "fast" }}
	}
	for sentence, test := range map[string]struct {
		opts   Options
		object string
		want   Result
	}{
		"an Ingress may have to have an address": {
			Options{IngressNeedsAddress: true}, `{apiVersion: networking.k8s.io/v1, kind: Ingress}`,
			Result{Progressing, "LoadBalancerPending", "waiting for its load balancer's address", "builtin/Ingress"},
		},
		"an object whose kind has no status is Healthy once present": {
			hasStatus(false, true), bare, Result{Healthy, "NoStatus", "present; its kind has no status", "no-status"},
		},
		"an object whose kind has a status waits for it": {
			hasStatus(true, true), bare, Result{Progressing, "NoStatus", "waiting for its controller to write a status", "no-status"},
		},
		"an object of a kind that is not known is Unknown": {
			hasStatus(false, false), bare, Result{Unknown, "NoStatus", "no status, and whether its kind has one is not known", "no-status"},
		},
		"a claim of a class that binds at once blocks": {
			waits(false, true), claim, Result{Progressing, "Pending", "waiting for a volume of storage class fast", "builtin/PersistentVolumeClaim"},
		},
		"a claim of a class that waits does not block": {
			waits(true, true), claim, Result{Healthy, "WaitForFirstConsumer", "unbound; a volume is bound once a pod uses the claim", "builtin/PersistentVolumeClaim"},
		},
		"a claim without a class blocks until a volume is there for it": {
			Options{WaitForFirstConsumer: func(string) (bool, bool) { return false, true }}, `{apiVersion: v1, kind: PersistentVolumeClaim, spec: {storageClassName: ""}}`,
			Result{Progressing, "Pending", "waiting for a volume without a storage class", "builtin/PersistentVolumeClaim"},
		},
		"a claim of a class that is not known does not block": {
			waits(false, false), claim, Result{Healthy, "WaitForFirstConsumer", "unbound; a volume is bound once a pod uses the claim", "builtin/PersistentVolumeClaim"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(test.want, newJudge(t, test.opts).Of(object(t, test.object))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoRuleSeesASecret(t *testing.T) {
	secret := object(t, `{apiVersion: v1, kind: Secret, metadata: {name: db}, data: {password: aHVudGVyMg==}}`)
	for _, rule := range []Rule{{Group: "", Kind: "Secret"}, {Group: "*", Kind: "*"}} {
		rule.Degraded, rule.Message = "true", "object.data.password"
		j := newJudge(t, Options{}, rule)
		if diff := cmp.Diff(Result{Healthy, "Present", "present; its kind has no health", "builtin/Secret"}, j.Of(secret)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if j.Judged(schema.GroupKind{Kind: "Secret"}) {
			t.Error("want Secrets to be watched as metadata only")
		}
	}
}

func TestJudgedByRule(t *testing.T) {
	j := newJudge(t, Options{}, Rule{Group: "", Kind: "ConfigMap", Degraded: "object.present('data.broken')"})
	for gk, want := range map[schema.GroupKind]bool{
		{Kind: "ConfigMap"}: true, {Kind: "ServiceAccount"}: false, {Group: "apps", Kind: "Deployment"}: true,
	} {
		if got := j.Judged(gk); got != want {
			t.Errorf("want Judged(%s) %v, got %v", gk, want, got)
		}
	}
}
