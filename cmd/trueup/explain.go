package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/trueup/trueup/diff"
)

func newExplainCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "explain policies",
		Short:   "Explain how the agent decides about fields that others own",
		GroupID: groupApps,
		Long: `Print the rules by which the agent decides about a field that Git declares and somebody else owns, in the order in which
they are asked; the field managers that it knows by name, with the source of each; and what becomes of fields that leave
Git. It asks no cluster: field policies of an Application are in its spec, and "trueup owners" shows how they work out.`,
		Example: `  trueup explain policies`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != "policies" {
				return fmt.Errorf("say what to explain: \"trueup explain policies\"\nSee '%s --help'", cmd.CommandPath())
			}
			return nil
		},
		ValidArgs: []cobra.Completion{cobra.CompletionWithDesc("policies", "rules about fields that others own")},
		RunE: func(cmd *cobra.Command, _ []string) error {
			writePolicies(cmd.OutOrStdout(), c.palette(cmd.OutOrStdout()))
			return nil
		},
	}
	return cmd
}

func writePolicies(w io.Writer, p palette) {
	fmt.Fprintln(w, p.paint(bold, "Who decides about a field that Git declares and somebody else owns: the first rule that applies"))
	rules := table{indent: "  "}
	for i, r := range diff.Rules() {
		rules.add(cell{text: fmt.Sprintf("%d. %s", i+1, r.Name)}, cell{text: r.Says})
	}
	rules.write(w, p)

	fmt.Fprintln(w, "\n"+p.paint(bold, "Field managers that are known by name; anybody else is a controller"))
	known := table{indent: "  "}
	known.header("MANAGER", "CLASS", "SOURCE")
	for _, k := range diff.KnownOwners {
		known.add(cell{text: k.Manager}, cell{text: string(k.Class)}, cell{text: k.Source})
	}
	known.write(w, p)

	fmt.Fprintln(w, "\n"+p.paint(bold, "What becomes of a field of ours that is given up"))
	leaving := table{indent: "  "}
	for _, l := range diff.Leavings {
		leaving.add(cell{text: l.Field}, cell{text: l.Becomes}, cell{text: l.Why})
	}
	leaving.write(w, p)
	fmt.Fprintln(w, "  What keeps its value is first handed to the field manager trueup-released, and then left out of what is applied.")
}
