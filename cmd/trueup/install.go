package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/trueup/trueup/deploy"
)

// installOptions are the flags of install.
type installOptions struct {
	deploy.Options
	print   bool
	noWait  bool
	timeout time.Duration
}

func newInstallCommand(c *cli) *cobra.Command {
	var opts installOptions
	cmd := &cobra.Command{
		Use:     "install",
		Short:   "Install the agent in the cluster, or update it",
		GroupID: groupSetup,
		Long: `Install the agent: the Application API, a namespace, an account with its permissions, and a Deployment. Run again, it
updates what is there.

The agent may manage the built-in kinds. --allow adds others, and what it has added stays when a later install does not
name it. Whoever may create Applications in the agent's namespace has the agent's permissions.`,
		Example: `  trueup install
  trueup install --allow shop.example.com/*,cert-manager.io/certificates
  trueup install --print > trueup.yaml    # look first, or keep it in Git`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			objects, err := opts.Objects()
			if err != nil {
				return err
			}
			if opts.print {
				return printObjects(cmd.OutOrStdout(), objects)
			}
			cl, err := c.connect(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, cancel := withTimeout(cmd.Context(), opts.timeout)
			defer cancel()
			return cl.install(ctx, cmd.OutOrStdout(), objects, !opts.noWait)
		},
	}
	flags := cmd.Flags()
	addNamespaceFlag(cmd, &opts.Namespace, deploy.Namespace, "namespace of the agent and of the Applications")
	flags.StringVar(&opts.Image, "image", "", "image of the agent, NAME[:TAG] (default: the one of this version)")
	flags.StringSliceVar(&opts.Allow, "allow", nil, "GROUP/RESOURCE,… that the agent may manage besides the built-in kinds; GROUP/* is a whole group")
	flags.BoolVar(&opts.ClusterAdmin, "cluster-admin", false, "let the agent do everything")
	flags.BoolVar(&opts.Webhook, "webhook", false, "let the agent receive the webhooks of Git servers, through the Service trueup-webhook; its secrets are in the Secret of that name")
	flags.BoolVar(&opts.print, "print", false, "print the manifests, and do nothing")
	flags.BoolVar(&opts.noWait, "no-wait", false, "do not wait until the agent is ready")
	flags.DurationVar(&opts.timeout, "timeout", 2*time.Minute, "how long to wait; 0 is without end")
	return cmd
}

func printObjects(w io.Writer, objects []*unstructured.Unstructured) error {
	for i, obj := range objects {
		data, err := yaml.Marshal(obj.Object)
		if err != nil {
			return fmt.Errorf("writing %s: %w", describeObject(obj), err)
		}
		if i > 0 {
			data = append([]byte("---\n"), data...)
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// describeObject is how an object is written for people.
func describeObject(obj *unstructured.Unstructured) string {
	if obj.GetNamespace() == "" {
		return obj.GetKind() + " " + obj.GetName()
	}
	return obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// install applies the objects one after another, and waits for those that others need.
func (cl *cluster) install(ctx context.Context, out io.Writer, objects []*unstructured.Unstructured, wait bool) error {
	deployment := objects[slices.IndexFunc(objects, isDeployment)]
	if other, err := cl.otherAgent(ctx, deployment.GetNamespace()); err != nil || other != "" {
		return cmp.Or(err, fmt.Errorf("an agent is already installed in namespace %s: update that one with -n %s, or uninstall it first", other, other))
	}
	for _, obj := range objects {
		what, err := cl.applyObject(ctx, obj, metav1.ApplyOptions{FieldManager: installManager, Force: true})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %s\n", describeObject(obj), what)
		if obj.GetKind() == "CustomResourceDefinition" {
			if err := cl.waitEstablished(ctx, obj.GetName()); err != nil {
				return err
			}
		}
	}
	if wait {
		fmt.Fprintf(out, "Waiting until %s is ready.\n", describeObject(deployment))
		if err := cl.waitReady(ctx, deployment); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "Trueup is installed in namespace %s. Create an Application there: \"trueup status\" shows how, and then how it is.\n", deployment.GetNamespace())
	return nil
}

func isDeployment(obj *unstructured.Unstructured) bool { return obj.GetKind() == "Deployment" }

// otherAgent returns a namespace, other than the given one, in which an agent is installed; "" where there is none or the
// user may not know. Two agents would fight for the roles that are not in a namespace.
func (cl *cluster) otherAgent(ctx context.Context, namespace string) (string, error) {
	list, err := cl.Kube.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=trueup",
		FieldSelector: "metadata.name=" + deploy.Deployment,
	})
	if apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking for an agent: %w", err)
	}
	other := ""
	for _, d := range list.Items {
		if d.Namespace == namespace {
			return "", nil
		}
		other = d.Namespace
	}
	return other, nil
}
