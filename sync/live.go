package sync

import (
	"context"
	"fmt"
	"maps"
	gosync "sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// live is the observed state of all managed objects: one watch for each kind in use, selected by our label, so that it
// costs what is managed and not what is in the cluster. Kinds without health are watched as metadata only.
// Safe for concurrent use.
type live struct {
	clients *Clients
	kinds   *apply.Kinds
	judges  *judges
	// changed is called for each event that can change a verdict; either may be nil.
	changed func(old, new *Observed)
	// settled is called when a kind's list has arrived, or cannot be had.
	settled func(schema.GroupKind)

	mu      gosync.RWMutex
	ctx     context.Context // ends all watches
	watches map[schema.GroupKind]*kindWatch
	assumed map[diff.ID]assumption // what our own writes answered, until the watch has caught up
	gone    map[diff.ID]types.UID  // what we have deleted, until the watch has caught up
	buried  map[diff.ID]types.UID  // what the watch has last told to be deleted: a late answer does not bring it back
}

type assumption struct {
	*Observed
	until time.Time
}

// assumeFor bounds how long an answer is believed without the watch telling: the object may have been deleted before
// the answer was taken in.
const assumeFor = 30 * time.Second

type kindWatch struct {
	gvk      schema.GroupVersionKind
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	users    map[types.NamespacedName]bool
	err      error      // why the list has not arrived
	next     *kindWatch // what takes its place, once its list has arrived
}

const byApp = "app"

func newLive(clients *Clients, kinds *apply.Kinds, judges *judges) *live {
	return &live{
		clients: clients, kinds: kinds, judges: judges,
		watches: map[schema.GroupKind]*kindWatch{},
		assumed: map[diff.ID]assumption{},
		gone:    map[diff.ID]types.UID{},
		buried:  map[diff.ID]types.UID{},
	}
}

// use makes sure that exactly the given kinds are watched for app, and returns those whose state is not known yet,
// each with the reason where there is one. It does not wait: settled is called when that changes.
func (l *live) use(app types.NamespacedName, gvks []schema.GroupVersionKind) map[schema.GroupKind]error {
	l.mu.Lock()
	defer l.mu.Unlock()
	unknown := map[schema.GroupKind]error{}
	wanted := map[schema.GroupKind]bool{}
	for _, gvk := range gvks {
		gk := gvk.GroupKind()
		wanted[gk] = true
		w, err := l.watch(gvk)
		if err != nil {
			unknown[gk] = err
			continue
		}
		w.users[app] = true
		if !w.informer.HasSynced() {
			unknown[gk] = w.err
		}
	}
	for gk, w := range l.watches {
		if !wanted[gk] {
			delete(w.users, app)
			if len(w.users) == 0 {
				l.drop(gk)
			}
		}
	}
	return unknown
}

func (l *live) watch(gvk schema.GroupVersionKind) (*kindWatch, error) {
	if w, ok := l.watches[gvk.GroupKind()]; ok {
		return w, nil
	}
	kind, err := l.kinds.Of(gvk)
	if err != nil {
		return nil, err
	}
	if !kind.Watchable {
		return nil, fmt.Errorf("%s cannot be listed and watched: it cannot be managed", gvk.Kind)
	}
	ctx, cancel := context.WithCancel(l.ctx)
	w := &kindWatch{gvk: gvk, stop: cancel, users: map[types.NamespacedName]bool{}}
	if w.informer, err = l.informer(gvk, kind); err != nil {
		cancel()
		return nil, err
	}
	l.watches[gvk.GroupKind()] = w
	go w.informer.RunWithContext(ctx)
	go func() {
		if cache.WaitFor(ctx, "", w.informer.HasSyncedChecker()) {
			l.settled(gvk.GroupKind())
		}
	}()
	return w, nil
}

// informer watches whole objects where there is a health to judge, else their metadata.
func (l *live) informer(gvk schema.GroupVersionKind, kind apply.Kind) (cache.SharedIndexInformer, error) {
	selector := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector = v1alpha1.LabelApp
		return o
	}
	var example runtime.Object = &metav1.PartialObjectMetadata{}
	judge := l.judges.judge
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return l.clients.Metadata.Resource(kind.Resource).List(ctx, selector(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return l.clients.Metadata.Resource(kind.Resource).Watch(ctx, selector(o))
		},
	}
	if l.judges.judged(gvk.GroupKind()) {
		example = &unstructured.Unstructured{}
		lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return l.clients.Dynamic.Resource(kind.Resource).List(ctx, selector(o))
		}
		lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return l.clients.Dynamic.Resource(kind.Resource).Watch(ctx, selector(o))
		}
	} else {
		judge = nil
	}
	informer := cache.NewSharedIndexInformer(lw, example, 0, cache.Indexers{byApp: func(obj any) ([]string, error) {
		return []string{obj.(*Observed).App.String()}, nil
	}})
	gk := diff.ID{Group: gvk.Group, Kind: gvk.Kind}
	err := informer.SetTransform(func(obj any) (any, error) {
		o, ok := obj.(metav1.Object)
		if _, done := obj.(*Observed); done || !ok {
			return obj, nil
		}
		return observe(gk, o, judge), nil
	})
	if err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		l.failed(gvk.GroupKind(), err)
	}); err != nil {
		return nil, err
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.event(nil, obj.(*Observed)) },
		UpdateFunc: func(old, obj any) { l.event(old.(*Observed), obj.(*Observed)) },
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			l.event(obj.(*Observed), nil)
		},
	})
	return informer, err
}

// failed notes why a kind cannot be listed or watched. A kind that is no longer served is dropped, so that nobody
// takes what was last seen of it for the present.
func (l *live) failed(gk schema.GroupKind, err error) {
	gvk, versionErr := l.version(gk)
	gone := versionErr == nil && apierrors.IsNotFound(err) && l.kinds.Gone(gvk)
	l.mu.Lock()
	w, ok := l.watches[gk]
	if ok {
		w.err = fmt.Errorf("listing %s: %w", gk.Kind, err)
		if gone {
			l.drop(gk)
		}
	}
	report := ok && !w.informer.HasSynced() || ok && l.watches[gk] == nil
	l.mu.Unlock()
	if report {
		l.settled(gk)
	}
}

func (l *live) drop(gk schema.GroupKind) {
	maps.DeleteFunc(l.buried, func(id diff.ID, _ types.UID) bool { return id.GroupKind() == gk })
	w := l.watches[gk]
	w.stop()
	if w.next != nil {
		w.next.stop()
	}
	delete(l.watches, gk)
}

func (l *live) event(old, new *Observed) {
	l.mu.Lock()
	seen := new
	if seen == nil {
		seen = old
	}
	if a, ok := l.assumed[seen.ID]; ok && (seen.newer(a.Observed) || new == nil && seen.UID == a.UID) {
		delete(l.assumed, seen.ID)
	}
	delete(l.gone, seen.ID)
	delete(l.buried, seen.ID)
	if new == nil {
		l.buried[seen.ID] = seen.UID
	}
	l.mu.Unlock()
	if old == nil || new == nil || !old.sameVerdict(new) {
		l.changed(old, new)
	}
}

// get returns what is known of an object, nil where it is not there.
func (l *live) get(id diff.ID) *Observed {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.overlay(id, l.stored(id))
}

func (l *live) stored(id diff.ID) *Observed {
	w, ok := l.watches[id.GroupKind()]
	if !ok {
		return nil
	}
	key := id.Name
	if id.Namespace != "" {
		key = id.Namespace + "/" + id.Name
	}
	obj, exists, err := w.informer.GetIndexer().GetByKey(key)
	if err != nil || !exists {
		return nil
	}
	return obj.(*Observed)
}

// overlay puts what our own writes have answered on top of what the watch has told so far.
func (l *live) overlay(id diff.ID, o *Observed) *Observed {
	if a, ok := l.assumed[id]; ok && (o == nil || !o.newer(a.Observed)) && time.Now().Before(a.until) {
		o = a.Observed
	}
	// The watch may have told of the deletion before the answer to it was taken in.
	if uid, ok := l.gone[id]; ok && o != nil && o.UID == uid && o.DeletionTimestamp == nil {
		return nil
	}
	return o
}

// of returns all objects of the watched kinds that say they belong to app.
func (l *live) of(app types.NamespacedName) []*Observed {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var all []*Observed
	for _, w := range l.watches {
		objs, err := w.informer.GetIndexer().ByIndex(byApp, app.String())
		if err != nil {
			continue // not reached: the index is there from the start
		}
		for _, obj := range objs {
			o := obj.(*Observed)
			if o = l.overlay(o.ID, o); o != nil && o.App == app {
				all = append(all, o)
			}
		}
	}
	return all
}

// wrote takes in the API server's answer to a write of ours, so that the next verdict knows of it even before the
// watch tells.
func (l *live) wrote(u *unstructured.Unstructured) *Observed {
	gvk := u.GroupVersionKind()
	o := observe(diff.ID{Group: gvk.Group, Kind: gvk.Kind}, u, l.judges.judge)
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.watches[gvk.GroupKind()]; ok && w.informer.HasSynced() {
		if stored := l.stored(o.ID); l.buried[o.ID] != o.UID && (stored == nil || !stored.newer(o)) {
			l.assumed[o.ID] = assumption{o, time.Now().Add(assumeFor)}
		}
	}
	delete(l.gone, o.ID)
	return o
}

// deleted takes in that we have deleted an object, until the watch tells whether it is gone or is kept by a finalizer.
func (l *live) deleted(id diff.ID, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.assumed, id)
	if o := l.stored(id); o != nil && o.UID == uid {
		l.gone[id] = uid
	}
}

// version returns the version in which a kind is watched.
func (l *live) version(gk schema.GroupKind) (schema.GroupVersionKind, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if w, ok := l.watches[gk]; ok {
		return w.gvk, nil
	}
	return schema.GroupVersionKind{}, &meta.NoKindMatchError{GroupKind: gk}
}
