package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// Exit codes of diff.
const (
	diffFound  = 1
	diffFailed = 2
)

func newDiffCommand(c *cli) *cobra.Command {
	var namespace, revision string
	cmd := &cobra.Command{
		Use:     "diff APP",
		Short:   "Show how the cluster differs from Git, and who made it so",
		GroupID: groupApps,
		Long: `Show for each object how it is in the cluster (-) and how a sync would leave it (+), as the API server itself says by a
dry-run. Beside each line that goes is who wrote it and when, where that was somebody else; below are the fields that
others own, and what is done about each. The values of Secrets are hidden. Nothing is written.

The exit code is 0 when everything is in sync, 1 when something differs, and 2 when that cannot be told.`,
		Example: `  trueup diff shop
  trueup diff shop --revision feature    # what a branch would change`,
		Annotations:       map[string]string{failureCode: fmt.Sprint(diffFailed)},
		Args:              exactlyOneApp,
		ValidArgsFunction: c.completeApps,
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, app, err := c.openApp(cmd, namespace, args[0])
			if err != nil {
				return err
			}
			preview, err := cl.preview(cmd.Context(), app, revision, false)
			if err != nil {
				return err
			}
			if note := notUsed(app, preview.Revision); note != "" && revision == "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning:", note)
			}
			return writeDiff(cmd.OutOrStdout(), c.palette(cmd.OutOrStdout()), app, preview)
		},
	}
	addNamespaceFlag(cmd, &namespace, "", namespaceUsage)
	cmd.Flags().StringVar(&revision, "revision", "", "branch, tag, commit or range of versions (default: the commit that the Application is compared with)")
	return cmd
}

// notUsed says why what is compared with is not what Git has now; "" where it is.
func notUsed(app *v1alpha1.Application, revision string) string {
	for _, kind := range []string{v1alpha1.ConditionFetched, v1alpha1.ConditionVerified, v1alpha1.ConditionRendered} {
		if c := meta.FindStatusCondition(app.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			return fmt.Sprintf("compared with %s, since what Git has now cannot be used: %s", shortRevision(revision), firstLine(c.Message))
		}
	}
	return ""
}

// writeDiff prints what differs. The error has the exit code that goes with it.
func writeDiff(w io.Writer, p palette, app *v1alpha1.Application, preview *sync.Preview) error {
	differ, failed := 0, 0
	for _, change := range preview.Changes {
		switch {
		case change.Err != nil:
			failed++
			fmt.Fprintf(w, "%s\n%s\n", p.paint(bold, change.ID.String()), p.paint(red, indentLines("! "+change.Err.Error())))
		case !isInSync(change):
			differ++
			text, err := changeDiff(change)
			if err != nil {
				return err
			}
			writers, err := lineWriters(change)
			if err != nil {
				return err
			}
			fmt.Fprint(w, p.paintDiff(text, writers))
			writeNotes(w, p, app, change)
		}
	}
	if preview.HooksDue {
		for _, hook := range preview.Hooks {
			text := fmt.Sprintf("a sync would run the %s hook %s", hook.Phase, hook.ID)
			if hook.Err != nil {
				text = fmt.Sprintf("a sync would be refused: %s", hook.Err)
			}
			fmt.Fprintln(w, p.paint(dim, "# "+text))
		}
	}
	switch {
	case failed > 0:
		return &exitError{diffFailed, fmt.Errorf("comparing with %s: %d of %s cannot be compared", shortRevision(preview.Revision), failed, words.Count(len(preview.Changes), "object"))}
	case differ > 0:
		return &exitError{code: diffFound}
	}
	return nil
}

func isInSync(change sync.Change) bool {
	return change.Op == sync.OpNone && change.Sync == v1alpha1.Synced
}

// writeNotes tells who owns which fields of the object and what is done about it; or where it is not about fields, what a
// sync would do and why.
func writeNotes(w io.Writer, p palette, app *v1alpha1.Application, change sync.Change) {
	var lines []string
	for _, loss := range change.Comparison.Losses {
		if change.Comparison.State == diff.Changed && loss.Owner == (diff.Owner{}) {
			continue // new in Git
		}
		done := cmp.Or(heldField(app, change.ID, loss.Path.String(), loss.Owner), string(loss.Verdict)+", "+loss.Reason)
		lines = append(lines, ownerLine(loss.Path.String(), loss.Owner)+done)
	}
	for _, extra := range change.Comparison.Extras {
		lines = append(lines, ownerLine(extra.Path.String(), extra.Owner)+cmp.Or(heldField(app, change.ID, extra.Path.String(), extra.Owner), "not in Git"))
	}
	if len(lines) == 0 {
		lines = nonEmpty(strings.Join(nonEmpty(string(change.Op), firstLine(change.Message)), ": "))
	}
	for _, line := range lines {
		fmt.Fprintln(w, p.paint(dim, "# "+line))
	}
}

// heldField says that the agent holds a field which a sync that a person asks for would put back; "" where it does not.
func heldField(app *v1alpha1.Application, id diff.ID, path string, owner diff.Owner) string {
	d := sync.HeldField(app, id, path, owner, time.Now())
	if d == nil {
		return ""
	}
	return fmt.Sprintf(`%s, %s; "trueup sync %s" tries it at once`, d.Decision, d.Reason, app.Name)
}

// ownerLine reads: .spec.replicas ← kubectl (Update, scale) 3m ago:
func ownerLine(path string, owner diff.Owner) string {
	return path + " ← " + ownerSince(owner) + ": "
}

// ownerSince names an owner, with how and when it wrote.
func ownerSince(owner diff.Owner) string {
	if owner.Time.IsZero() {
		return ownerWords(owner)
	}
	return ownerWords(owner) + " " + age(metav1.NewTime(owner.Time)) + " ago"
}

func indentLines(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
