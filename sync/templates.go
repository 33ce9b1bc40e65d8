package sync

import (
	"context"
	"fmt"
	"log/slog"
	gosync "sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/trueup/trueup/source"
)

// templates are the credential templates in one namespace, kept by a watch: no look at a repository costs a request.
// Safe for concurrent use.
type templates struct {
	namespace string
	informer  cache.SharedIndexInformer // nil where there is no namespace
	log       *slog.Logger
	changed   func(source.Template) // told of each template that comes, goes or changes

	mu     gosync.Mutex
	byName map[string]source.Template
	err    error // why they are not known yet
}

func newTemplates(clients *Clients, namespace string, log *slog.Logger, changed func(source.Template)) *templates {
	t := &templates{namespace: namespace, log: log, changed: changed, byName: map[string]source.Template{}}
	if namespace == "" {
		return t
	}
	secrets := clients.Kube.CoreV1().Secrets(namespace)
	t.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = templateSelector
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = templateSelector
			return secrets.Watch(ctx, o)
		},
	}, &corev1.Secret{}, 0, cache.Indexers{})
	// None of these can fail: the informer has not been started.
	_ = t.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { t.failed(err) })
	_, _ = t.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { t.take(obj.(*corev1.Secret)) },
		UpdateFunc: func(_, obj any) { t.take(obj.(*corev1.Secret)) },
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				t.set(key.Name, nil)
			}
		},
	})
	return t
}

func (t *templates) run(ctx context.Context) {
	if t.informer != nil {
		t.informer.RunWithContext(ctx)
	}
}

func (t *templates) failed(err error) {
	t.mu.Lock()
	first := t.err == nil
	t.err = fmt.Errorf("reading the Secrets of namespace %s: %w", t.namespace, err)
	t.mu.Unlock()
	if first && !t.informer.HasSynced() {
		t.log.Warn("credential templates cannot be read; Applications that name no Secret get no credentials", "namespace", t.namespace, "error", err)
	}
}

func (t *templates) take(s *corev1.Secret) {
	next, err := newTemplate(t.namespace, s.Name, s.Data)
	if err != nil {
		t.log.Warn("a credential template is not used", "error", err)
		t.set(s.Name, nil)
		return
	}
	t.set(s.Name, &next)
}

// set replaces a template; nil takes it away.
func (t *templates) set(name string, next *source.Template) {
	t.mu.Lock()
	old, had := t.byName[name]
	delete(t.byName, name)
	if next != nil {
		t.byName[name] = *next
	}
	t.mu.Unlock()
	if had {
		t.changed(old)
	}
	if next != nil {
		t.changed(*next)
	}
}

// templatesPatience is how long a look waits for the first list.
const templatesPatience = 10 * time.Second

// all returns the templates. It blocks until they are known, or known not to be readable.
func (t *templates) all(ctx context.Context) (source.Templates, error) {
	if t.informer == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, templatesPatience)
	defer cancel()
	for !t.informer.HasSynced() {
		t.mu.Lock()
		err := t.err
		t.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the credential templates: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var list source.Templates
	for _, template := range t.byName {
		list = append(list, template)
	}
	return list, nil
}
