package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// syncOptions are the flags of sync.
type syncOptions struct {
	namespace string
	prune     bool
	wait      bool
	dryRun    bool
	timeout   time.Duration
}

func newSyncCommand(c *cli) *cobra.Command {
	var opts syncOptions
	cmd := &cobra.Command{
		Use:     "sync APP",
		Short:   "Ask the agent to sync an Application now",
		GroupID: groupApps,
		Long: `Ask the agent to make the cluster what Git declares, also where the Application's policy would not do it by itself.

With --wait the exit code is 0 when the sync has gone through, and 1 when it has failed or the time is over.`,
		Example: `  trueup sync shop --wait
  trueup sync shop --prune --wait    # delete what is no longer in Git, too
  trueup sync shop --dry-run         # only tell what would be done`,
		Args:              exactlyOneApp,
		ValidArgsFunction: c.completeApps,
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, app, err := c.openApp(cmd, opts.namespace, args[0])
			if err != nil {
				return err
			}
			s := &syncing{cl: cl, app: app, out: cmd.OutOrStdout(), progress: newProgress(cmd.ErrOrStderr()), palette: c.palette(cmd.OutOrStdout())}
			if opts.dryRun {
				return s.dryRun(cmd.Context(), opts.prune)
			}
			return s.run(cmd.Context(), opts)
		},
	}
	addNamespaceFlag(cmd, &opts.namespace, "", namespaceUsage)
	cmd.Flags().BoolVar(&opts.prune, "prune", false, "also delete what is no longer in Git, however much that is")
	cmd.Flags().BoolVar(&opts.wait, "wait", false, "wait until the sync has finished, and show its progress")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only tell what would be done; \"trueup diff\" shows each field")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", 5*time.Minute, "how long --wait waits; 0 is without end")
	return cmd
}

// syncing is one request for a sync.
type syncing struct {
	cl       *cluster
	app      *v1alpha1.Application
	id       string
	out      io.Writer
	progress *progress
	palette  palette
}

func (s *syncing) run(ctx context.Context, opts syncOptions) error {
	s.id = rand.Text()
	request, err := json.Marshal(v1alpha1.SyncRequest{ID: s.id, By: s.cl.whoAmI(ctx), Prune: opts.prune})
	if err != nil {
		return err
	}
	if err := s.cl.annotate(ctx, s.app, v1alpha1.AnnotationSync, string(request)); err != nil {
		return err
	}
	if !opts.wait {
		fmt.Fprintf(s.out, "Asked the agent to sync %s/%s.\n", s.app.Namespace, s.app.Name)
		return nil
	}
	ctx, cancel := withTimeout(ctx, opts.timeout)
	defer cancel()
	return s.wait(ctx)
}

// wait shows the progress of the sync until it has finished.
func (s *syncing) wait(ctx context.Context) error {
	last, hint := "waiting for the agent", agentHint
	s.progress.show(s.app, last, false)
	err := s.cl.followOne(ctx, s.app, func(app *v1alpha1.Application) (bool, error) {
		op := app.Status.OperationState
		if op == nil || op.ID != s.id {
			op = answer(app, s.id)
		}
		if op == nil {
			return false, s.checkOvertaken(app)
		}
		hint = ""
		last = progressWords(op)
		s.progress.show(app, last, op.Phase == v1alpha1.PhaseRunning)
		if op.Phase == v1alpha1.PhaseRunning {
			return false, nil
		}
		return true, s.finish(app, op)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("syncing %s/%s: the time is over while %s%s", s.app.Namespace, s.app.Name, last, hint)
	}
	return err
}

// answer is how the request called id ended, where the agent has begun another operation since; nil where it has not ended.
func answer(app *v1alpha1.Application, id string) *v1alpha1.OperationState {
	r := app.Status.LastRequest
	if r == nil || r.ID != id {
		return nil
	}
	return &v1alpha1.OperationState{Phase: r.Phase, ID: r.ID, Message: r.Message, Revision: app.Status.Sync.Revision, FinishedAt: &r.FinishedAt}
}

// agentHint says where to look when nobody answers.
const agentHint = "\nDoes the agent run, and does it watch this namespace? Try: kubectl get pods -A -l app.kubernetes.io/name=trueup"

func progressWords(op *v1alpha1.OperationState) string {
	text := string(op.Phase)
	if op.Revision != "" {
		text += " " + shortRevision(op.Revision)
	}
	if op.Message != "" && op.Phase != v1alpha1.PhaseFailed { // the failure is told whole at the end
		text += ": " + firstLine(op.Message)
	}
	return text
}

// checkOvertaken fails when somebody else's later request has replaced this one before it was answered.
func (s *syncing) checkOvertaken(app *v1alpha1.Application) error {
	var request v1alpha1.SyncRequest
	if err := json.Unmarshal([]byte(app.Annotations[v1alpha1.AnnotationSync]), &request); err != nil || request.ID == s.id {
		return nil
	}
	return fmt.Errorf("syncing %s/%s: a later request by %s has replaced this one", app.Namespace, app.Name, cmp.Or(request.By, "somebody"))
}

// finish says how the sync ended.
func (s *syncing) finish(app *v1alpha1.Application, op *v1alpha1.OperationState) error {
	if op.Phase == v1alpha1.PhaseSucceeded {
		fmt.Fprintf(s.out, "%s/%s is synced to %s.\n", app.Namespace, app.Name, shortRevision(op.Revision))
		return nil
	}
	t := table{indent: "  "}
	for _, r := range app.Status.Resources {
		if r.Sync != v1alpha1.Synced {
			t.add(cell{text: objectName(r.ObjectReference)}, cell{r.Reason, red}, cell{text: r.Message})
		}
	}
	if n := app.Status.ResourcesOmitted; n > 0 {
		t.add(cell{text: fmt.Sprintf("and %d more", n)})
	}
	t.write(s.out, s.palette)
	return fmt.Errorf("syncing %s/%s: %s", app.Namespace, app.Name, cmp.Or(op.Message, "it failed"))
}

// whoAmI returns the user as the API server knows it, or else as the kubeconfig or the system calls it.
func (cl *cluster) whoAmI(ctx context.Context) string {
	review, err := cl.Kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err == nil && review.Status.UserInfo.Username != "" {
		return review.Status.UserInfo.Username
	}
	return cmp.Or(cl.user, os.Getenv("USER"), "trueup")
}

// withTimeout is context.WithTimeout; 0 is without end.
func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

func errDeleted(app *v1alpha1.Application) error {
	return fmt.Errorf("the Application %s/%s has been deleted", app.Namespace, app.Name)
}
