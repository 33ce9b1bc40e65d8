package sync

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/why"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// Kinds that tell why a workload is stuck, beside itself.
var (
	podResource        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	replicaSetResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	jobResource        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	claimResource      = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	quotaResource      = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
	eventResource      = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	nodeResource       = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	apiServiceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// Bounds of one list.
const (
	pageSize   = 500
	maxPerList = 5000
)

// gathering fills a why.Snapshot.
type gathering struct {
	clients *Clients
	kinds   *apply.Kinds
	judge   *health.Judge
	app     *v1alpha1.Application
	// everywhere also takes in what is healthy, and what has no health.
	everywhere bool
	objects    []*unstructured.Unstructured
	notes      []string // what could not be seen
}

// GatherWhy returns what there is to tell why an Application is stuck: its managed objects, and what is around those
// that are not healthy, or around all of them with everywhere. It takes a handful of lists for each namespace, with the
// rights of clients; notes say what those do not cover. It reads no Secrets. It blocks on the API server.
func GatherWhy(ctx context.Context, clients *Clients, kinds *apply.Kinds, app *v1alpha1.Application, everywhere bool) (s why.Snapshot, notes []string, err error) {
	g := &gathering{clients: clients, kinds: kinds, app: app, everywhere: everywhere}
	if g.judge, err = NewJudge(ctx, clients, kinds, app); err != nil {
		return s, nil, err
	}
	s.Application = whyApplication(app)
	s.Judge = g.judge.Of
	found, err := g.managed(ctx)
	if err != nil {
		return s, nil, err
	}
	s.Application.Managed = g.states(found)
	for _, namespace := range g.namespaces(s.Application.Managed) {
		if err := g.around(ctx, namespace); err != nil {
			return s, nil, err
		}
	}
	if err := g.beyond(ctx, s.Application.Managed); err != nil {
		return s, nil, err
	}
	s.Objects = g.objects
	return s, g.notes, nil
}

// whyApplication is what the status says of Git.
func whyApplication(app *v1alpha1.Application) why.Application {
	src := *app.Spec.MainSource()
	a := why.Application{
		Namespace: app.Namespace, Name: app.Name, RepoURL: source.RedactURL(repositoryURL(src)), Chart: src.Chart, Revision: app.Status.Sync.ShortRevision,
	}
	for kind, step := range map[string]*why.Step{v1alpha1.ConditionFetched: &a.Fetch, v1alpha1.ConditionVerified: &a.Verify, v1alpha1.ConditionRendered: &a.Render} {
		if c := meta.FindStatusCondition(app.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			*step = why.Step{Error: c.Message, Since: c.LastTransitionTime.UTC()}
		}
	}
	if c := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionApplied); c != nil && c.Status == metav1.ConditionFalse && c.Reason == "OutOfSync" {
		a.OutOfSync = c.Message
	}
	if a.Render.Error != "" || a.Verify.Error != "" {
		a.Revision = cmp.Or(v1alpha1.ShortRevision(app.Status.Sync.FailedRevision), a.Revision)
	}
	return a
}

// managed lists the objects of the Application: whole where they have a health.
func (g *gathering) managed(ctx context.Context) (map[diff.ID]*unstructured.Unstructured, error) {
	found := map[diff.ID]*unstructured.Unstructured{}
	for _, k := range g.app.Status.Kinds {
		gvk := schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
		kind, err := g.kinds.Of(gvk)
		judged := g.judge.Judged(gvk.GroupKind())
		if meta.IsNoMatchError(err) || !judged && !g.everywhere {
			continue
		}
		if err != nil {
			return nil, err
		}
		before := len(g.objects)
		if err := g.listManaged(ctx, gvk, kind, judged); err != nil {
			return nil, err
		}
		own := g.objects[before:]
		g.objects = g.objects[:before]
		for _, u := range own {
			id := diff.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
			if doneHook(g.app, id, u.GetAnnotations()[v1alpha1.AnnotationHookRun]) {
				continue
			}
			if u.GetAnnotations()[v1alpha1.AnnotationTracking] == tracking(types.NamespacedName{Namespace: g.app.Namespace, Name: g.app.Name}, id) {
				found[id] = u
				g.objects = append(g.objects, u)
			}
		}
	}
	return found, nil
}

// listManaged lists a kind everywhere, or where that is not allowed in the Application's own destination.
func (g *gathering) listManaged(ctx context.Context, gvk schema.GroupVersionKind, kind apply.Kind, judged bool) error {
	opts := metav1.ListOptions{LabelSelector: v1alpha1.LabelApp + "=" + g.app.Name}
	list := func(namespace string) error {
		if !judged {
			return g.metadata(ctx, g.clients.Metadata.Resource(kind.Resource).Namespace(namespace), gvk, opts)
		}
		return g.pages(ctx, g.clients.Dynamic.Resource(kind.Resource).Namespace(namespace), opts)
	}
	err := list(metav1.NamespaceAll)
	if apierrors.IsForbidden(err) && kind.Namespaced && g.app.Spec.Destination.Namespace != "" {
		err = list(g.app.Spec.Destination.Namespace)
	}
	return g.noted(err, kind.Resource.Resource, "")
}

// states joins what was found with what the status says, in the order in which objects are applied.
func (g *gathering) states(found map[diff.ID]*unstructured.Unstructured) []why.Managed {
	managed := map[diff.ID]why.Managed{}
	for id, u := range found {
		managed[id] = why.Managed{Ref: ref(id), Health: g.judge.Of(u)}
	}
	since := metav1.Time{}
	if c := meta.FindStatusCondition(g.app.Status.Conditions, v1alpha1.ConditionApplied); c != nil {
		since = c.LastTransitionTime
	}
	for _, r := range g.app.Status.Resources {
		id := idOf(r.ObjectReference)
		m, there := managed[id]
		if !there {
			m = why.Managed{Ref: ref(id), Health: health.Result{Code: health.Code(cmp.Or(r.Health, string(health.Unknown))), Reason: r.Reason, Message: r.Message}}
		}
		if r.Sync != v1alpha1.Synced && notApplied(r.Reason) {
			m.Error, m.Reason, m.Since = r.Message, r.Reason, since.UTC()
			if there = true; r.Reason == string(classRefused) {
				m.Reason = string(apply.Conflict)
			}
		}
		if there || m.Health.Code != health.Healthy {
			managed[id] = m
		}
	}
	noteHooks(g.app, managed)
	list := make([]why.Managed, 0, len(managed))
	for _, m := range managed {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b why.Managed) int {
		return cmp.Or(apply.Rank(schema.GroupKind{Group: a.Group, Kind: a.Kind})-apply.Rank(schema.GroupKind{Group: b.Group, Kind: b.Kind}),
			strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return list
}

// notApplied reports whether the reason of an object in the status is that it could not be applied.
func notApplied(reason string) bool {
	return reason == "UnknownKind" || slices.Contains([]apply.Class{
		apply.Conflict, apply.Deferred, apply.Immutable, apply.Transient, apply.Forbidden, apply.Rejected, classRefused,
	}, apply.Class(reason))
}

func ref(id diff.ID) why.Ref {
	return why.Ref{Group: id.Group, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}

// namespaces are those to look around in.
func (g *gathering) namespaces(managed []why.Managed) []string {
	var names []string
	for _, m := range managed {
		if m.Namespace != "" && (g.everywhere || m.Error == "" && m.Health.Code != health.Healthy) && !slices.Contains(names, m.Namespace) {
			names = append(names, m.Namespace)
		}
	}
	return names
}

// around lists what controllers make in a namespace, and what they say.
func (g *gathering) around(ctx context.Context, namespace string) error {
	for _, resource := range []schema.GroupVersionResource{podResource, replicaSetResource, jobResource, claimResource, quotaResource, eventResource} {
		err := g.pages(ctx, g.clients.Dynamic.Resource(resource).Namespace(namespace), metav1.ListOptions{})
		if err := g.noted(err, resource.Resource, namespace); err != nil {
			return err
		}
	}
	return nil
}

// beyond lists what makes the answer better for some of the objects that are not healthy. Where it may not be read the
// answer is good enough.
func (g *gathering) beyond(ctx context.Context, managed []why.Managed) error {
	sick := func(m why.Managed) bool { return m.Error == "" && m.Health.Code != health.Healthy }
	if !slices.ContainsFunc(managed, sick) {
		return nil
	}
	err := g.pages(ctx, g.clients.Dynamic.Resource(nodeResource), metav1.ListOptions{})
	autoscaled := false
	for _, m := range managed {
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
		group := schema.GroupKind{Group: m.Group, Kind: m.Kind}
		switch {
		case !sick(m):
		case group == hpaKind.GroupKind() && !autoscaled:
			autoscaled = true
			err = g.pages(ctx, g.clients.Dynamic.Resource(apiServiceResource), metav1.ListOptions{})
		case group == (schema.GroupKind{Kind: "Namespace"}):
			err = g.leftIn(ctx, m.Name)
		case !apply.IsBuiltin(m.Group) && m.Namespace != "":
			err = g.family(ctx, m)
		}
	}
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

var remainingResource = regexp.MustCompile(`([a-z0-9.-]+) has \d+ resource instances`)

// leftIn lists what is left in a Namespace that is being deleted, by what its status names.
func (g *gathering) leftIn(ctx context.Context, namespace string) error {
	var names []string
	for _, u := range g.objects {
		if u.GetKind() != "Namespace" || u.GetName() != namespace {
			continue
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, m := range remainingResource.FindAllStringSubmatch(fmt.Sprint(conditions...), -1) {
			names = append(names, strings.TrimSuffix(m[1], "."))
		}
	}
	return g.members(ctx, namespace, func(kind apply.Kind) bool {
		return slices.Contains(names, kind.Resource.GroupResource().String())
	})
}

// family lists what a custom resource may own: the kinds of its own API group.
func (g *gathering) family(ctx context.Context, m why.Managed) error {
	return g.members(ctx, m.Namespace, func(kind apply.Kind) bool { return kind.Resource.Group == m.Group })
}

// members lists the objects of some kinds in a namespace; of kinds without health no more than their metadata.
func (g *gathering) members(ctx context.Context, namespace string, takes func(apply.Kind) bool) error {
	all, err := g.kinds.All()
	if err != nil {
		return err
	}
	for _, gvk := range all {
		kind, err := g.kinds.Of(gvk)
		if err != nil || !kind.Namespaced || !takes(kind) {
			continue
		}
		if g.judge.Judged(gvk.GroupKind()) {
			err = g.pages(ctx, g.clients.Dynamic.Resource(kind.Resource).Namespace(namespace), metav1.ListOptions{})
		} else {
			err = g.metadata(ctx, g.clients.Metadata.Resource(kind.Resource).Namespace(namespace), gvk, metav1.ListOptions{})
		}
		if err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("listing %s in namespace %s: %w", kind.Resource.Resource, namespace, err)
		}
	}
	return nil
}

// metadata lists the metadata of objects, one page of them.
func (g *gathering) metadata(ctx context.Context, client metadata.ResourceInterface, gvk schema.GroupVersionKind, opts metav1.ListOptions) error {
	opts.Limit = pageSize
	list, err := client.List(ctx, opts)
	if err != nil {
		return err
	}
	for _, item := range list.Items {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGroupVersionKind(gvk)
		u.SetNamespace(item.Namespace)
		u.SetName(item.Name)
		u.SetUID(item.UID)
		u.SetAnnotations(item.Annotations)
		u.SetCreationTimestamp(item.CreationTimestamp)
		u.SetDeletionTimestamp(item.DeletionTimestamp)
		u.SetFinalizers(item.Finalizers)
		u.SetOwnerReferences(item.OwnerReferences)
		g.objects = append(g.objects, u)
	}
	return nil
}

// pages lists everything, page by page, up to a bound.
func (g *gathering) pages(ctx context.Context, client dynamic.ResourceInterface, opts metav1.ListOptions) error {
	opts.Limit = pageSize
	for n := 0; n < maxPerList; n += pageSize {
		list, err := client.List(ctx, opts)
		if err != nil {
			return err
		}
		for i := range list.Items {
			g.objects = append(g.objects, &list.Items[i])
		}
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			return nil
		}
	}
	return nil
}

// noted keeps a list that may not be read as a note, and returns any other error.
func (g *gathering) noted(err error, resource, namespace string) error {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	switch {
	case apierrors.IsForbidden(err):
		g.notes = append(g.notes, fmt.Sprintf("your user may not list %s%s: the answer does without them", resource, where))
		return nil
	case err != nil:
		return fmt.Errorf("listing %s%s: %w", resource, where, err)
	}
	return nil
}
