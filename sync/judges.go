package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	gosync "sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// judges know the Judge of each Application: its own health rules before the agent's, and those before the shipped ones.
//
// Health is computed where an object comes in, since it is not kept whole: by the Judge of the Application that its
// tracking annotation names. So a change of an Application's rules lists the kinds that they are about anew.
// Safe for concurrent use.
type judges struct {
	agent *health.Judge
	// application returns an Application as last seen, nil where there is none; applications returns all.
	application  func(types.NamespacedName) *v1alpha1.Application
	applications func() []*v1alpha1.Application

	mu  gosync.Mutex
	own map[types.NamespacedName]ownRules
}

// ownRules are the health rules of one Application, compiled.
type ownRules struct {
	rules []v1alpha1.HealthRule
	judge *health.Judge // the agent's where err is set
	err   error
}

// of returns the Judge of an Application. Rules of its own that do not compile are left out as a whole; err names the
// first of them by its field of the spec.
func (j *judges) of(key types.NamespacedName) (judge *health.Judge, err error) {
	app := j.application(key)
	j.mu.Lock()
	defer j.mu.Unlock()
	if app == nil || len(app.Spec.HealthRules) == 0 {
		delete(j.own, key)
		return j.agent, nil
	}
	own, ok := j.own[key]
	if !ok || !slices.Equal(own.rules, app.Spec.HealthRules) {
		own = ownRules{rules: app.Spec.HealthRules}
		own.judge, own.err = withRules(j.agent, own.rules)
		j.own[key] = own
	}
	return own.judge, own.err
}

// judge returns the health of an object of an Application.
func (j *judges) judge(app types.NamespacedName, u *unstructured.Unstructured) health.Result {
	judge, _ := j.of(app) // the error is the Application's: its status has it
	return judge.Of(u)
}

// judged reports whether objects of a kind have a health, for at least one of the Applications.
func (j *judges) judged(gk schema.GroupKind) bool {
	return j.agent.Judged(gk) || slices.ContainsFunc(j.applications(), func(app *v1alpha1.Application) bool {
		judge, _ := j.of(types.NamespacedName{Namespace: app.Namespace, Name: app.Name})
		return judge.Judged(gk)
	})
}

// withRules returns judge with an Application's rules before its own; where they do not compile it is judge itself.
func withRules(judge *health.Judge, rules []v1alpha1.HealthRule) (*health.Judge, error) {
	own, err := judge.With(healthRules(rules))
	if err != nil {
		return judge, healthRulesError("spec.healthRules", err)
	}
	return own, nil
}

// healthRulesError names the field that an error of compiling health rules is about; list is where they are.
func healthRulesError(list string, err error) error {
	if wrong, ok := errors.AsType[*health.RuleError](err); ok {
		return fmt.Errorf("%s[%d].%s: %w", list, wrong.Index, wrong.Field, wrong.Err)
	}
	return fmt.Errorf("%s: %w", list, err)
}

func healthRules(rules []v1alpha1.HealthRule) []health.Rule {
	list := make([]health.Rule, len(rules))
	for i, r := range rules {
		list[i] = health.Rule{
			Group: r.Group, Kind: r.Kind, Message: r.Message,
			Degraded: r.Degraded, Suspended: r.Suspended, Progressing: r.Progressing, Healthy: r.Healthy,
		}
	}
	return list
}

// NewJudge returns a Judge of the objects of an Application for whoever asks on demand: with the Application's rules,
// but not those of the agent's configuration. Rules that do not compile are left out, as the agent does. It asks for
// the storage classes; what the user may not see of them is not known.
func NewJudge(ctx context.Context, clients *Clients, kinds *apply.Kinds, app *v1alpha1.Application) (*health.Judge, error) {
	judge, err := health.NewJudge(nil, health.Options{HasStatus: kinds.HasStatus, WaitForFirstConsumer: listStorageClasses(ctx, clients)})
	if err != nil {
		return nil, err
	}
	judge, _ = withRules(judge, app.Spec.HealthRules) // the Application's status has the error
	return judge, nil
}
