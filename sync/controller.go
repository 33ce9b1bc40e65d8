package sync

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/source/webhook"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// Controller keeps the Applications of one cluster true to Git. An Agent runs it.
type Controller struct {
	config       Config
	clients      *Clients
	log          *slog.Logger
	clock        clock.WithTicker
	kinds        *apply.Kinds
	writer       *apply.Writer
	repositories *source.Repositories
	templates    *templates
	reader       *reader
	metrics      *metrics
	recorder     events.EventRecorder
	causes       *rate.Limiter

	apps        cache.SharedIndexInformer
	definitions cache.SharedIndexInformer // of kinds: CustomResourceDefinitions
	judges      *judges
	classes     *storageClasses
	live        *live
	autoscalers *autoscalers
	states      *states

	leading atomic.Bool        // this agent looks after the Applications
	relayed chan webhook.Event // calls to tell the leader of

	queue        workqueue.TypedRateLimitingInterface[types.NamespacedName] // Applications to reconcile
	fetches      workqueue.TypedDelayingInterface[types.NamespacedName]     // Applications to look at Git for
	fetchBackoff workqueue.TypedRateLimiter[types.NamespacedName]
}

// newController returns a Controller that has not asked anything yet.
func newController(config Config, clients *Clients, kinds *apply.Kinds, judge *health.Judge, classes *storageClasses, metrics *metrics, log *slog.Logger) *Controller {
	c := &Controller{
		config:  config,
		clients: clients,
		kinds:   kinds,
		log:     log,
		clock:   clock.RealClock{},
		metrics: metrics,
		classes: classes,
		causes:  rate.NewLimiter(causesPerSecond, causesAtOnce),
		relayed: make(chan webhook.Event, relayedAtOnce),
		states:  &states{apps: map[types.NamespacedName]*appState{}},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, 15*time.Second)),
		fetches:      workqueue.NewTypedDelayingQueue[types.NamespacedName](),
		fetchBackoff: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Second, 3*time.Minute),
	}
	c.writer = apply.NewWriter(clients.Dynamic, c.kinds, v1alpha1.FieldManager, config.Concurrency)
	remotes, err := source.NewAllowedRemotes(config.KustomizeAllowedRemotes)
	if err != nil {
		remotes = source.AllowedRemotes{} // not reached: Validate refuses it
	}
	c.repositories = source.NewRepositories(config.CacheDir, source.RepositoriesOptions{
		Timeout: config.GitTimeout, MaxBytes: config.MaxRepositoryBytes, Remotes: remotes,
		OnRefs: c.metrics.asked, OnFetch: c.metrics.fetched,
	})
	c.templates = newTemplates(clients, config.CredentialsNamespace, log, c.templateChanged)
	c.reader = &reader{
		clients: clients, repositories: c.repositories, templates: c.templates.all,
		submoduleHosts: config.SubmoduleHosts, kinds: c.kinds, rendered: c.metrics.rendered,
	}
	c.metrics.watchApplications(c.applications)
	c.judges = &judges{agent: judge, application: c.application, applications: c.applications, own: map[types.NamespacedName]ownRules{}}
	c.live = newLive(clients, c.kinds, c.judges)
	c.live.changed, c.live.settled = c.objectChanged, func(schema.GroupKind) { c.wakeAll() }
	c.autoscalers = newAutoscalers(clients, c.kinds, c.targetChanged, c.wakeAll)
	c.apps, c.definitions = c.applicationInformer(), c.definitionInformer()
	return c
}

// Run looks after the Applications until ctx is done, and then lets each pass that has begun come to its end.
// It returns an error when the API server does not let it see the Applications.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	defer c.fetches.ShutDown()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.clients.Kube.EventsV1()})
	c.recorder = broadcaster.NewRecorder(scheme, "trueup")
	broadcaster.StartRecordingToSink(ctx.Done())
	defer broadcaster.Shutdown()

	c.live.ctx = ctx
	c.leading.Store(true)
	defer c.leading.Store(false)
	go c.apps.RunWithContext(ctx)
	go c.definitions.RunWithContext(ctx)
	go c.templates.run(ctx)
	go c.classes.run(ctx, c.claimsChanged)
	go wait.UntilWithContext(ctx, func(ctx context.Context) { c.autoscalers.watch(ctx, c.defined) }, 10*time.Second)
	go wait.UntilWithContext(ctx, c.pruneClones, time.Hour)
	if !cache.WaitFor(ctx, "", c.apps.HasSyncedChecker()) {
		return ctx.Err()
	}
	done := make(chan struct{})
	workers := 0
	start := func(run func()) {
		workers++
		go func() { run(); done <- struct{}{} }()
	}
	for range c.config.Workers {
		start(func() { c.work(ctx) })
		start(func() { c.fetchWork(ctx) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	c.fetches.ShutDown()
	for range workers {
		<-done
	}
	return nil
}

// cloneUnused is how long a clone is kept that no Application asks for.
const cloneUnused = 24 * time.Hour

func (c *Controller) pruneClones(context.Context) {
	removed, err := c.repositories.Prune(cloneUnused)
	if err != nil {
		c.log.Warn("removing clones that nobody uses", "error", err)
	} else if removed > 0 {
		c.log.Info("removed clones that nobody uses", "clones", removed)
	}
}

func (c *Controller) work(ctx context.Context) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		c.pass(ctx, key)
		c.queue.Done(key)
	}
}

// pass is one pass of the loop for one Application, and when the next one is due.
func (c *Controller) pass(ctx context.Context, key types.NamespacedName) {
	start := c.clock.Now()
	next, err := c.reconcile(ctx, key)
	c.metrics.reconciled(c.clock.Since(start), err)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.log.Warn("reconciling", "application", key.String(), "error", err)
		c.queue.AddRateLimited(key)
	default:
		c.queue.Forget(key)
		if next > 0 {
			c.queue.AddAfter(key, next)
		}
	}
}

func (c *Controller) fetchWork(ctx context.Context) {
	for {
		key, shutdown := c.fetches.Get()
		if shutdown {
			return
		}
		if again := c.refresh(ctx, key); again > 0 {
			c.fetches.AddAfter(key, again)
		}
		c.fetches.Done(key)
	}
}

// application returns the Application as the watch last told, nil where it is gone. It must not be changed.
func (c *Controller) application(key types.NamespacedName) *v1alpha1.Application {
	obj, exists, err := c.apps.GetIndexer().GetByKey(key.String())
	if err != nil || !exists {
		return nil
	}
	return obj.(*v1alpha1.Application)
}

func (c *Controller) applications() []*v1alpha1.Application {
	var apps []*v1alpha1.Application
	for _, obj := range c.apps.GetStore().List() {
		apps = append(apps, obj.(*v1alpha1.Application))
	}
	return apps
}

func (c *Controller) applicationInformer() cache.SharedIndexInformer {
	client := c.clients.Applications(c.config.ApplicationNamespace)
	narrow := func(o metav1.ListOptions) metav1.ListOptions {
		if c.config.ApplicationName != "" {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", c.config.ApplicationName).String()
		}
		return o
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, narrow(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, narrow(o))
		},
	}, &v1alpha1.Application{}, 0, cache.Indexers{})
	// Cannot fail: the informer has not been started.
	_ = informer.SetTransform(func(obj any) (any, error) {
		if app, ok := obj.(*v1alpha1.Application); ok {
			app.ManagedFields = nil
		}
		return obj, nil
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.applicationChanged(nil, obj.(*v1alpha1.Application)) },
		UpdateFunc: func(old, obj any) { c.applicationChanged(old.(*v1alpha1.Application), obj.(*v1alpha1.Application)) },
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				c.queue.Add(types.NamespacedName(key))
			}
		},
	})
	return informer
}

// applicationChanged wakes the loop; our own status patches are no reason to.
func (c *Controller) applicationChanged(old, app *v1alpha1.Application) {
	key := types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
	c.healthRulesChanged(old, app)
	asked := func(name string) bool { return old == nil || old.Annotations[name] != app.Annotations[name] }
	if old == nil || old.UID != app.UID || old.Generation != app.Generation || asked(v1alpha1.AnnotationRefresh) || asked(v1alpha1.AnnotationSync) {
		c.states.of(key).askAnew(c.clock.Now(), app)
		c.fetches.Add(key)
	}
	if old == nil || old.UID != app.UID || old.Generation != app.Generation || asked(v1alpha1.AnnotationSync) ||
		(old.DeletionTimestamp == nil) != (app.DeletionTimestamp == nil) {
		c.states.of(key).wake()
		c.queue.Add(key)
	}
}

// templateChanged looks at Git for the Applications that a credential template is for.
func (c *Controller) templateChanged(t source.Template) {
	for _, app := range c.applications() {
		sources, _ := app.Spec.AllSources()
		if slices.ContainsFunc(sources, func(s v1alpha1.Source) bool { return s.SecretRef == nil && t.Covers(repositoryURL(s)) }) {
			c.fetches.Add(types.NamespacedName{Namespace: app.Namespace, Name: app.Name})
		}
	}
}

// definitionInformer watches CustomResourceDefinitions for what is served: a kind that arrives or goes changes
// verdicts without any event of its own objects.
func (c *Controller) definitionInformer() cache.SharedIndexInformer {
	resource := c.clients.Metadata.Resource(schema.GroupVersionResource{Group: crdKind.Group, Version: "v1", Resource: "customresourcedefinitions"})
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, o)
		},
	}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	// Neither can fail: the informer has not been started.
	_ = informer.SetTransform(func(obj any) (any, error) {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			m.ManagedFields, m.Annotations, m.Labels = nil, nil, nil
		}
		return obj, nil
	})
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial {
				c.kindsChanged()
			}
		},
		UpdateFunc: func(any, any) { c.kindsChanged() },
		DeleteFunc: func(any) { c.kindsChanged() },
	})
	return informer
}

// defined reports whether a CustomResourceDefinition may be there: any may be until the list has arrived.
func (c *Controller) defined(name string) bool {
	_, found, err := c.definitions.GetIndexer().GetByKey(name)
	return found || err != nil || !c.definitions.HasSynced()
}

// kindsChanged asks anew what is served, for those whose verdict hangs on it.
func (c *Controller) kindsChanged() {
	c.kinds.Reset()
	go c.autoscalers.watch(c.live.ctx, c.defined) // KEDA may just have come
	c.wakeAll()
	for key, st := range c.states.all() {
		if snap := st.current(); snap != nil && (snap.set != nil && len(snap.set.Unknown) > 0 || snap.renderErr != nil) {
			c.fetches.Add(key)
		}
	}
}

// objectChanged wakes the loops of the Applications that an object belongs or belonged to, for that object alone.
func (c *Controller) objectChanged(old, new *Observed) {
	var owner types.NamespacedName
	for _, o := range []*Observed{old, new} {
		if o != nil && o.App != owner && o.App != (types.NamespacedName{}) {
			owner = o.App
			if new == nil && o.HookRun != "" {
				c.states.of(owner).hookGone(o)
			}
			c.wakeObject(owner, o.ID)
		}
	}
	// Its label or annotation may have been taken away, or name somebody else: ask who declares it, too.
	o := new
	if o == nil {
		o = old
	}
	if new == nil || new.App != owner || owner == (types.NamespacedName{}) {
		c.targetChanged(o.ID)
	}
}

// targetChanged wakes the loops of the Applications that declare an object.
func (c *Controller) targetChanged(id diff.ID) {
	for key, st := range c.states.all() {
		if snap := st.current(); snap != nil && snap.set != nil && snap.set.byID[id] != nil {
			c.wakeObject(key, id)
		}
	}
}

func (c *Controller) wakeObject(app types.NamespacedName, id diff.ID) {
	if c.config.ApplicationNamespace != "" && app.Namespace != c.config.ApplicationNamespace || c.config.ApplicationName != "" && app.Name != c.config.ApplicationName {
		return
	}
	c.states.of(app).wake(id)
	c.queue.Add(app)
}

func (c *Controller) wakeAll() {
	for key, st := range c.states.all() {
		st.wake()
		c.queue.Add(key)
	}
}
