package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/sync"
)

func newAgentCommand(c *cli) *cobra.Command {
	var cfg agentConfig
	var file string
	cmd := &cobra.Command{
		Use:     "agent",
		Short:   "Run the agent: keep Applications true to Git",
		GroupID: groupSetup,
		Long: `Run the agent. "trueup install" runs it in the cluster, for the Applications there; with --repo it makes one
Application itself, so that a repository can be tried from anywhere with a kubeconfig and without any YAML.

Each setting can also be an environment variable (--poll-interval is TRUEUP_POLL_INTERVAL) or a key of the configuration
file (poll-interval: 1m). The command line wins over the environment, and that over the file.`,
		Example: `  trueup agent --repo https://github.com/example/shop.git --path deploy/prod --namespace shop
  trueup agent --application-namespace trueup --poll-interval 1m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := loadSettings(cmd.Flags(), cmp.Or(file, os.Getenv(envPrefix+"_CONFIG")))
			if err != nil {
				return err
			}
			cfg.complete(c.homeNamespace())
			if err := cfg.Validate(); err != nil {
				return settings.located(err)
			}
			setUpLogging(cmd.ErrOrStderr(), cfg.LogLevel, cfg.LogFormat)
			cl, err := c.connect(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return cl.runAgent(cmd.Context(), cfg)
		},
	}
	cfg.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default: "+defaultConfigFile+", if there is one)")
	return cmd
}

// homeNamespace is where the agent itself is: its Pod's namespace, or the one of the kubeconfig's context.
func (c *cli) homeNamespace() string {
	namespace, _, err := c.loader().Namespace()
	if err != nil { // connect, which follows, says what is wrong with the kubeconfig
		namespace = metav1.NamespaceDefault
	}
	return cmp.Or(os.Getenv("POD_NAMESPACE"), namespace)
}

// runAgent runs the agent until ctx ends, or it cannot go on.
func (cl *cluster) runAgent(ctx context.Context, cfg agentConfig) error {
	if cfg.Single.Repo != "" {
		app, err := cl.setUpSingle(ctx, cfg)
		if err != nil {
			return err
		}
		cfg.ApplicationName = app.GetName()
		slog.Info("keeping one Application true to Git", "namespace", app.GetNamespace(), "name", app.GetName())
	}
	if os.Getenv("GOGC") == "" {
		// Little of what a pass allocates stays: a smaller heap is worth more here than fewer collections.
		debug.SetGCPercent(agentGCPercent)
	}
	agent, err := sync.NewAgent(cfg.Config, cl.config, slog.Default())
	if err != nil {
		return err
	}
	return agent.Run(ctx)
}

// agentGCPercent is how much garbage the agent lets pile up, in percent of what is in use.
const agentGCPercent = 50
