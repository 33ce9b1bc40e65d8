package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
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
			if err := cfg.Validate(); err != nil {
				return settings.located(err)
			}
			setUpLogging(cmd.ErrOrStderr(), cfg.LogLevel, cfg.LogFormat)
			cl, err := c.connect(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return runAgent(cmd.Context(), cl, cfg)
		},
	}
	cfg.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default: "+defaultConfigFile+", if there is one)")
	return cmd
}

// runAgent runs until ctx ends.
func runAgent(ctx context.Context, cl *cluster, cfg agentConfig) error {
	home := cmp.Or(os.Getenv("POD_NAMESPACE"), cl.namespace)
	cfg.LeaderElectNamespace = cmp.Or(cfg.LeaderElectNamespace, home)
	if cfg.Single.Repo != "" {
		cfg.ApplicationNamespace = cmp.Or(cfg.ApplicationNamespace, home)
		app, err := cl.setUpSingle(ctx, cfg)
		if err != nil {
			return err
		}
		slog.Info("made the Application", "namespace", app.GetNamespace(), "name", app.GetName())
	}
	return fmt.Errorf("running the agent: not wired yet")
}
