package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync"
)

// agentConfig is everything that can be set of an agent. Each setting has one name: its flag, in upper case with TRUEUP_
// before it its environment variable, and its key in the configuration file.
type agentConfig struct {
	sync.Config
	MaxRepositorySize resource.QuantityValue // Config.MaxRepositoryBytes, as it is written
	LogLevel          string
	LogFormat         string
	Single            singleConfig
}

// singleConfig is the one Application of `trueup agent --repo`.
type singleConfig struct {
	Repo      string // the repository; empty if Applications come from the cluster
	Path      string
	Chart     string // in place of a path, where the repository has charts
	Revision  string
	Namespace string // for objects that name none
	Name      string // of the Application; empty is after the repository
	Secret    string // with the repository's credentials, beside the Application
	Prune     bool
	SelfHeal  bool
}

// addFlags declares the settings with their defaults.
func (c *agentConfig) addFlags(flags *pflag.FlagSet) {
	d := sync.DefaultConfig()
	c.MaxRepositorySize.Quantity = *resource.NewQuantity(d.MaxRepositoryBytes, resource.BinarySI)
	c.LogLevel, c.LogFormat = "info", "text"

	flags.DurationVar(&c.PollInterval, "poll-interval", d.PollInterval, "time between two looks at a repository, give or take a tenth")
	flags.DurationVar(&c.ResyncInterval, "resync-interval", d.ResyncInterval, "time between two comparisons of a whole Application; no request is sent for what is in sync")
	flags.IntVar(&c.Workers, "workers", d.Workers, "Applications that are looked at at once")
	flags.IntVar(&c.Concurrency, "concurrency", d.Concurrency, "objects that are applied at once")
	flags.StringVar(&c.CacheDir, "cache-dir", defaultCacheDir(), "folder for the clones of repositories")
	flags.DurationVar(&c.GitTimeout, "git-timeout", d.GitTimeout, "longest time that one conversation with a Git server may take")
	flags.Var(&c.MaxRepositorySize, "max-repository-size", "most that one fetch may receive")

	c.SubmoduleHosts = d.SubmoduleHosts
	flags.StringVar(&c.CredentialsNamespace, "credentials-namespace", "", "namespace of the Secrets with credentials for all Applications, labelled trueup.dev/secret-type=repo-creds (default: $POD_NAMESPACE, or the one of the kubeconfig's context)")
	flags.Var(list{&c.SubmoduleHosts}, "submodule-hosts", "hosts that submodules may be on besides the repository's own, separated by commas; * in one stands for anything")

	flags.Var(list{&c.KustomizeAllowedRemotes}, allowedRemotesFlag, allowedRemotesUsage+"; none by default")

	flags.Var(healthRules{&c.HealthRules}, "health-rules", "list of health rules for the objects of all Applications, as YAML; best kept in the configuration file")

	flags.StringVar(&c.ApplicationNamespace, "application-namespace", "", "look only at Applications of this namespace (default: all)")
	flags.BoolVar(&c.LeaderElect, "leader-elect", d.LeaderElect, "work only while holding the Lease, so that one of several agents does")
	flags.StringVar(&c.LeaderElectNamespace, "leader-elect-namespace", "", "namespace of the Lease (default: $POD_NAMESPACE, or the one of the kubeconfig's context)")
	flags.StringVar(&c.MetricsAddress, "metrics-address", d.MetricsAddress, `where /metrics, /healthz and /readyz listen; "" is nowhere`)
	flags.StringVar(&c.WebhookAddress, "webhook-address", "", "where the calls of Git servers are received, at /webhook/PROVIDER (default: nowhere)")
	flags.StringVar(&c.WebhookSecrets, "webhook-secrets", d.WebhookSecrets, "folder with one file for each provider that may call: github, gitlab, gitea, bitbucket, bitbucket-server, azure-devops or generic, with its secret in it")
	flags.Var(oneOf(&c.LogLevel, "debug", "info", "warn", "error"), "log-level", "least level of the log: debug, info, warn or error")
	flags.Var(oneOf(&c.LogFormat, "text", "json"), "log-format", "text or json")

	flags.StringVar(&c.Single.Repo, "repo", "", "sync this repository: makes one Application, without any YAML")
	flags.StringVar(&c.Single.Path, "path", "", "with --repo: folder in the repository (default: its root)")
	flags.StringVar(&c.Single.Chart, "chart", "", "with --repo: chart in a chart repository or OCI registry, in place of a path in Git")
	flags.StringVar(&c.Single.Revision, "revision", "", "with --repo: branch, tag, commit or range of versions (default: HEAD, or a chart's highest version)")
	flags.StringVarP(&c.Single.Namespace, "namespace", "n", "", "with --repo: namespace for objects that name none; made where it is missing")
	flags.StringVar(&c.Single.Name, "name", "", "with --repo: name of the Application (default: the chart's or the repository's)")
	flags.StringVar(&c.Single.Secret, "secret", "", "with --repo: name of the Secret with the repository's credentials, in the Application's namespace")
	flags.BoolVar(&c.Single.Prune, "prune", false, "with --repo: delete what is no longer in Git")
	flags.BoolVar(&c.Single.SelfHeal, "self-heal", true, "with --repo: put back what others change")
}

// complete fills in what depends on other settings; home is the namespace of the agent itself.
func (c *agentConfig) complete(home string) {
	c.MaxRepositoryBytes = c.MaxRepositorySize.Value()
	c.LeaderElectNamespace = cmp.Or(c.LeaderElectNamespace, home)
	c.CredentialsNamespace = cmp.Or(c.CredentialsNamespace, home)
	if c.Single.Repo != "" {
		c.ApplicationNamespace = cmp.Or(c.ApplicationNamespace, home)
	}
}

// defaultCacheDir is the user's cache folder, or the one of the image where there is no user.
func defaultCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "/var/cache/trueup"
	}
	return filepath.Join(dir, "trueup")
}

// Validate returns an error for each setting that makes no sense; its text begins with the setting's key.
func (c *agentConfig) Validate() error {
	return errors.Join(
		c.Config.Validate(),
		checkAddress("metrics-address", c.MetricsAddress),
		checkAddress("webhook-address", c.WebhookAddress),
		checkName("application-namespace", c.ApplicationNamespace),
		checkName("credentials-namespace", c.CredentialsNamespace),
		checkName("leader-elect-namespace", c.LeaderElectNamespace),
		c.Single.validate(),
	)
}

func (s *singleConfig) validate() error {
	if s.Repo != "" {
		return errors.Join(checkName("namespace", s.Namespace), checkName("name", s.Name), checkSubdomain("secret", s.Secret))
	}
	var errs []error
	for _, setting := range []struct {
		key string
		set bool
	}{
		{"path", s.Path != ""}, {"chart", s.Chart != ""}, {"revision", s.Revision != ""}, {"namespace", s.Namespace != ""},
		{"name", s.Name != ""}, {"secret", s.Secret != ""}, {"prune", s.Prune}, {"self-heal", !s.SelfHeal},
	} {
		if setting.set {
			errs = append(errs, fmt.Errorf("%s: says something only together with repo", setting.key))
		}
	}
	return errors.Join(errs...)
}

func checkAddress(key, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: must be HOST:PORT or :PORT, is %q", key, address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%s: the port must be from 0 to 65535, is %q", key, port)
	}
	return nil
}

// checkName returns an error if value is set and cannot be the name of a namespace or an Application.
func checkName(key, value string) error {
	if problems := validation.IsDNS1123Label(value); value != "" && len(problems) > 0 {
		return fmt.Errorf("%s: %q is no such name: %s", key, value, problems[0])
	}
	return nil
}

// checkSubdomain returns an error if value is set and cannot be the name of a Secret.
func checkSubdomain(key, value string) error {
	if problems := validation.IsDNS1123Subdomain(value); value != "" && len(problems) > 0 {
		return fmt.Errorf("%s: %q is no such name: %s", key, value, problems[0])
	}
	return nil
}

// findApplicationName returns the name of the one Application: as it is set, or after the chart or the repository.
func (s *singleConfig) findApplicationName() (string, error) {
	if s.Name != "" {
		return s.Name, nil
	}
	base := cmp.Or(s.Chart, strings.TrimSuffix(strings.TrimRight(s.Repo, "/"), ".git"))
	base = base[strings.LastIndexAny(base, "/:")+1:]
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(base)), "-")
	if name == "" || len(name) > 63 {
		return "", fmt.Errorf("name: the repository %s gives no good name for the Application: set one", source.RedactURL(s.Repo))
	}
	return name, nil
}
