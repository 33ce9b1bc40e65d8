package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	cmd, err := root.ExecuteContextC(ctx)
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return 130 // Ctrl-C, as a shell reports it
	case errors.As(err, &exit) && exit.err == nil:
		return exit.code
	}
	fmt.Fprintf(errOut, "trueup: %v\n", explain(err))
	if exit != nil {
		return exit.code
	}
	if code, err := strconv.Atoi(cmd.Annotations[failureCode]); err == nil {
		return code
	}
	return 1
}

// failureCode is the annotation of a verb whose exit code for any failure is not 1.
const failureCode = "failure-code"

func newRootCommand() *cobra.Command {
	c := &cli{color: "auto", logLevel: "warn"}
	root := &cobra.Command{
		Use:   "trueup",
		Short: "Keep a Kubernetes cluster true to Git",
		Long: `Trueup keeps a Kubernetes cluster true to a Git repository. An agent in the cluster does the work; these commands
install it, show what it sees, and ask it to act. They talk to the Kubernetes API only, with your own kubeconfig.

Start with "trueup install", or try one repository from here with "trueup agent --repo URL --path DIR".`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return c.start(cmd)
		},
	}
	root.SetFlagErrorFunc(explainFlag)
	flags := root.PersistentFlags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, then ~/.kube/config)")
	flags.StringVar(&c.context, "context", "", "kubeconfig context")
	flags.Var(oneOf(&c.color, "auto", "always", "never"), "color", "colours: auto (on a terminal, unless NO_COLOR is set), always or never")
	flags.Var(oneOf(&c.logLevel, "debug", "info", "warn", "error"), "log-level", "least level of the log on standard error: debug, info, warn or error")
	for _, complete := range []struct {
		flag   string
		values cobra.CompletionFunc
	}{
		{"context", c.completeContexts},
		{"color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp)},
		{"log-level", cobra.FixedCompletions([]string{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp)},
	} {
		mustCompleteFlag(root, complete.flag, complete.values)
	}
	root.AddGroup(
		&cobra.Group{ID: groupApps, Title: "Applications:"},
		&cobra.Group{ID: groupSetup, Title: "The agent:"},
	)
	root.AddCommand(
		newStatusCommand(c), newDiffCommand(c), newOwnersCommand(c), newExplainCommand(c), newSyncCommand(c), newWaitCommand(c), newRefreshCommand(c), newRenderCommand(c), newHealthCommand(c), newWhyCommand(c),
		newInstallCommand(c), newUninstallCommand(c), newAgentCommand(c),
		newVersionCommand(),
	)
	return root
}

// Groups of verbs in the help.
const (
	groupApps  = "applications"
	groupSetup = "setup"
)

// mustCompleteFlag panics on a programming error: a flag that the command does not have.
func mustCompleteFlag(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err)
	}
}

// choice is a flag that takes one of a few words.
type choice struct {
	value   *string
	allowed []string
}

func oneOf(value *string, allowed ...string) pflag.Value { return &choice{value, allowed} }

func (c *choice) String() string { return *c.value }
func (c *choice) Type() string   { return "word" }

func (c *choice) Set(s string) error {
	for _, a := range c.allowed {
		if s == a {
			*c.value = s
			return nil
		}
	}
	return fmt.Errorf("must be %s", orList(c.allowed))
}
