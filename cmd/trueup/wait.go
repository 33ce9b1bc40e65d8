package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/sync"
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

The exit code is 0 when it is so, and 1 when the time is over, or as soon as the sync has failed and is not tried again
by itself: a hook has failed, the Application's retries are used up, or it is synced only when a person asks. With
--healthy alone a sync that has failed does not count.`,
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
		if why := failedForGood(app); why != "" && o.synced {
			return false, fmt.Errorf("waiting for %s/%s to be %s: the sync has failed: %s", app.Namespace, app.Name, o.goal(), why)
		}
		done, text := o.met(app)
		view.show(app, text, !done && isAnswered(app))
		return done, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		hint := notByItself(last)
		if !isAnswered(last) {
			hint = agentHint
		}
		return fmt.Errorf("waiting for %s/%s to be %s: the time is over after %s%s", app.Namespace, app.Name, o.goal(), o.timeout, notYet(last)+hint)
	}
	return err
}

// notByItself says on a line that what is OutOfSync waits for a person, and what that one is to run; "" where it does not.
func notByItself(app *v1alpha1.Application) string {
	if app.Status.Sync.Status != v1alpha1.OutOfSync {
		return ""
	}
	drifted := slices.ContainsFunc(app.Status.Drift, func(d v1alpha1.FieldDrift) bool { return d.Decision == string(diff.Enforce) })
	switch policy := sync.PolicyOf(app.Spec.SyncPolicy); {
	case !policy.Automated:
		return fmt.Sprintf("\n  automated sync is off: \"trueup sync %s\" makes it Synced", app.Name)
	case drifted && !policy.SelfHeal:
		return fmt.Sprintf("\n  self-heal is off: \"trueup sync %s\" makes it Synced", app.Name)
	}
	return ""
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
	if len(st.Resources) == 0 || hooksMessage(app) != "" { // else the objects say more
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

// failedForGood says why the sync of what Git declares now has failed, where none but a change or a person brings the
// next try; "" for any other state.
func failedForGood(app *v1alpha1.Application) string {
	st := app.Status
	if !isAnswered(app) || sync.PendingRequest(app) != nil {
		return ""
	}
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionApplied); c != nil && c.Reason == v1alpha1.ReasonHookFailed {
		return c.Message
	}
	op := st.OperationState
	if op == nil || op.Phase != v1alpha1.PhaseFailed || op.Revision != st.Sync.Revision || st.Sync.Status == v1alpha1.Synced {
		return ""
	}
	switch {
	case !sync.PolicyOf(app.Spec.SyncPolicy).Automated:
		return op.Message + `; it is tried again by "trueup sync"`
	case retriesUsedUp(app):
		return op.Message + `; its retries are used up, and it is tried again when Git changes, or by "trueup sync"`
	}
	return ""
}

// retriesUsedUp reports whether a sync that was refused as a whole has been tried as often as the Application allows.
func retriesUsedUp(app *v1alpha1.Application) bool {
	policy := app.Spec.SyncPolicy
	if policy == nil || policy.Retry == nil || policy.Retry.Limit == nil {
		return false
	}
	limit := *policy.Retry.Limit
	return limit >= 0 && app.Status.OperationState.Retries > limit
}

// hooksMessage says what the sync waits for, or why it has failed, where that is for hooks.
func hooksMessage(app *v1alpha1.Application) string {
	c := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionApplied)
	if c == nil || c.Reason != v1alpha1.ReasonHookFailed && c.Reason != v1alpha1.ReasonWaitingForHooks {
		return ""
	}
	return firstLine(c.Message)
}

// notYet lists, one a line, what stands in the way: hooks, and the objects.
func notYet(app *v1alpha1.Application) string {
	const shown = 10
	text := ""
	if hooks := hooksMessage(app); hooks != "" {
		text = "\n  " + hooks
	}
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
