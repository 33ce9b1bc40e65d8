package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// waitOptions are the flags of wait.
type waitOptions struct {
	namespace string
	synced    bool
	healthy   bool
	timeout   time.Duration
}

func newWaitCommand(c *cli) *cobra.Command {
	var opts waitOptions
	cmd := &cobra.Command{
		Use:     "wait APP",
		Short:   "Wait until an Application is Synced and Healthy",
		GroupID: groupApps,
		Long: `Wait until an Application is Synced and Healthy, or only one of them. A status that is older than the Application's spec
or than the last "trueup refresh" does not count.

The exit code is 0 when it is so, and 1 when the time is over.`,
		Example: `  trueup wait shop
  trueup wait shop --healthy --timeout 15m`,
		Args:              exactlyOneApp,
		ValidArgsFunction: c.completeApps,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !opts.synced && !opts.healthy {
				opts.synced, opts.healthy = true, true
			}
			cl, app, err := c.openApp(cmd, opts.namespace, args[0])
			if err != nil {
				return err
			}
			if err := opts.run(cmd.Context(), cl, app, newProgress(cmd.ErrOrStderr())); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s/%s is %s.\n", app.Namespace, app.Name, opts.goal())
			return nil
		},
	}
	addNamespaceFlag(cmd, &opts.namespace, "", namespaceUsage)
	cmd.Flags().BoolVar(&opts.synced, "synced", false, "wait until it is Synced (default: Synced and Healthy)")
	cmd.Flags().BoolVar(&opts.healthy, "healthy", false, "wait until it is Healthy (default: Synced and Healthy)")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", 5*time.Minute, "how long to wait; 0 is without end")
	return cmd
}

func (o waitOptions) goal() string {
	switch {
	case !o.healthy:
		return "Synced"
	case !o.synced:
		return "Healthy"
	}
	return "Synced and Healthy"
}

// run shows on progress how the Application changes, until it is what is waited for.
func (o waitOptions) run(ctx context.Context, cl *cluster, app *v1alpha1.Application, view *progress) error {
	ctx, cancel := withTimeout(ctx, o.timeout)
	defer cancel()
	last := app
	err := cl.followOne(ctx, app, func(app *v1alpha1.Application) (bool, error) {
		last = app
		done, text := o.met(app)
		view.show(app, text, !done && isAnswered(app))
		return done, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		hint := ""
		if !isAnswered(last) {
			hint = agentHint
		}
		return fmt.Errorf("waiting for %s/%s to be %s: the time is over after %s%s", app.Namespace, app.Name, o.goal(), o.timeout, notYet(last)+hint)
	}
	return err
}

// met reports whether the Application is what is waited for, and how it is in words.
func (o waitOptions) met(app *v1alpha1.Application) (bool, string) {
	st := app.Status
	switch {
	case isStale(app):
		return false, message(app)
	case !isAnswered(app):
		return false, "waiting for the agent to look at Git"
	}
	text := fmt.Sprintf("%s, %s", cmp.Or(st.Sync.Status, v1alpha1.SyncUnknown), cmp.Or(st.Health.Status, "Unknown"))
	if len(st.Resources) == 0 { // else they say more
		text = strings.Join(nonEmpty(text, message(app)), ": ")
	}
	synced := !o.synced || st.Sync.Status == v1alpha1.Synced
	healthy := !o.healthy || st.Health.Status == string(health.Healthy)
	return synced && healthy, text
}

// isAnswered reports whether the status is about the newest spec, and about Git since the last refresh.
func isAnswered(app *v1alpha1.Application) bool {
	asked := app.Annotations[v1alpha1.AnnotationRefresh]
	return !isStale(app) && (asked == "" || asked == app.Status.ObservedRefresh)
}

// notYet lists, one a line, the objects that stand in the way.
func notYet(app *v1alpha1.Application) string {
	const shown = 10
	text := ""
	list := app.Status.Resources
	for _, r := range list[:min(shown, len(list))] {
		text += fmt.Sprintf("\n  %s: %s, %s", objectName(r.ObjectReference), r.Sync, cmp.Or(r.Health, "Unknown"))
		if why := reasonWords(r); why != "" {
			text += ": " + why
		}
	}
	if more := len(list) + app.Status.ResourcesOmitted - shown; more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return text
}
