package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/sync/v1alpha1"
)

func newRefreshCommand(c *cli) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:     "refresh APP",
		Short:   "Ask the agent to look at Git now",
		GroupID: groupApps,
		Long: `Ask the agent to look at Git now, in place of at its next interval. Nothing is waited for: "trueup wait APP" waits for
what the agent finds.`,
		Example:           `  trueup refresh shop && trueup wait shop`,
		Args:              exactlyOneApp,
		ValidArgsFunction: c.completeApps,
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, app, err := c.openApp(cmd, namespace, args[0])
			if err != nil {
				return err
			}
			if err := cl.annotate(cmd.Context(), app, v1alpha1.AnnotationRefresh, time.Now().UTC().Format(time.RFC3339Nano)); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The agent will look at Git for %s/%s now.\n", app.Namespace, app.Name)
			return nil
		},
	}
	addNamespaceFlag(cmd, &namespace, "", namespaceUsage)
	return cmd
}

// annotate sets one annotation of app.
func (cl *cluster) annotate(ctx context.Context, app *v1alpha1.Application, key, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return err
	}
	if _, err := cl.Applications(app.Namespace).Patch(ctx, app.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotating Application %s/%s: %w", app.Namespace, app.Name, err)
	}
	return nil
}

// exactlyOneApp checks the arguments of a verb that takes one Application.
func exactlyOneApp(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return fmt.Errorf(`say which Application: "%s APP"; "trueup status" lists them`, cmd.CommandPath())
	case 1:
		return nil
	}
	return fmt.Errorf("one Application at a time: got %d names\nSee '%s --help'", len(args), cmd.CommandPath())
}
