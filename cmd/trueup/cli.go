package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/discovery/cached/memory"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs may ask for these credential plugins
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/sync"
)

// cli holds the global flags.
type cli struct {
	kubeconfig string
	context    string
	color      string
	logLevel   string
}

// start runs before every verb.
func (c *cli) start(cmd *cobra.Command) error {
	setUpLogging(cmd.ErrOrStderr(), c.logLevel, "text")
	return nil
}

// cluster is one API server and how to speak to it.
type cluster struct {
	*sync.Clients
	config    *rest.Config
	namespace string // of the kubeconfig's context
	user      string // as the kubeconfig calls it; empty inside a cluster
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	kinds     *apply.Kinds
	judge     *health.Judge // of objects that belong to no Application
}

// connect reads the kubeconfig; nothing is sent yet. Warnings of the API server go to errOut.
func (c *cli) connect(errOut io.Writer) (*cluster, error) {
	loader := c.loader()
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, c.explainKubeconfig(loader, err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent = "trueup/" + buildVersion().Version
	config.WarningHandler = rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true})
	clients, err := sync.NewClients(config)
	if err != nil {
		return nil, err
	}
	cl := &cluster{Clients: clients, config: config, namespace: namespace, kinds: apply.NewKinds(clients.Kube.Discovery(), clock.RealClock{})}
	if cl.judge, err = health.NewJudge(nil, health.Options{HasStatus: cl.kinds.HasStatus}); err != nil {
		return nil, err
	}
	cl.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clients.Kube.Discovery()))
	if raw, err := loader.RawConfig(); err == nil {
		name := raw.CurrentContext
		if c.context != "" {
			name = c.context
		}
		if kc := raw.Contexts[name]; kc != nil {
			cl.user = kc.AuthInfo
		}
	}
	return cl, nil
}

func (c *cli) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
}

// explainKubeconfig says what to do about a kubeconfig that gives no cluster.
func (c *cli) explainKubeconfig(loader clientcmd.ClientConfig, err error) error {
	raw, rawErr := loader.RawConfig()
	if rawErr != nil {
		return fmt.Errorf("reading the kubeconfig: %w", rawErr)
	}
	contexts := contextNames(loader)
	switch {
	case len(contexts) == 0 && len(raw.Clusters) == 0:
		return fmt.Errorf("no cluster is configured: name a kubeconfig with --kubeconfig or $KUBECONFIG")
	case c.context != "" && raw.Contexts[c.context] == nil:
		return fmt.Errorf("the kubeconfig has no context %q%s", c.context, didYouMean(c.context, contexts))
	case c.context == "" && raw.CurrentContext == "":
		return fmt.Errorf("the kubeconfig has no current context: choose one of %s with --context", orList(contexts))
	}
	return fmt.Errorf("reading the kubeconfig: %w", err)
}

func contextNames(loader clientcmd.ClientConfig) []string {
	raw, err := loader.RawConfig()
	if err != nil {
		return nil
	}
	var names []string
	for name := range raw.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
