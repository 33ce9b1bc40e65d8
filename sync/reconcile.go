package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// look is one look at one Application, from gathering to reporting.
type look struct {
	key    types.NamespacedName
	app    *v1alpha1.Application // as last seen; never changed
	st     *appState
	snap   *snapshot
	now    time.Time
	source string // digest of what the Application asks for
	input  Input

	unknown map[schema.GroupKind]error // kinds whose objects are not known yet, with the reason where there is one
	blocked string                     // why nothing may be done now; "" where it may
	waiting bool                       // blocked only until what is on its way has arrived

	did              outcome
	started          time.Time
	healed           []Step    // as they stood before
	byValue          []diff.ID // objects without managed fields that have changed
	createNamespaces []string  // that are missing

	run       *hookRun  // of hooks; nil where they have no part in the pass
	hooks     []*Hook   // as they are in the run
	hold      string    // why nothing but healing may be written, for hooks; "" where more may
	hookWait  string    // what the sync waits for, for hooks; "" for nothing
	tries     int64     // of the sync that were refused before this pass
	hookDue   time.Time // when they are to be looked at again; zero for no need
	hookKinds []diff.ID // of which objects of hooks are left that Git no longer has

	rulesErr error // why the Application's health rules are not used
	deciding *Step // the object whose health is the Application's; nil where all are Healthy
}

// never is a time that does not come: only a change or a person brings the next try.
var never = time.Unix(1<<40, 0)

// reconcile makes one pass and returns when the next is due at the latest. The error is one of writing the status.
func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	app := c.application(key)
	if app == nil {
		c.forget(key)
		return 0, nil
	}
	l, all, ids := c.gather(app)
	if l.app.DeletionTimestamp != nil {
		return c.finalize(ctx, l)
	}
	before := l.st.looked
	c.compare(l, all, ids)
	if l.quiet() {
		return 0, nil
	}
	c.act(ctx, l)
	next, err := c.report(ctx, l)
	if l.snap != before && l.snap.set != nil && len(l.snap.set.Objects) >= largeSet || l.did.wrote() >= largeSet {
		// Rendering and applying take many times the memory that is kept; it would be given back only after minutes.
		debug.FreeOSMemory()
	}
	return next, err
}

// largeSet is the number of objects from which on a pass leaves garbage that is worth giving back at once.
const largeSet = 1000

func (c *Controller) forget(key types.NamespacedName) {
	c.live.use(key, nil)
	c.states.forget(key)
	c.metrics.forget(key)
}

// gather takes together what the pass is about. It sends no request.
func (c *Controller) gather(app *v1alpha1.Application) (l *look, all bool, ids map[diff.ID]bool) {
	l = &look{key: types.NamespacedName{Namespace: app.Namespace, Name: app.Name}, app: app, now: c.clock.Now()}
	l.st = c.states.of(l.key)
	if last := l.st.last; last != nil && last.UID == app.UID && newerVersion(last, app) {
		l.app = last
	}
	l.source = sourceDigest(l.app)
	l.snap, all, ids = l.st.take()
	if l.snap == nil || l.snap.source != l.source {
		l.snap = &snapshot{source: l.source}
		l.wait("the repository has not been read yet")
	}
	l.input = c.inputOf(l)
	_, l.rulesErr = c.judges.of(l.key)
	l.unknown = c.live.use(l.key, l.kinds())
	if ok, err := c.autoscalers.ready(); err != nil && !ok {
		l.block("the autoscalers of the cluster are not known: " + err.Error())
	} else if !ok {
		l.wait("the autoscalers of the cluster are not known yet")
	}
	for _, gk := range sortedKinds(l.unknown) {
		if l.unknown[gk] == nil {
			l.wait("the objects of kind " + gk.Kind + " are not known yet")
		}
	}
	if l.snap.set != nil && !l.waiting && !l.st.remembers {
		l.remember(c.live.get)
	}
	changed := l.st.looked != l.snap || l.st.generation != l.app.Generation || l.input.Request != nil || !l.now.Before(l.st.due)
	return l, all || changed, ids
}

// block notes why nothing may be done now; the first reason stands.
func (l *look) block(why string) {
	if l.blocked == "" {
		l.blocked = why
	}
}

// wait blocks until what is on its way has arrived.
func (l *look) wait(why string) {
	l.waiting = l.waiting || l.blocked == ""
	l.block(why)
}

// quiet reports whether there is nothing to say yet: an agent that has just started must not turn what was Synced into
// Unknown only to turn it back.
func (l *look) quiet() bool {
	return l.waiting && l.app.Status.ObservedGeneration == l.app.Generation && l.app.Status.Sync.Status != ""
}

// kinds are those of the present revision and those that the last passes had objects of, so that what is no longer in
// Git is found.
func (l *look) kinds() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	have := map[schema.GroupKind]bool{}
	if l.snap.set != nil {
		for _, gvk := range l.snap.set.Kinds() {
			if !have[gvk.GroupKind()] && l.snap.set.Unknown[gvk] == nil {
				have[gvk.GroupKind()] = true
				kinds = append(kinds, gvk)
			}
		}
	}
	for _, k := range l.app.Status.Kinds {
		gvk := schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
		if !have[gvk.GroupKind()] {
			have[gvk.GroupKind()] = true
			kinds = append(kinds, gvk)
		}
	}
	return kinds
}

func (c *Controller) inputOf(l *look) Input {
	in := Input{App: l.key, Policy: PolicyOf(l.app.Spec.SyncPolicy), Request: PendingRequest(l.app)}
	switch asked := l.app.Annotations[v1alpha1.AnnotationSync]; {
	case in.Request == nil:
	case in.Request.ID == l.st.answered:
		in.Request = nil
	case asked != l.snap.request:
		in.Request = nil // it waits for a look at Git: whoever asks wants what is there now
	}
	synced := l.app.Status.Sync
	in.New = synced.SyncedRevision != l.snap.revision() || !slices.Equal(synced.SyncedRevisions, l.snap.revisions()) ||
		synced.SyncedSource != syncedSource(l.source, l.snap.versions)
	if l.input = in; l.outrun() {
		l.block(outrunMessage) // which answers the request
		l.hookAgain(l.now)
	}
	policies, err := fieldPolicies(&l.app.Spec)
	if err != nil {
		l.block(err.Error())
	}
	in.Context = func(d *Desired) diff.Context { return c.contextOf(l, d, policies) }
	return in
}

func (c *Controller) contextOf(l *look, d *Desired, policies []diff.Policy) diff.Context {
	ctx := diff.Context{Object: d.ID, Policies: policies, Adopting: l.input.Policy.Adopt}
	if own, err := yieldPolicies(d); err == nil && len(own) > 0 {
		ctx.Policies = append(slices.Clip(own), policies...)
	}
	if ctx.Autoscaler = c.autoscalers.of(d.ID); ctx.Autoscaler == "" {
		ctx.Autoscaler = l.snap.set.Autoscaled[d.ID]
	}
	if l.input.Request == nil {
		ctx.Contested = l.st.contested(d, l.now)
	}
	return ctx
}

// PendingRequest returns the sync that a person asked for and that has not been answered; nil where there is none.
func PendingRequest(app *v1alpha1.Application) *v1alpha1.SyncRequest {
	raw, ok := app.Annotations[v1alpha1.AnnotationSync]
	if !ok {
		return nil
	}
	var r v1alpha1.SyncRequest
	if err := json.Unmarshal([]byte(raw), &r); err != nil || r.ID == "" {
		// Whoever writes the annotation by hand may write any word that is new.
		r = v1alpha1.SyncRequest{ID: raw}
	}
	if last := app.Status.LastRequest; last != nil && last.ID == r.ID {
		return nil
	}
	return &r
}

// compare brings the steps of the Application up to date: those of the given objects, or all of them.
func (c *Controller) compare(l *look, all bool, ids map[diff.ID]bool) {
	if l.snap.set == nil {
		return
	}
	steps := l.st.steps
	if all {
		steps = make(map[diff.ID]*Step, len(l.snap.set.Objects))
		for _, d := range l.snap.set.Objects {
			steps[d.ID] = c.step(l, d)
		}
		for _, o := range c.live.of(l.key) {
			if l.snap.set.byID[o.ID] == nil {
				c.extra(l, o, steps)
			}
		}
		l.st.look(l.snap, l.app.Generation, steps)
	}
	for id := range ids {
		if all {
			break
		}
		delete(steps, id)
		if d := l.snap.set.byID[id]; d != nil {
			steps[id] = c.step(l, d)
		} else if o := c.live.get(id); o != nil {
			c.extra(l, o, steps)
		}
	}
}

func (c *Controller) extra(l *look, o *Observed, steps map[diff.ID]*Step) {
	if l.snap.set.declares(o.ID) {
		return // a hook that was an object before, run or left out: it is not pruned behind the hook's back
	}
	if step, ok := l.input.Extra(o, len(l.snap.set.Objects) == 0); ok {
		steps[o.ID] = &step
	}
}

// step decides about one declared object.
func (c *Controller) step(l *look, d *Desired) *Step {
	unknown := func(reason, message string) *Step {
		return &Step{ID: d.ID, Desired: d, Sync: v1alpha1.SyncUnknown, Reason: reason, Message: message}
	}
	unservable := func(reason string, err error) *Step {
		step := unknown(reason, err.Error())
		step.unservable = err
		return step
	}
	switch err := l.snap.set.Unknown[d.GVK]; {
	case meta.IsNoMatchError(err):
		return unservable("UnknownKind", fmt.Errorf("%s: the cluster serves no %s %s: apply its CustomResourceDefinition, or correct the manifest", d.Origin, d.GVK.GroupVersion(), d.GVK.Kind))
	case err != nil:
		return unknown("NotDiscovered", fmt.Sprintf("%s: %v", d.Origin, err))
	}
	switch err, ok := l.unknown[d.ID.GroupKind()]; {
	case ok && err == nil:
		return unknown("Listing", "not known yet")
	case ok && apply.Classify(err) == apply.Forbidden:
		return unservable("Forbidden", fmt.Errorf("%s: %w: %s", d.Origin, err, apply.Advice(apply.Forbidden)))
	case ok:
		return unknown("NotListed", err.Error())
	}
	step, err := l.input.Decide(d, c.live.get(d.ID))
	if err != nil {
		return unknown("Unreadable", err.Error())
	}
	l.st.yielded(d, step.Comparison)
	if o := step.Observed; o != nil && step.Comparison.State == diff.InSync && o.State.Unmanaged() {
		step.Reason, step.Message = reasonByValue, "compared by value, since its API server keeps no managed fields: who changes it cannot be told"
		if l.st.values[d.ID] != o.ResourceVersion {
			l.byValue = append(l.byValue, d.ID)
		}
	}
	if f := l.st.failures[d.ID]; f != nil && step.Op == OpNone && step.Sync == v1alpha1.Synced {
		delete(l.st.failures, d.ID)
	}
	return &step
}

func sortedKinds(m map[schema.GroupKind]error) []schema.GroupKind {
	kinds := make([]schema.GroupKind, 0, len(m))
	for gk := range m {
		kinds = append(kinds, gk)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int {
		return diff.ID{Group: a.Group, Kind: a.Kind}.Compare(diff.ID{Group: b.Group, Kind: b.Kind})
	})
	return kinds
}
