package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// follow calls see with the Applications of namespace (all with ""; only the one called name, unless that is "") as they
// are now, and again whenever they change, until see is done or fails, or ctx ends. Changes that arrive while see runs
// are seen once, together. A lost connection is taken up again; a refusal ends it.
func (cl *cluster) follow(ctx context.Context, namespace, name string, see func([]*v1alpha1.Application) (done bool, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	informer := cache.NewSharedIndexInformer(cl.appWatch(namespace, name), &v1alpha1.Application{}, 0, nil)
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || isNotInstalled(err) {
			cancel(err)
			return
		}
		slog.Warn("watching Applications: trying again", "error", err)
	}); err != nil {
		return err
	}
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return context.Cause(ctx)
	}
	select {
	case <-changed: // the first list, which is seen next
	default:
	}
	for {
		if done, err := see(applicationsIn(informer.GetStore())); done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (cl *cluster) appWatch(namespace, name string) *cache.ListWatch {
	client := cl.Applications(namespace)
	narrow := func(o metav1.ListOptions) metav1.ListOptions {
		if name != "" {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		}
		return o
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, narrow(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, narrow(o))
		},
	}
}

// applicationsIn returns what is in the store, sorted. They are the store's own: not to be changed.
func applicationsIn(store cache.Store) []*v1alpha1.Application {
	var apps []*v1alpha1.Application
	for _, item := range store.List() {
		apps = append(apps, item.(*v1alpha1.Application))
	}
	slices.SortFunc(apps, func(a, b *v1alpha1.Application) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return apps
}

// followOne is follow for one Application; its deletion ends it with an error.
func (cl *cluster) followOne(ctx context.Context, app *v1alpha1.Application, see func(*v1alpha1.Application) (done bool, err error)) error {
	return cl.follow(ctx, app.Namespace, app.Name, func(apps []*v1alpha1.Application) (bool, error) {
		if len(apps) == 0 {
			return false, errDeleted(app)
		}
		return see(apps[0])
	})
}
