package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	gosync "sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// parallelLists bounds the lists that run at once.
const parallelLists = 8

// tree asks the API server for the objects of app and for what they made. What may not be read is noted in the tree.
func (cl *cluster) tree(ctx context.Context, app *v1alpha1.Application) (*objectTree, error) {
	g := &gatherer{cl: cl}
	if err := g.gatherManaged(ctx, app); err != nil {
		return nil, err
	}
	managed := g.found
	g.found = nil
	if err := g.gatherMade(ctx, managed); err != nil {
		return nil, err
	}
	judge, err := sync.NewJudge(ctx, cl.Clients, cl.kinds, app)
	if err != nil {
		return nil, err
	}
	tree := newTree(app, judge, managed, g.found)
	slices.Sort(g.notes)
	tree.notes = append(tree.notes, g.notes...)
	return tree, nil
}

// gatherer collects the results of lists that run at once.
type gatherer struct {
	cl    *cluster
	mu    gosync.Mutex
	found []member
	notes []string
}

func (g *gatherer) add(ref v1alpha1.ObjectReference, object metav1.Object) {
	ref.Namespace, ref.Name = object.GetNamespace(), object.GetName()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found = append(g.found, member{ref, object})
}

func (g *gatherer) note(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notes = append(g.notes, fmt.Sprintf(format, args...))
}

// gatherManaged lists the metadata of everything that carries the label of app, kind by kind.
func (g *gatherer) gatherManaged(ctx context.Context, app *v1alpha1.Application) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLists)
	for _, kind := range app.Status.Kinds {
		group.Go(func() error {
			gk := schema.GroupKind{Group: kind.Group, Kind: kind.Kind}
			mapping, err := g.cl.mapper.RESTMapping(gk, kind.Version)
			switch {
			case meta.IsNoMatchError(err):
				g.note("%s is a kind that the API server does not have (any more)", gk)
				return nil
			case err != nil:
				return err
			}
			return g.listManaged(ctx, app, mapping)
		})
	}
	return group.Wait()
}

func (g *gatherer) listManaged(ctx context.Context, app *v1alpha1.Application, mapping *meta.RESTMapping) error {
	client := g.cl.Metadata.Resource(mapping.Resource)
	options := metav1.ListOptions{LabelSelector: v1alpha1.LabelApp + "=" + app.Name}
	list, err := client.List(ctx, options)
	narrow := app.Spec.Destination.Namespace
	if apierrors.IsForbidden(err) && mapping.Scope.Name() == meta.RESTScopeNameNamespace && narrow != "" {
		list, err = client.Namespace(narrow).List(ctx, options)
	}
	gk := mapping.GroupVersionKind.GroupKind()
	switch {
	case apierrors.IsForbidden(err):
		g.note("your user may not list %s: they are not shown", mapping.Resource.GroupResource())
		return nil
	case err != nil:
		return fmt.Errorf("listing %s: %w", mapping.Resource.GroupResource(), err)
	}
	for i := range list.Items {
		g.add(v1alpha1.ObjectReference{Group: gk.Group, Kind: gk.Kind}, &list.Items[i])
	}
	return nil
}

// gatherMade lists what the controllers of Kubernetes make, in the namespaces where there may be some.
func (g *gatherer) gatherMade(ctx context.Context, managed []member) error {
	namespaces := make(map[string]bool)
	for _, m := range managed {
		if m.ref.Namespace != "" && mayMakePods(m.ref) {
			namespaces[m.ref.Namespace] = true
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLists)
	for namespace := range namespaces {
		group.Go(func() error {
			return g.listMetadata(ctx, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, "ReplicaSet", namespace)
		})
		group.Go(func() error {
			return g.listMetadata(ctx, schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job", namespace)
		})
		group.Go(func() error { return g.listPods(ctx, namespace) })
	}
	return group.Wait()
}

// mayMakePods reports whether objects of this kind have Pods below them; of custom resources nothing is known.
func mayMakePods(ref v1alpha1.ObjectReference) bool {
	switch {
	case ref.Group == "":
		return ref.Kind == "ReplicationController"
	case ref.Group == "apps", ref.Group == "batch":
		return true
	}
	return strings.Contains(ref.Group, ".") && !strings.HasSuffix(ref.Group, ".k8s.io")
}

func (g *gatherer) listMetadata(ctx context.Context, resource schema.GroupVersionResource, kind, namespace string) error {
	list, err := g.cl.Metadata.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return g.refused(err, resource.Resource, namespace)
	}
	for i := range list.Items {
		g.add(v1alpha1.ObjectReference{Group: resource.Group, Kind: kind}, &list.Items[i])
	}
	return nil
}

// listPods reads Pods whole: their status says how they are, and no Application says it.
func (g *gatherer) listPods(ctx context.Context, namespace string) error {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	list, err := g.cl.Dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return g.refused(err, resource.Resource, namespace)
	}
	for i := range list.Items {
		g.add(v1alpha1.ObjectReference{Kind: "Pod"}, &list.Items[i])
	}
	return nil
}

// refused notes a list that the user may not see, and returns any other error.
func (g *gatherer) refused(err error, resource, namespace string) error {
	if apierrors.IsForbidden(err) {
		g.note("your user may not list %s in namespace %s: they are not shown", resource, namespace)
		return nil
	}
	return fmt.Errorf("listing %s in namespace %s: %w", resource, namespace, err)
}
