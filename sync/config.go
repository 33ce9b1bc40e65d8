package sync

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/source"
)

// Config are the agent's settings. DefaultConfig documents the defaults.
type Config struct {
	// ApplicationNamespace is where Applications are looked for; "" is every namespace.
	ApplicationNamespace string
	// ApplicationName is the one Application of that namespace to look after; "" is all of them.
	ApplicationName string
	// PollInterval is how often a repository is asked for its references, give or take a tenth.
	PollInterval time.Duration
	// ResyncInterval is how often every object is compared again from the cache, without a request.
	ResyncInterval time.Duration
	// Workers is how many Applications are looked at at once.
	Workers int
	// Concurrency is how many objects are written at once, over all Applications.
	Concurrency int
	// CacheDir is where clones of repositories are kept.
	CacheDir string
	// GitTimeout bounds one conversation with a Git server.
	GitTimeout time.Duration
	// MaxRepositoryBytes bounds what one fetch may receive.
	MaxRepositoryBytes int64
	// CredentialsNamespace is where the Secrets are that hold credentials for all Applications; "" is nowhere.
	CredentialsNamespace string
	// SubmoduleHosts are globs of hosts that submodules may be on, besides the repository's own and those that there are
	// credentials for. A host with another port than its scheme's has that port.
	SubmoduleHosts []string
	// KustomizeAllowedRemotes are beginnings of URLs that kustomizations may name outside of their repository.
	KustomizeAllowedRemotes []string
	// MetricsAddress is where /metrics, /healthz and /readyz are served; "" is nowhere.
	MetricsAddress string
	// WebhookAddress is where the calls of Git servers are received, at /webhook/PROVIDER; "" is nowhere.
	WebhookAddress string
	// WebhookSecrets is a folder with one file for each provider that may call: its secret.
	WebhookSecrets string
	// HealthRules judge objects of all Applications, before the shipped rules.
	HealthRules []health.Rule
	// LeaderElect lets only one of several agents act.
	LeaderElect bool
	// LeaderElectNamespace is where the Lease is.
	LeaderElectNamespace string
}

// DefaultConfig returns the settings of an agent that was told nothing.
func DefaultConfig() Config {
	return Config{
		PollInterval:         3 * time.Minute,
		ResyncInterval:       time.Hour,
		Workers:              4,
		Concurrency:          16,
		GitTimeout:           time.Minute,
		MaxRepositoryBytes:   1 << 30,
		SubmoduleHosts:       []string{"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"},
		MetricsAddress:       ":8080",
		WebhookSecrets:       "/etc/trueup/webhook",
		LeaderElect:          true,
		LeaderElectNamespace: "trueup",
	}
}

// Validate returns an error that names each setting that cannot be, by its key.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
		}
	}
	check(c.ApplicationName == "" || c.ApplicationNamespace != "", "application-namespace", "must name the namespace of the Application %s", c.ApplicationName)
	check(c.PollInterval >= time.Second, "poll-interval", "must be at least 1s, is %s", c.PollInterval)
	check(c.ResyncInterval >= time.Second, "resync-interval", "must be at least 1s, is %s", c.ResyncInterval)
	check(c.Workers >= 1 && c.Workers <= 256, "workers", "must be from 1 to 256, is %d", c.Workers)
	check(c.Concurrency >= 1 && c.Concurrency <= 1024, "concurrency", "must be from 1 to 1024, is %d", c.Concurrency)
	check(c.CacheDir != "", "cache-dir", "must name a folder")
	check(c.GitTimeout >= time.Second, "git-timeout", "must be at least 1s, is %s", c.GitTimeout)
	check(c.MaxRepositoryBytes > 0, "max-repository-size", "must be positive, is %d", c.MaxRepositoryBytes)
	check(c.WebhookAddress == "" || c.WebhookSecrets != "", "webhook-secrets", "must name a folder while webhook-address is set")
	check(c.WebhookAddress == "" || c.WebhookAddress != c.MetricsAddress, "webhook-address", "must be another one than metrics-address")
	if _, err := source.NewAllowedRemotes(c.KustomizeAllowedRemotes); err != nil {
		errs = append(errs, fmt.Errorf("kustomize-allowed-remotes: %w", err))
	}
	for _, pattern := range c.SubmoduleHosts {
		_, err := path.Match(pattern, "")
		check(err == nil && pattern != "" && !strings.Contains(pattern, "/"), "submodule-hosts", "%q is no host: write HOST, HOST:PORT or a glob such as *.example.com", pattern)
	}
	check(!c.LeaderElect || c.LeaderElectNamespace != "", "leader-elect-namespace", "must name a namespace while leader-elect is on")
	if _, err := health.NewJudge(c.HealthRules, health.Options{}); err != nil {
		errs = append(errs, healthRulesError("health-rules", err))
	}
	return errors.Join(errs...)
}
