package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health/why"
	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// whyOptions are the flags of why.
type whyOptions struct {
	namespace string
	output    string
}

func newWhyCommand(c *cli) *cobra.Command {
	var opts whyOptions
	cmd := &cobra.Command{
		Use:     "why APP [KIND/NAME]",
		Short:   "Tell in which loop an Application, or one of its objects, is stuck",
		GroupID: groupApps,
		Long: `Walk from an Application down the chain of controllers and name the first that does not get on: Git, applying, the
rollout, quotas, scheduling, volumes, image pulls, init containers, crashes, probes. With KIND/NAME (deployment/web, or
[NAMESPACE/]KIND/NAME where a name is in several namespaces) the walk begins at that object.

It reads with your own rights, and writes nothing. The exit code is 0 when nothing is stuck, 1 when something is, and 2
for any error.`,
		Example: `  trueup why shop
  trueup why shop deployment/web -o json`,
		Annotations: map[string]string{failureCode: fmt.Sprint(healthFailed)},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return fmt.Errorf("say which Application, and at most one KIND/NAME of its objects\nSee '%s --help'", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: c.completeApps,
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, app, err := c.openApp(cmd, opts.namespace, args[0])
			if err != nil {
				return err
			}
			return opts.run(cmd.Context(), cl, app, args[1:], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addNamespaceFlag(cmd, &opts.namespace, "", namespaceUsage)
	cmd.Flags().VarP(oneOf(&opts.output, "json"), "output", "o", "json")
	mustCompleteFlag(cmd, "output", cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o whyOptions) run(ctx context.Context, cl *cluster, app *v1alpha1.Application, objects []string, out, errOut io.Writer) error {
	snapshot, notes, err := sync.GatherWhy(ctx, cl.Clients, cl.kinds, app, len(objects) > 0)
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(errOut, "warning:", note)
	}
	for _, name := range objects {
		if snapshot.Subject, err = cl.findSubject(snapshot, name); err != nil {
			return err
		}
	}
	report := why.Explain(snapshot, time.Now())
	if err := o.write(out, report); err != nil {
		return err
	}
	if slices.ContainsFunc(report.Chain, func(l why.Link) bool { return l.Stuck }) {
		return &exitError{code: healthNotWell}
	}
	return nil
}

func (o whyOptions) write(out io.Writer, report why.Report) error {
	if o.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	return report.WriteText(out)
}

// findSubject returns the object that [NAMESPACE/]KIND/NAME means. The error says what to type instead.
func (cl *cluster) findSubject(s why.Snapshot, arg string) (why.Ref, error) {
	refs := subjects(s)
	ids := make([]diff.ID, len(refs))
	for i, ref := range refs {
		ids[i] = diff.ID(ref)
	}
	i, err := cl.findObject(ids, arg)
	if err != nil {
		return why.Ref{}, err
	}
	return refs[i], nil
}

// subjects are the objects that can be asked about, sorted: what is declared, and what is around it.
func subjects(s why.Snapshot) []why.Ref {
	var refs []why.Ref
	for _, m := range s.Application.Managed {
		refs = append(refs, m.Ref)
	}
	for _, u := range s.Objects {
		if gvk := u.GroupVersionKind(); gvk.Kind != "Event" && gvk.Kind != "Node" {
			refs = append(refs, why.Ref{Group: gvk.Group, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()})
		}
	}
	slices.SortFunc(refs, func(a, b why.Ref) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return slices.Compact(refs)
}
