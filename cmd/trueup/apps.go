package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/deploy"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// addNamespaceFlag adds -n with its meaning for this verb.
func addNamespaceFlag(cmd *cobra.Command, namespace *string, value, usage string) {
	cmd.Flags().StringVarP(namespace, "namespace", "n", value, usage)
}

const namespaceUsage = "namespace of the Application (default: the one of the kubeconfig's context, or else where its name is found)"

// openApp connects to the cluster and returns it with the Application called name, as findApp finds it.
func (c *cli) openApp(cmd *cobra.Command, namespace, name string) (*cluster, *v1alpha1.Application, error) {
	cl, err := c.connect(cmd.ErrOrStderr())
	if err != nil {
		return nil, nil, err
	}
	app, err := cl.findApp(cmd.Context(), namespace, name)
	return cl, app, err
}

// findApp returns the Application called name: in namespace, or without one in the namespace of the kubeconfig's context,
// or else where there is exactly one of that name. The error says what to type instead.
func (cl *cluster) findApp(ctx context.Context, namespace, name string) (*v1alpha1.Application, error) {
	if dir, base, ok := strings.Cut(name, "/"); ok && namespace == "" {
		namespace, name = dir, base
	}
	first := cmp.Or(namespace, cl.namespace)
	app, err := cl.Applications(first).Get(ctx, name, metav1.GetOptions{})
	notThere := apierrors.IsNotFound(err) && !isNotInstalled(err)
	elsewhere := namespace == "" && apierrors.IsForbidden(err)
	if err == nil || !notThere && !elsewhere {
		return app, err
	}
	names, listErr := cl.appNames(ctx)
	if listErr != nil {
		return nil, err
	}
	var holders []string
	for _, n := range names {
		if n.Name == name {
			holders = append(holders, n.Namespace)
		}
	}
	if namespace == "" && len(holders) == 1 {
		return cl.Applications(holders[0]).Get(ctx, name, metav1.GetOptions{})
	}
	return nil, noSuchApp(namespace, name, holders, names)
}

// noSuchApp says where the name is, or which names there are.
func noSuchApp(namespace, name string, holders []string, names []types.NamespacedName) error {
	where := "in any namespace"
	if namespace != "" {
		where = "in namespace " + namespace
	}
	switch {
	case len(names) == 0:
		return fmt.Errorf("no Application %q %s: there is none at all yet", name, where)
	case namespace == "" && len(holders) > 1:
		return fmt.Errorf("the name %q is in several namespaces: say which with -n %s", name, orList(holders))
	case len(holders) > 0:
		return fmt.Errorf("no Application %q %s: say -n %s", name, where, orList(holders))
	}
	var all []string
	for _, n := range names {
		all = append(all, n.Name)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if near := nearest(name, all); len(near) > 0 {
		all = near
	}
	var list []string
	for _, n := range all[:min(5, len(all))] {
		list = append(list, fmt.Sprintf("%s (namespace %s)", n, strings.Join(namespacesOf(n, names), ", ")))
	}
	if len(all) > len(list) {
		return fmt.Errorf(`no Application %q %s; "trueup status" lists the %d that there are`, name, where, len(all))
	}
	return fmt.Errorf("no Application %q %s; did you mean %s?", name, where, orList(list))
}

func namespacesOf(name string, names []types.NamespacedName) []string {
	var namespaces []string
	for _, n := range names {
		if n.Name == name {
			namespaces = append(namespaces, n.Namespace)
		}
	}
	return namespaces
}

// appNames returns the names of all Applications that the user may list.
func (cl *cluster) appNames(ctx context.Context) ([]types.NamespacedName, error) {
	var names []types.NamespacedName
	list := func(namespace string) error {
		found, err := cl.Metadata.Resource(v1alpha1.ApplicationResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range found.Items {
			names = append(names, types.NamespacedName{Namespace: item.Namespace, Name: item.Name})
		}
		return nil
	}
	err := list(metav1.NamespaceAll)
	if !apierrors.IsForbidden(err) {
		return names, err
	}
	for _, namespace := range slices.Compact([]string{cl.namespace, deploy.Namespace}) {
		if nsErr := list(namespace); nsErr == nil {
			err = nil
		}
	}
	return names, err
}

// listApps returns the Applications of namespace; without one, of all namespaces or those that the user may list.
func (cl *cluster) listApps(ctx context.Context, namespace string) ([]v1alpha1.Application, error) {
	list, err := cl.Applications(namespace).List(ctx, metav1.ListOptions{})
	if namespace == "" && apierrors.IsForbidden(err) {
		list, err = cl.Applications(cl.namespace).List(ctx, metav1.ListOptions{})
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
