package sync

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	gosync "sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/source/mask"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// Change is how one object stands, and what it is and would be.
type Change struct {
	Step
	// Live is the object as it is stored; nil where it is not there.
	Live *unstructured.Unstructured
	// Next is the object as a sync would leave it, by the API server's own dry-run; nil where it would be deleted, or
	// Err says why it cannot be told. For an object in sync it is Live.
	Next *unstructured.Unstructured
	// Err is why the API server would refuse the object.
	Err error
	// Managed are the live object's managed fields, which tell who changed what.
	Managed []metav1.ManagedFieldsEntry

	mask *mask.Mask
}

// Preview is what a sync of an Application would do.
type Preview struct {
	Revision string
	Changes  []Change // in the order in which they would be made
	Hooks    []HookChange
	// HooksDue says that a sync runs the hooks also where nobody asks for one.
	HooksDue bool
}

// HookChange is a hook that a sync would run, in the order in which they run.
type HookChange struct {
	Phase source.HookPhase
	ID    diff.ID
	// Err is why it cannot be run.
	Err error
}

// previewer looks at the cluster on demand, with the rights of whoever asks.
type previewer struct {
	clients  *Clients
	kinds    *apply.Kinds
	writer   *apply.Writer
	app      *v1alpha1.Application
	revision string // of set
	set      *DesiredSet
	input    Input
	judge    judgeFunc
	targets  map[diff.ID]string
	mask     *mask.Mask // of what in set came from Secrets
}

// previewAtOnce bounds the requests that run at once.
const previewAtOnce = 8

// Newest, as a revision to render, is the one that each source of an Application follows, as it is now.
const Newest = "the newest revision" // with blanks: no branch or tag is called so

// Render reads an Application's sources at a revision: "" for those it was last compared with or else those it follows,
// or Newest. It blocks on the Git servers. What the agent would refuse for its signature is an error here too.
func Render(ctx context.Context, clients *Clients, repositories *source.Repositories, app *v1alpha1.Application, revision string) (commit string, rendered *source.Rendered, err error) {
	revisions, err := renderedRevisions(app, revision)
	if err != nil {
		return "", nil, err
	}
	r := &reader{clients: clients, repositories: repositories, kinds: apply.NewKinds(clients.Kube.Discovery(), clock.RealClock{}), submoduleHosts: DefaultConfig().SubmoduleHosts}
	r.templates = func(ctx context.Context) (source.Templates, error) { return readTemplates(ctx, clients, app.Namespace) }
	picks, err := r.resolve(ctx, app, revisions, time.Minute)
	if err != nil {
		return "", nil, err
	}
	// What the agent compares with it has verified, and a commit is no tag any more.
	if revision != "" || app.Status.Sync.Revision == "" {
		if err := r.verify(ctx, app, picks); err != nil {
			return "", nil, err
		}
	}
	vars, err := r.variables(ctx, app)
	if err != nil {
		return "", nil, err
	}
	trees, err := r.trees(ctx, picks)
	if err != nil {
		return "", nil, err
	}
	out, err := r.render(ctx, app, picks, trees, vars)
	if err != nil {
		return "", nil, err
	}
	return picks[0].revision.Commit, out.merged(), nil
}

// renderedRevisions returns the revision to render of each source; none for those they follow.
func renderedRevisions(app *v1alpha1.Application, revision string) ([]string, error) {
	several := len(app.Spec.Sources) > 1
	switch compared := app.Status.Sync; {
	case revision == Newest:
		return nil, nil
	case revision != "" && several:
		return nil, fmt.Errorf("%s/%s has %d sources, and a revision is of one: it can be told only how they stand together", app.Namespace, app.Name, len(app.Spec.Sources))
	case revision != "":
		return []string{revision}, nil
	case several && len(compared.Revisions) == len(app.Spec.Sources):
		return compared.Revisions, nil
	case several || compared.Revision == "":
		return nil, nil
	default:
		return []string{compared.Revision}, nil
	}
}

// merged is the rendering as if there were one source.
func (r *rendering) merged() *source.Rendered {
	if len(r.rendered) == 1 {
		return r.rendered[0]
	}
	all := &source.Rendered{Objects: r.objects, LeftOut: r.leftOut, Secrets: r.secrets, Warnings: r.warnings()}
	for i, one := range r.rendered {
		name := r.prefix(i)
		for _, in := range one.Inputs {
			in.Path = name + in.Path
			all.Inputs = append(all.Inputs, in)
		}
		all.UsesCluster = all.UsesCluster || one.UsesCluster
		if one.Empty != "" && len(all.Objects) == 0 {
			all.Empty = one.Empty
		}
	}
	return all
}

// NewPreview tells what a sync of app to a revision would do ("" as in Render), as if a person had asked for it.
// Nothing is written: objects that a sync would touch are dry-run with the caller's rights.
func NewPreview(ctx context.Context, clients *Clients, repositories *source.Repositories, app *v1alpha1.Application, revision string, prune bool) (*Preview, error) {
	p, err := newPreviewer(ctx, clients, repositories, app, revision)
	if err != nil {
		return nil, err
	}
	p.input.Request.Prune = prune
	preview := &Preview{Revision: p.revision, Changes: p.declared(ctx), Hooks: p.hooks(ctx)}
	preview.HooksDue = len(p.set.Hooks) > 0 && p.set.state != app.Status.Sync.SyncedState
	extras, err := p.extras(ctx)
	if err != nil {
		return nil, err
	}
	preview.Changes = append(preview.Changes, extras...)
	for i := range preview.Changes {
		c := &preview.Changes[i]
		c.mask, c.Err, c.Message = p.mask, p.mask.Error(c.Err), p.mask.Text(c.Message)
	}
	return preview, nil
}

func newPreviewer(ctx context.Context, clients *Clients, repositories *source.Repositories, app *v1alpha1.Application, revision string) (*previewer, error) {
	commit, rendered, err := Render(ctx, clients, repositories, app, revision)
	if err != nil {
		return nil, err
	}
	kinds := apply.NewKinds(clients.Kube.Discovery(), clock.RealClock{})
	p := &previewer{clients: clients, kinds: kinds, app: app, revision: commit, targets: map[diff.ID]string{}}
	p.mask = mask.New(rendered.Secrets)
	p.writer = apply.NewWriter(clients.Dynamic, kinds, v1alpha1.FieldManager, previewAtOnce)
	key := types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
	if p.set, err = newDesiredSet(rendered.Objects, key, app.Spec.Destination.Namespace, kinds); err != nil {
		return nil, p.mask.Error(err)
	}
	p.set.leaveOut(rendered.LeftOut, app.Spec.Destination.Namespace)
	policies, err := fieldPolicies(&app.Spec)
	if err != nil {
		return nil, err
	}
	judge, err := NewJudge(ctx, clients, kinds, app)
	if err != nil {
		return nil, err
	}
	p.judge = func(_ types.NamespacedName, u *unstructured.Unstructured) health.Result { return judge.Of(u) }
	if err := p.autoscalers(ctx); err != nil {
		return nil, err
	}
	p.input = Input{App: key, Policy: PolicyOf(app.Spec.SyncPolicy), Request: &v1alpha1.SyncRequest{}, New: true}
	p.input.Context = func(d *Desired) diff.Context {
		c := diff.Context{Object: d.ID, Policies: policies, Adopting: p.input.Policy.Adopt, Autoscaler: cmp.Or(p.targets[d.ID], p.set.Autoscaled[d.ID])}
		if own, err := yieldPolicies(d); err == nil {
			c.Policies = append(slices.Clip(own), policies...)
		}
		return c
	}
	return p, nil
}

func (p *previewer) autoscalers(ctx context.Context) error {
	for _, gvk := range []schema.GroupVersionKind{hpaKind, scaledObjectKind} {
		kind, err := p.kinds.Of(gvk)
		if err != nil {
			continue // not served
		}
		list, err := p.clients.Dynamic.Resource(kind.Resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing %s, to know whose the replicas are: %w", gvk.Kind, err)
		}
		for _, u := range list.Items {
			noteAutoscaler(p.targets, diff.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}, u.Object)
		}
	}
	return nil
}

// declared looks at each declared object, several at once.
func (p *previewer) declared(ctx context.Context) []Change {
	changes := make([]Change, len(p.set.Objects))
	slots := make(chan struct{}, previewAtOnce)
	var wg gosync.WaitGroup
	for i, d := range p.set.Objects {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			changes[i] = p.change(ctx, d)
		})
	}
	wg.Wait()
	return changes
}

func (p *previewer) change(ctx context.Context, d *Desired) Change {
	failed := func(reason string, err error) Change {
		return Change{Step: Step{ID: d.ID, Desired: d, Sync: v1alpha1.SyncUnknown, Reason: reason, Message: err.Error()}, Err: err}
	}
	config, err := d.Config()
	if err != nil {
		return failed("Unreadable", err)
	}
	u := &unstructured.Unstructured{Object: config}
	live, err := p.writer.Get(ctx, u)
	var o *Observed
	switch {
	case err == nil:
		d.keepRandom(config, live)
		o = observeWhole(d.ID, live, p.judge)
	case meta.IsNoMatchError(err):
		return failed("UnknownKind", fmt.Errorf("%s: %w", d.Origin, err))
	case !apierrors.IsNotFound(err):
		return failed("NotRead", err)
	}
	step, err := p.input.Decide(d, o)
	if err != nil {
		return failed("Unreadable", err)
	}
	c := Change{Step: step, Live: live, Next: live}
	if o == nil {
		c.Live = nil
	} else {
		c.Managed = o.State.Managed
	}
	if step.Op != OpNone {
		c.Next, c.Err = p.next(ctx, &c.Step, config, live)
	}
	return c
}

// next is the object as a sync would leave it.
func (p *previewer) next(ctx context.Context, step *Step, config map[string]any, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if len(step.Comparison.Extras) > 0 {
		return step.Comparison.Restore(config, live, v1alpha1.FieldManager)
	}
	dryRun := func() (*unstructured.Unstructured, error) {
		return p.writer.DryRun(ctx, &apply.Object{Config: &unstructured.Unstructured{Object: step.Comparison.Apply(config)}, Force: step.Comparison.Forced()})
	}
	next, err := dryRun()
	if conflicts := apply.FieldConflicts(err); len(conflicts) > 0 && step.Observed != nil {
		if err = p.input.contest(step, conflicts); err == nil {
			next, err = dryRun()
		}
	}
	if len(apply.RefusedFields(err)) > 0 && step.Observed != nil {
		if err = untangleStep(ctx, p.writer, step, live, p.input.Context(step.Desired), err); err == nil {
			next, err = step.Comparison.Restore(config, live, v1alpha1.FieldManager)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", step.Desired.Origin, err)
	}
	return next, nil
}

// hooks tries by a dry-run whether the hooks can be run.
func (p *previewer) hooks(ctx context.Context) []HookChange {
	hooks, err := p.set.hooksOf("preview")
	if err != nil {
		return []HookChange{{Err: err}}
	}
	hooks = runWell(hooks)
	changes := make([]HookChange, len(hooks))
	for i, h := range hooks {
		changes[i] = HookChange{Phase: h.Phase, ID: h.ID}
		u, err := h.config("preview")
		if err == nil {
			_, err = p.writer.CreateNew(ctx, u, true)
		}
		if apierrors.IsAlreadyExists(err) {
			var live *unstructured.Unstructured
			if live, err = p.writer.Get(ctx, u); err == nil {
				if o := observe(diff.ID{Group: h.ID.Group, Kind: h.ID.Kind}, live, p.judge); o.App != p.input.App || o.HookRun == "" || !keptHook(o) && !mayClear(h, o) {
					err = inTheWay(h, o, p.input.App)
				}
			}
		}
		if err != nil {
			changes[i].Err = p.mask.Error(fmt.Errorf("%s: the %s: %w", h.Origin, h.name(), err))
		}
	}
	return changes
}

// extras are the objects that a sync would prune, or would keep though they are no longer in Git.
func (p *previewer) extras(ctx context.Context) ([]Change, error) {
	var changes []Change
	var steps []*Step
	for _, k := range p.app.Status.Kinds {
		gvk := schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
		kind, err := p.kinds.Of(gvk)
		if err != nil {
			continue // not served: nothing of it can be there
		}
		list, err := p.clients.Dynamic.Resource(kind.Resource).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelApp + "=" + p.app.Name})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			u := &list.Items[i]
			o := observe(diff.ID{Group: gvk.Group, Kind: gvk.Kind}, u, p.judge)
			if p.set.declares(o.ID) {
				continue
			}
			if step, ok := p.input.Extra(o, len(p.set.Objects) == 0); ok {
				changes = append(changes, Change{Step: step, Live: u, Next: u, Managed: u.GetManagedFields()})
			}
		}
	}
	for i := range changes {
		steps = append(steps, &changes[i].Step)
	}
	total := len(p.set.Objects) + len(changes)
	if synced := p.app.Status.Sync.SyncedObjects; synced > 0 {
		total = min(total, synced)
	}
	p.input.WithinBudget(steps, total)
	for i := range changes {
		if changes[i].Op == OpPrune {
			changes[i].Next = nil
		}
	}
	return changes, nil
}
