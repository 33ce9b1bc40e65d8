package sync

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

var claimKind = schema.GroupKind{Kind: "PersistentVolumeClaim"}

// storageClasses know which storage classes bind their claims only once a pod uses them. There are a handful in a
// cluster, and of each no more than its name and that is kept.
type storageClasses struct {
	informer cache.SharedIndexInformer
}

func newStorageClasses(clients *Clients) *storageClasses {
	client := clients.Kube.StorageV1().StorageClasses()
	s := &storageClasses{informer: cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return client.Watch(ctx, o) },
	}, &storagev1.StorageClass{}, 0, cache.Indexers{})}
	// Cannot fail: the informer has not been started.
	_ = s.informer.SetTransform(func(obj any) (any, error) {
		class, ok := obj.(*storagev1.StorageClass)
		if !ok {
			return obj, nil
		}
		kept := metav1.ObjectMeta{Name: class.Name, UID: class.UID, ResourceVersion: class.ResourceVersion}
		return &storagev1.StorageClass{ObjectMeta: kept, VolumeBindingMode: class.VolumeBindingMode}, nil
	})
	return s
}

// run watches until ctx ends. changed is called when claims have to be judged anew.
func (s *storageClasses) run(ctx context.Context, changed func()) {
	// Cannot fail: the informer has not been stopped.
	_, _ = s.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial {
				changed()
			}
		},
		UpdateFunc: func(old, obj any) {
			if waitsForConsumer(old.(*storagev1.StorageClass)) != waitsForConsumer(obj.(*storagev1.StorageClass)) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	})
	go s.informer.RunWithContext(ctx)
	if cache.WaitFor(ctx, "", s.informer.HasSyncedChecker()) {
		changed()
	}
}

// waits answers as health.Options want it. A class that is not there is known not to wait.
func (s *storageClasses) waits(class string) (waits, known bool) {
	if !s.informer.HasSynced() {
		return false, false
	}
	obj, exists, err := s.informer.GetStore().GetByKey(class)
	return err == nil && exists && waitsForConsumer(obj.(*storagev1.StorageClass)), err == nil
}

func waitsForConsumer(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// listStorageClasses answers as health.Options want it, from one list.
func listStorageClasses(ctx context.Context, clients *Clients) func(class string) (waits, known bool) {
	list, err := clients.Kube.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	waiting := map[string]bool{}
	for i := range list.Items {
		waiting[list.Items[i].Name] = waitsForConsumer(&list.Items[i])
	}
	return func(class string) (bool, bool) { return waiting[class], true }
}
