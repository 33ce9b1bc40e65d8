package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completeApps completes the one argument of a verb: the name of an Application.
func (c *cli) completeApps(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cl, err := c.connect(cmd.ErrOrStderr())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second) // a shell should not hang on Tab
	defer cancel()
	names, err := cl.appNames(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	namespace, _ := cmd.Flags().GetString("namespace")
	var words []string
	for _, n := range names {
		if namespace == "" || n.Namespace == namespace {
			words = append(words, cobra.CompletionWithDesc(n.Name, "namespace "+n.Namespace))
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

func (c *cli) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return contextNames(c.loader()), cobra.ShellCompDirectiveNoFileComp
}
