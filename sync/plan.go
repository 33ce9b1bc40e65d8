package sync

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// Op is what to do with one object.
type Op string

const (
	OpNone   Op = ""
	OpCreate Op = "Create" // it is not there
	OpUpdate Op = "Update" // Git has changed it
	OpHeal   Op = "Heal"   // somebody else has changed it
	OpPrune  Op = "Prune"  // it is no longer in Git
)

// Step is how one object stands and what to do about it, with the reason.
type Step struct {
	ID         diff.ID
	Desired    *Desired  // nil for an object that is no longer in Git
	Observed   *Observed // nil for an object that is not there
	Comparison diff.Comparison
	Op         Op
	Sync       v1alpha1.SyncCode
	Reason     string
	Message    string
	Health     health.Result

	err error // of the dry-run
	// contested says that there is a fight about the object as a whole.
	contested bool
	// withheld is the number of objects of which this and other prunes would have been too many; 0 where it is not held back.
	withheld int
	// unservable says why the object cannot even be checked: its kind is unknown, or not for us to see.
	unservable error
}

// Input is all that a plan depends on.
type Input struct {
	App     types.NamespacedName
	Policy  Policy
	Request *v1alpha1.SyncRequest // a person's, nil where nobody asked
	// New says that this revision has not been synced whole yet.
	New bool
	// Context gives what decisions about the fields of an object depend on.
	Context func(*Desired) diff.Context
}

// Policy is what the Application's syncPolicy comes to.
type Policy struct {
	Automated, SelfHeal, Prune, AllowEmpty, Adopt, CreateNamespace bool
}

// PolicyOf reads spec.syncPolicy.
func PolicyOf(spec *v1alpha1.SyncPolicy) Policy {
	var p Policy
	if spec == nil {
		return p
	}
	if a := spec.Automated; a != nil && (a.Enabled == nil || *a.Enabled) {
		p.Automated, p.SelfHeal, p.Prune, p.AllowEmpty = true, a.SelfHeal, a.Prune, a.AllowEmpty
	}
	for _, option := range spec.SyncOptions {
		switch option {
		case "Adopt=true":
			p.Adopt = true
		case "CreateNamespace=true":
			p.CreateNamespace = true
		}
	}
	return p
}

// Decide returns how a declared object stands and what to do about it. It is pure.
func (in Input) Decide(d *Desired, o *Observed) (Step, error) {
	step := Step{ID: d.ID, Desired: d, Observed: o, Sync: v1alpha1.OutOfSync}
	state := diff.Observed{}
	if o != nil {
		state = o.State
		step.Health = o.Health
		if who := in.claimedBy(o); who != "" {
			step.Reason, step.Message = "Refused", refusal(who)
			return step, nil
		}
		if in.takenBack(&step) {
			return step, nil
		}
		if o.DeletionTimestamp != nil {
			step.Reason, step.Message = "Terminating", "is being deleted and will be made anew"+waitsFor(o)
			return step, nil
		}
	} else {
		step.Health = health.Result{Code: health.Missing, Reason: "Missing", Message: "not in the cluster"}
	}
	var err error
	step.Comparison, err = diff.Compare(d.forDiff(), state, in.Context(d), v1alpha1.FieldManager)
	if err != nil {
		return step, err
	}
	in.conclude(&step)
	return step, nil
}

// contest decides about the fields that the API server did not give us without force: ours as well as others', where Git
// changes the value. The error names those that cannot be left to their owner one by one.
func (in Input) contest(step *Step, conflicts []apply.FieldConflict) error {
	config, err := step.Desired.Config()
	if err != nil {
		return err
	}
	contested := make([]diff.Conflict, len(conflicts))
	for i, c := range conflicts {
		contested[i] = diff.Conflict{Path: c.Path, Owner: diff.Owner{Manager: c.Manager, Operation: string(metav1.ManagedFieldsOperationUpdate), Subresource: c.Subresource}}
		if c.Applies {
			contested[i].Owner.Operation = string(metav1.ManagedFieldsOperationApply)
		}
	}
	cmp, unknown, err := step.Comparison.Contest(config, step.Observed.State, contested, in.Context(step.Desired), v1alpha1.FieldManager)
	if len(unknown) > 0 {
		return fmt.Errorf("%w: %s: %s", errRefused, unknown[0].Path, unknown[0].Reason)
	}
	step.Comparison = cmp
	return err
}

// reasonByValue marks an object in sync of which only the values could be compared.
const reasonByValue = "ComparedByValue"

// conclude turns a comparison into an operation.
func (in Input) conclude(step *Step) {
	asked := in.Request != nil
	switch step.Comparison.State {
	case diff.InSync:
		step.Sync, step.Reason, step.Message = v1alpha1.Synced, "", yielded(step.Comparison)
	case diff.Held:
		step.Reason, step.Message = "Held", lostFields(step.Comparison, diff.Hold)
	case diff.Missing:
		step.Reason, step.Message = "Missing", "not in the cluster"
		if asked || in.Policy.Automated && (in.New || in.Policy.SelfHeal) {
			step.Op = OpCreate
		}
	case diff.Changed:
		step.Reason, step.Message = "Changed", "Git has another configuration"
		if asked || in.Policy.Automated && (in.New || in.Policy.SelfHeal) {
			step.Op = OpUpdate
		}
	case diff.Drifted:
		step.Reason, step.Message = "Drifted", lostFields(step.Comparison, diff.Enforce)
		if asked || in.Policy.SelfHeal {
			step.Op = OpHeal
		}
	}
	if step.Op == OpUpdate || step.Op == OpHeal {
		in.changedAgain(step)
	}
}

// claimedBy returns who else says that an object is his, "" where nobody does or a person lets us take it over.
func (in Input) claimedBy(o *Observed) string {
	switch {
	case in.Policy.Adopt:
		return ""
	case in.isOthers(o):
		return "the Application " + o.App.String()
	case o.Claimant != "" && !o.Owned:
		return o.Claimant
	}
	return ""
}

// takenBack holds an object that is not taken over once more from another Application that keeps taking it back.
func (in Input) takenBack(step *Step) bool {
	if !in.isOthers(step.Observed) {
		return false
	}
	app := step.Observed.App
	return in.holdContested(step, trackingPath, applicationOwner(app), fmt.Sprintf("the Application %s declares it too (take it out of one of them) and took it back", app))
}

// changedAgain holds an object that keeps changing, whatever is written.
func (in Input) changedAgain(step *Step) bool {
	return in.holdContested(step, wholeObject, diff.Owner{}, "it was written and has changed again")
}

// holdContested holds an object about which there is a fight as a whole.
func (in Input) holdContested(step *Step, path fieldpath.Path, o diff.Owner, what string) bool {
	contested := in.Context(step.Desired).Contested
	if contested == nil {
		return false
	}
	fight, ok := contested(path.String(), o)
	if !ok {
		return false
	}
	d := diff.Contested(what, fight)
	step.Op, step.Reason, step.Message, step.contested = OpNone, "Held", d.Reason, true
	step.Comparison.Losses = append(step.Comparison.Losses, diff.DecidedLoss{Loss: diff.Loss{Path: path, Owner: o}, Decision: d})
	return true
}

// isOthers reports whether an object says that it is another Application's.
func (in Input) isOthers(o *Observed) bool {
	return o != nil && o.App != (types.NamespacedName{}) && o.App != in.App
}

func refusal(who string) string {
	return fmt.Sprintf("belongs to %s: take it out there, or take it over with syncOptions [Adopt=true]", who)
}

func waitsFor(o *Observed) string {
	if len(o.Finalizers) == 0 {
		return ""
	}
	return "; it waits for the finalizers " + strings.Join(o.Finalizers, ", ")
}

// maxNamed bounds how many fields a message names.
const maxNamed = 3

func lostFields(c diff.Comparison, v diff.Verdict) string {
	var parts []string
	total := 0
	add := func(path, reason string) {
		if total++; total <= maxNamed {
			parts = append(parts, path+": "+reason)
		}
	}
	for _, l := range c.Losses {
		if l.Verdict == v {
			add(l.Path.String(), l.Reason)
		}
	}
	if v == diff.Enforce {
		for _, e := range c.Extras {
			add(e.Path.String(), e.Reason())
		}
	}
	if total > maxNamed {
		parts = append(parts, fmt.Sprintf("and %d more", total-maxNamed))
	}
	if total == 0 {
		return "applied in part only"
	}
	return strings.Join(parts, "; ")
}

func yielded(c diff.Comparison) string {
	for _, l := range c.Losses {
		if l.Verdict == diff.Yield {
			return l.Reason
		}
	}
	return ""
}

// guarded are the kinds that are never pruned without a person's word on the object itself: their deletion takes data
// or other people's objects along.
var guarded = map[schema.GroupKind]bool{
	{Kind: "Namespace"}:             true,
	{Kind: "PersistentVolumeClaim"}: true,
	{Kind: "PersistentVolume"}:      true,
	crdKind:                         true,
}

// Extra returns how an object stands that says it is ours but is not declared; ok is false where it is not ours.
// It is pure.
func (in Input) Extra(o *Observed, empty bool) (step Step, ok bool) {
	step = Step{ID: o.ID, Observed: o, Sync: v1alpha1.OutOfSync, Reason: "Extra", Health: o.Health}
	asked := in.Request != nil && in.Request.Prune
	switch {
	case o.App != in.App || !o.Owned || o.Controlled || o.HookRun != "":
		return step, false
	case o.DeletionTimestamp != nil:
		step.Reason, step.Message = "Terminating", "is being deleted"+waitsFor(o)
	case o.Prune == v1alpha1.PruneDisabled:
		step.Message = "no longer in Git; kept by its annotation " + v1alpha1.AnnotationPrune + "=" + v1alpha1.PruneDisabled
	case empty && !in.Policy.AllowEmpty:
		step.Message = "no longer in Git; not pruned, since the revision declares no object at all (allowEmpty is off)"
	case guarded[o.ID.GroupKind()] && o.Prune != v1alpha1.PruneConfirm:
		step.Message = fmt.Sprintf("no longer in Git; a %s is pruned only once a person has annotated it with %s=%s", o.ID.Kind, v1alpha1.AnnotationPrune, v1alpha1.PruneConfirm)
	case !asked && !in.Policy.Prune:
		step.Message = "no longer in Git; pruning is off (syncPolicy.automated.prune, or trueup sync --prune)"
	default:
		step.Op, step.Message = OpPrune, "no longer in Git"
	}
	return step, true
}

// budgetFrom is the number of objects from which on the prune budget holds.
const budgetFrom = 10

// WithinBudget takes the prunes out of steps when they are more than half of more than ten objects and no person has
// asked for them, and says so in each. total counts the objects of the Application as of its last whole sync.
func (in Input) WithinBudget(steps []*Step, total int) {
	prunes := 0
	for _, s := range steps {
		if s.Op == OpPrune {
			prunes++
		}
	}
	if in.Request != nil && in.Request.Prune || max(prunes, total) <= budgetFrom || prunes*2 <= total {
		return
	}
	for _, s := range steps {
		if s.Op == OpPrune {
			s.Op, s.withheld = OpNone, total
			s.Message = fmt.Sprintf("no longer in Git; not pruned, since that would take %d of %d objects: if it is meant, run trueup sync --prune", prunes, total)
		}
	}
}
