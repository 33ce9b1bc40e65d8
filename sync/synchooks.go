package sync

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// Hook is an object that a sync makes in one of its phases and waits for, in place of keeping it. An object that is to run
// in two phases is two hooks.
type Hook struct {
	*Desired
	Phase    source.HookPhase
	Weight   int
	Delete   []source.HookDelete
	Deadline time.Duration
	// expires says that the cluster deletes the object by itself some time after it is done.
	expires bool
}

// defaultHookTime is how long a hook may take that does not say.
const defaultHookTime = time.Hour

// hookPhases are in the order in which they come.
var hookPhases = []source.HookPhase{source.PreSync, source.Sync, source.PostSync, source.SyncFail}

// name is how messages call a hook.
func (h *Hook) name() string { return string(h.Phase) + " hook " + h.ID.String() }

// deletes reports whether an object of the hook is to be deleted at a moment.
func (h *Hook) deletes(when source.HookDelete) bool { return slices.Contains(h.Delete, when) }

// config is the object to make in a run.
func (h *Hook) config(run string) (*unstructured.Unstructured, error) {
	config, err := h.Config()
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: config}
	annotations := u.GetAnnotations()
	annotations[v1alpha1.AnnotationHookRun] = hookRunOf(run, h.Phase)
	u.SetAnnotations(annotations)
	return u, nil
}

// hookRunOf is the value of the annotation by which the object of a hook is known as one of a run.
func hookRunOf(run string, phase source.HookPhase) string { return run + ":" + string(phase) }

// hookMaker makes the hooks of a DesiredSet.
type hookMaker struct {
	app       types.NamespacedName
	namespace string
	hooks     []*Hook
	errs      []error
}

func (m *hookMaker) add(o source.Object, kind apply.Kind, known bool) {
	d, err := newDesired(o, m.app, m.namespace, kind, known)
	if err != nil {
		m.errs = append(m.errs, fmt.Errorf("%s: %w", o.Place(), err))
		return
	}
	_, expires, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "ttlSecondsAfterFinished")
	for _, phase := range o.Hook.Phases {
		m.hooks = append(m.hooks, &Hook{
			Desired: d, Phase: phase, Weight: o.Hook.Weight, Delete: o.Hook.Delete,
			Deadline: cmp.Or(o.Hook.Deadline, defaultHookTime), expires: expires,
		})
	}
}

// finish puts the hooks into a set whose objects are there, in the order in which they run.
func (m *hookMaker) finish(set *DesiredSet) error {
	slices.SortStableFunc(m.hooks, func(a, b *Hook) int {
		return cmp.Or(slices.Index(hookPhases, a.Phase)-slices.Index(hookPhases, b.Phase), cmp.Compare(a.Weight, b.Weight),
			apply.Rank(a.ID.GroupKind())-apply.Rank(b.ID.GroupKind()), a.ID.Compare(b.ID))
	})
	set.Hooks, set.app = m.hooks, m.app
	set.state = stateOf(set)
	type key struct {
		diff.ID
		source.HookPhase
	}
	first := map[key]*Hook{}
	for _, h := range m.hooks {
		k := key{h.ID, h.Phase}
		switch d := set.byID[h.ID]; {
		case h.ID.Name == "":
		case d != nil:
			m.errs = append(m.errs, fmt.Errorf("%s is declared twice: in %s and as a hook in %s; keep one of them", h.ID, d.Origin, h.Origin))
		case first[k] != nil:
			m.errs = append(m.errs, fmt.Errorf("the %s is declared twice: in %s and in %s; keep one of them", h.name(), first[k].Origin, h.Origin))
		}
		first[k] = h
	}
	if n := len(m.hooks); n > v1alpha1.MaxHooks {
		m.errs = append(m.errs, fmt.Errorf("there are %d hooks, and at most %d are run: divide the Application, or make objects of those that may stay", n, v1alpha1.MaxHooks))
	}
	return errors.Join(m.errs...)
}

// hooksOf returns the hooks as they are in a run: those with metadata.generateName have a name that is always the same
// for the run.
func (s *DesiredSet) hooksOf(run string) ([]*Hook, error) {
	hooks := slices.Clone(s.Hooks)
	for i, h := range hooks {
		if h.ID.Name != "" {
			continue
		}
		config, err := h.Config()
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{Object: config}
		named := *h.Desired
		// Hooks that generate names from the same beginning are told apart by their content.
		named.ID.Name = u.GetGenerateName() + diff.Digest([]byte(run + h.digest))[:7] + "-" + strings.ToLower(string(h.Phase))
		u.SetName(named.ID.Name)
		u.SetGenerateName("")
		setOwn(u, s.app, named.ID)
		if named.json, err = json.Marshal(u.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", named.ID, err)
		}
		one := *h
		one.Desired = &named
		hooks[i] = &one
	}
	return hooks, nil
}

// stateOf is a digest of what a set declares, less what a chart makes up anew in each render.
func stateOf(set *DesiredSet) string {
	var b strings.Builder
	for _, d := range set.Objects {
		fmt.Fprintf(&b, "%s %s %s\n", d.ID.Group, d.ID, d.digest)
	}
	for _, h := range set.Hooks {
		fmt.Fprintf(&b, "%s %d %s %s %s\n", h.Phase, h.Weight, h.ID.Group, h.ID, h.digest)
	}
	return diff.Digest([]byte(b.String()))
}

// observeHook takes in what is seen of the object of a hook: besides its run when it was made, and a health that is about
// having done its work.
func (o *Observed) observeHook(obj metav1.Object) {
	o.HookRun = strings.Clone(obj.GetAnnotations()[v1alpha1.AnnotationHookRun])
	if o.HookRun == "" {
		return
	}
	o.CreationTimestamp = obj.GetCreationTimestamp()
	o.hookTime = defaultHookTime
	if d, err := time.ParseDuration(obj.GetAnnotations()[source.AnnotationHookDeadline]); err == nil && d > 0 {
		o.hookTime = d
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || o.ID.Kind != "Pod" || o.ID.Group != "" {
		return
	}
	// A pod that runs and is ready is healthy as an object; as a hook it is not done yet.
	switch phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); phase {
	case "Succeeded":
		o.Health = health.Result{Code: health.Healthy, Reason: "Succeeded", Message: "completed"}
	case "Failed":
		o.Health.Code = health.Degraded
	default:
		if o.Health.Code == health.Healthy {
			o.Health.Message = "running"
		}
		o.Health.Code = health.Progressing
	}
}

// runs reports whether the object of a hook is still at work.
func (o *Observed) runs(now time.Time) bool {
	return o.HookRun != "" && o.DeletionTimestamp == nil && o.Health.Code != health.Healthy && o.Health.Code != health.Degraded &&
		now.Before(o.hookDeadline())
}

func (o *Observed) hookDeadline() time.Time { return o.CreationTimestamp.Add(o.hookTime) }

// hookLeft is the step of a hook's object when its Application goes.
func hookLeft(o *Observed) Step {
	step := Step{ID: o.ID, Observed: o, Sync: v1alpha1.OutOfSync, Reason: "Hook", Health: o.Health, Op: OpPrune, Message: "was made by a hook"}
	switch {
	case o.DeletionTimestamp != nil:
		step.Op, step.Message = OpNone, "is being deleted"+waitsFor(o)
	case keptHook(o):
		step.Op = OpNone
	}
	return step
}
