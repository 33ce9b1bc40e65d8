package sync

import (
	"context"
	"fmt"
	gosync "sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
)

// autoscalers knows which workloads of the cluster an autoscaler targets, whoever made it: an HPA or a KEDA
// ScaledObject takes the size of a workload over, and that is to be known before it acts.
// Safe for concurrent use.
type autoscalers struct {
	clients *Clients
	kinds   *apply.Kinds
	changed func(target diff.ID)
	// settled is called when a kind's autoscalers are all known, or cannot be: whoever waits for that is not woken else.
	settled func()

	mu      gosync.RWMutex
	targets map[diff.ID]map[diff.ID]bool // target → autoscalers
	watches map[schema.GroupVersionKind]cache.ResourceEventHandlerRegistration
	err     error
}

// scaling is what is kept of one autoscaler.
type scaling struct {
	metav1.ObjectMeta
	id, target diff.ID
}

func newAutoscalers(clients *Clients, kinds *apply.Kinds, changed func(diff.ID), settled func()) *autoscalers {
	return &autoscalers{
		clients: clients, kinds: kinds, changed: changed, settled: settled,
		targets: map[diff.ID]map[diff.ID]bool{},
		watches: map[schema.GroupVersionKind]cache.ResourceEventHandlerRegistration{},
	}
}

// autoscalerKinds are the kinds of autoscalers, each with the CustomResourceDefinition that it needs.
var autoscalerKinds = map[schema.GroupVersionKind]string{hpaKind: "", scaledObjectKind: "scaledobjects.keda.sh"}

// watch starts to watch the kinds of autoscalers that are served and not watched yet; ctx ends the watches. Whether a kind
// is served is only asked where its definition may be there: the answer tells of all kinds of the cluster.
func (a *autoscalers) watch(ctx context.Context, defined func(definition string) bool) {
	for gvk, definition := range autoscalerKinds {
		if definition != "" && !defined(definition) {
			continue
		}
		kind, err := a.kinds.Of(gvk)
		if err != nil {
			continue
		}
		a.mu.Lock()
		if _, ok := a.watches[gvk]; !ok {
			informer, noted := a.informer(gvk, kind)
			a.watches[gvk] = noted
			go informer.RunWithContext(ctx)
			go func() {
				if cache.WaitFor(ctx, "", noted.HasSyncedChecker()) {
					a.settled()
				}
			}()
		}
		a.mu.Unlock()
	}
}

// informer returns the watch of a kind, and what tells when all that was there at its beginning has been noted.
func (a *autoscalers) informer(gvk schema.GroupVersionKind, kind apply.Kind) (cache.SharedIndexInformer, cache.ResourceEventHandlerRegistration) {
	resource := a.clients.Dynamic.Resource(kind.Resource)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	// Neither can fail: the informer has not been started.
	_ = informer.SetTransform(func(obj any) (any, error) { return reduceAutoscaler(gvk, obj), nil })
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		a.mu.Lock()
		first := a.err == nil
		a.err = fmt.Errorf("listing %s: %w", gvk.Kind, err)
		a.mu.Unlock()
		if first {
			a.settled()
		}
	})
	noted, _ := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.note(nil, obj.(*scaling)) },
		UpdateFunc: func(old, obj any) { a.note(old.(*scaling), obj.(*scaling)) },
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			a.note(obj.(*scaling), nil)
		},
	})
	return informer, noted
}

func reduceAutoscaler(gvk schema.GroupVersionKind, obj any) any {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	s := &scaling{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}}
	s.id = diff.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: s.Namespace, Name: s.Name}
	s.target, _ = scaleTarget(s.id, u.Object)
	return s
}

func (a *autoscalers) note(old, new *scaling) {
	if old != nil && new != nil && old.target == new.target {
		return // its status changes every few seconds: no work
	}
	a.mu.Lock()
	if old != nil {
		delete(a.targets[old.target], old.id)
		if len(a.targets[old.target]) == 0 {
			delete(a.targets, old.target)
		}
	}
	if new != nil {
		if a.targets[new.target] == nil {
			a.targets[new.target] = map[diff.ID]bool{}
		}
		a.targets[new.target][new.id] = true
	}
	a.mu.Unlock()
	if old != nil {
		a.changed(old.target)
	}
	if new != nil {
		a.changed(new.target)
	}
}

// ready reports whether all autoscalers are known; err says why they cannot be.
func (a *autoscalers) ready() (ok bool, err error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(a.watches) == 0 {
		return false, nil
	}
	for _, noted := range a.watches {
		if !noted.HasSynced() {
			return false, a.err
		}
	}
	return true, nil
}

// of names the autoscaler that targets a workload, "" where there is none.
func (a *autoscalers) of(target diff.ID) string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	name := ""
	for id := range a.targets[target] {
		// Of several the first by name, so that the answer is always the same.
		if s := id.String(); name == "" || s < name {
			name = s
		}
	}
	return name
}
