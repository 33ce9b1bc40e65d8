package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/trueup/trueup/deploy"
	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// uninstallOptions are the flags of uninstall.
type uninstallOptions struct {
	namespace string
	yes       bool
	deleteCRD bool
	timeout   time.Duration
}

func newUninstallCommand(c *cli) *cobra.Command {
	var opts uninstallOptions
	cmd := &cobra.Command{
		Use:     "uninstall",
		Short:   "Remove the agent from the cluster",
		GroupID: groupSetup,
		Long: `Delete what "trueup install" made. What the Applications have put into the cluster is never deleted: it stays as it is,
and nobody keeps it true to Git any more.

The Applications and their API stay, so that a later install goes on with them; --delete-crd deletes them, too. The
namespace stays as long as anything is in it that "trueup install" did not make.`,
		Example: `  trueup uninstall
  trueup uninstall --yes --delete-crd    # the Applications, too; what they manage stays`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.connect(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, cancel := withTimeout(cmd.Context(), opts.timeout)
			defer cancel()
			if other, err := cl.otherAgent(ctx, opts.namespace); err != nil || other != "" {
				return cmp.Or(err, fmt.Errorf("the agent is not in namespace %s: say -n %s", opts.namespace, other))
			}
			u := &uninstall{cl: cl, out: cmd.OutOrStdout(), opts: opts}
			if !opts.yes {
				if err := u.confirm(ctx, cmd.InOrStdin(), cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			return u.run(ctx)
		},
	}
	addNamespaceFlag(cmd, &opts.namespace, deploy.Namespace, "namespace of the agent")
	cmd.Flags().BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&opts.deleteCRD, "delete-crd", false, "also delete all Applications and their API")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", 2*time.Minute, "how long to wait until things are gone; 0 is without end")
	return cmd
}

// uninstall deletes what install made, the agent first.
type uninstall struct {
	cl   *cluster
	out  io.Writer
	opts uninstallOptions
}

// confirm asks on a terminal, and refuses elsewhere.
func (u *uninstall) confirm(ctx context.Context, in io.Reader, out io.Writer) error {
	if !isTerminal(in) {
		return errors.New("uninstalling deletes the agent: say --yes if it is meant")
	}
	fmt.Fprintf(out, "Delete the agent in namespace %s", u.opts.namespace)
	if u.opts.deleteCRD {
		apps, err := u.apps(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, ", %s and the API of Applications", words.Count(len(apps), "Application"))
	}
	fmt.Fprint(out, "? What the Applications put into the cluster stays. [y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
		return errors.New("nothing was deleted")
	}
	return nil
}

func (u *uninstall) run(ctx context.Context) error {
	objects, err := deploy.Options{Namespace: u.opts.namespace, ClusterAdmin: true, Webhook: true, Allow: []string{"example.com/*"}}.Objects()
	if err != nil {
		return err
	}
	slices.Reverse(objects) // the Deployment goes before what it needs
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return deletionRank(a) - deletionRank(b) })
	for _, obj := range objects {
		switch obj.GetKind() {
		case "CustomResourceDefinition":
			err = u.deleteCRD(ctx, obj)
		case "Namespace":
			err = u.deleteNamespace(ctx, obj)
		default:
			err = u.delete(ctx, obj)
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(u.out, "What the Applications put into the cluster is still there; nobody keeps it true to Git any more.")
	return nil
}

// deletionRank makes the agent the first and its namespace the last to go.
func deletionRank(obj *unstructured.Unstructured) int {
	switch obj.GetKind() {
	case "Deployment":
		return 0
	case "CustomResourceDefinition":
		return 1
	case "Namespace":
		return 3
	}
	return 2
}

// delete deletes obj and waits until it is gone, with all that belongs to it.
func (u *uninstall) delete(ctx context.Context, obj *unstructured.Unstructured) error {
	client, err := u.cl.client(obj)
	if err != nil {
		return err
	}
	foreground := metav1.DeletePropagationForeground
	err = client.Delete(ctx, obj.GetName(), metav1.DeleteOptions{PropagationPolicy: &foreground})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w", describeObject(obj), err)
	}
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, obj.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be gone: %w", describeObject(obj), err)
	}
	fmt.Fprintf(u.out, "%s deleted\n", describeObject(obj))
	return nil
}

// deleteCRD deletes the Applications and their API if that was asked for. Nobody is there any more to serve the
// finalizers of Applications, and what they manage is to stay, so those are taken off first.
func (u *uninstall) deleteCRD(ctx context.Context, crd *unstructured.Unstructured) error {
	if !u.opts.deleteCRD {
		return nil
	}
	apps, err := u.apps(ctx)
	if isNotInstalled(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range apps {
		if err := u.releaseApp(ctx, &apps[i]); err != nil {
			return err
		}
	}
	return u.delete(ctx, crd)
}

// releaseApp takes the finalizer off an Application, so that its deletion deletes nothing else.
func (u *uninstall) releaseApp(ctx context.Context, app *v1alpha1.Application) error {
	at := slices.Index(app.Finalizers, v1alpha1.FinalizerCascade)
	if at < 0 {
		return nil
	}
	// The test makes sure that it is this finalizer that goes, whatever happened since the list.
	patch := fmt.Sprintf(`[{"op":"test","path":"/metadata/finalizers/%d","value":%q},{"op":"remove","path":"/metadata/finalizers/%d"}]`,
		at, v1alpha1.FinalizerCascade, at)
	_, err := u.cl.Applications(app.Namespace).Patch(ctx, app.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking the finalizer off Application %s/%s: %w", app.Namespace, app.Name, err)
	}
	return nil
}

func (u *uninstall) apps(ctx context.Context) ([]v1alpha1.Application, error) {
	list, err := u.cl.Applications(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// deleteNamespace deletes the namespace if install made it, unless something else lives in it.
func (u *uninstall) deleteNamespace(ctx context.Context, namespace *unstructured.Unstructured) error {
	found, err := u.cl.Kube.CoreV1().Namespaces().Get(ctx, namespace.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && found.Labels["app.kubernetes.io/name"] != "trueup" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", describeObject(namespace), err)
	}
	tenant, err := u.tenant(ctx, namespace.GetName())
	if err != nil {
		return err
	}
	if tenant != "" {
		fmt.Fprintf(u.out, "Namespace %s stays: %s is in it\n", namespace.GetName(), tenant)
		return nil
	}
	return u.delete(ctx, namespace)
}

// tenant names one object of a namespace that neither install nor Kubernetes made; "" where there is none.
func (u *uninstall) tenant(ctx context.Context, namespace string) (string, error) {
	for _, k := range []struct {
		resource schema.GroupVersionResource
		kind     string
	}{
		{v1alpha1.ApplicationResource, "Application"},
		{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret"},
		{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap"},
		{schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, "PersistentVolumeClaim"},
		{schema.GroupVersionResource{Version: "v1", Resource: "services"}, "Service"},
		{schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "Pod"},
		{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "Deployment"},
	} {
		list, err := u.cl.Metadata.Resource(k.resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) { // the API of Applications is gone
			continue
		}
		if err != nil {
			return "", fmt.Errorf("looking for what is in namespace %s: %w", namespace, err)
		}
		for _, item := range list.Items {
			if item.Name != "kube-root-ca.crt" {
				return k.kind + " " + item.Name, nil
			}
		}
	}
	return "", nil
}
