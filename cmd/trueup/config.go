package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// agentConfig is everything that can be set of an agent. Each setting has one name: its flag, in upper case with TRUEUP_
// before it its environment variable, and its key in the configuration file.
type agentConfig struct {
	PollInterval      time.Duration          // between two looks at a repository's refs, give or take a tenth
	ResyncInterval    time.Duration          // between two comparisons of a whole Application from the cache
	Workers           int                    // Applications that are looked at at once
	Concurrency       int                    // objects of one Application that are applied at once
	CacheDir          string                 // where the clones of repositories are kept
	GitTimeout        time.Duration          // for one fetch
	MaxRepositorySize resource.QuantityValue // of one clone

	ApplicationNamespace string // the Applications of this namespace only; empty is all namespaces
	LeaderElect          bool   // work only while holding the Lease
	LeaderElectNamespace string // where the Lease is; empty is the agent's own
	MetricsAddress       string // of /metrics, /healthz and /readyz; empty is off
	LogLevel             string
	LogFormat            string

	Single singleConfig
}

// singleConfig is the one Application of `trueup agent --repo`.
type singleConfig struct {
	Repo      string // the repository; empty if Applications come from the cluster
	Path      string
	Revision  string
	Namespace string // for objects that name none
	Name      string // of the Application; empty is after the repository
	Prune     bool
	SelfHeal  bool
}

// addFlags declares the settings with their defaults.
func (c *agentConfig) addFlags(flags *pflag.FlagSet) {
	c.MaxRepositorySize.Quantity = resource.MustParse("2Gi")
	c.LogLevel, c.LogFormat = "info", "text"

	flags.DurationVar(&c.PollInterval, "poll-interval", 3*time.Minute, "time between two looks at a repository, give or take a tenth")
	flags.DurationVar(&c.ResyncInterval, "resync-interval", time.Hour, "time between two comparisons of a whole Application; no request is sent for what is in sync")
	flags.IntVar(&c.Workers, "workers", 4, "Applications that are looked at at once")
	flags.IntVar(&c.Concurrency, "concurrency", 16, "objects of one Application that are applied at once")
	flags.StringVar(&c.CacheDir, "cache-dir", defaultCacheDir(), "folder for the clones of repositories")
	flags.DurationVar(&c.GitTimeout, "git-timeout", time.Minute, "longest time that one fetch may take")
	flags.Var(&c.MaxRepositorySize, "max-repository-size", "largest clone of one repository")

	flags.StringVar(&c.ApplicationNamespace, "application-namespace", "", "look only at Applications of this namespace (default: all)")
	flags.BoolVar(&c.LeaderElect, "leader-elect", true, "work only while holding the Lease, so that one of several agents does")
	flags.StringVar(&c.LeaderElectNamespace, "leader-elect-namespace", "", "namespace of the Lease (default: $POD_NAMESPACE, or the one of the kubeconfig's context)")
	flags.StringVar(&c.MetricsAddress, "metrics-address", ":8080", `where /metrics, /healthz and /readyz listen; "" is nowhere`)
	flags.Var(oneOf(&c.LogLevel, "debug", "info", "warn", "error"), "log-level", "least level of the log: debug, info, warn or error")
	flags.Var(oneOf(&c.LogFormat, "text", "json"), "log-format", "text or json")

	flags.StringVar(&c.Single.Repo, "repo", "", "sync this repository: makes one Application, without any YAML")
	flags.StringVar(&c.Single.Path, "path", "", "with --repo: folder in the repository (default: its root)")
	flags.StringVar(&c.Single.Revision, "revision", "", "with --repo: branch, tag, commit or range of versions (default: HEAD)")
	flags.StringVarP(&c.Single.Namespace, "namespace", "n", "", "with --repo: namespace for objects that name none; made where it is missing")
	flags.StringVar(&c.Single.Name, "name", "", "with --repo: name of the Application (default: the repository's)")
	flags.BoolVar(&c.Single.Prune, "prune", false, "with --repo: delete what is no longer in Git")
	flags.BoolVar(&c.Single.SelfHeal, "self-heal", true, "with --repo: put back what others change")
}

// defaultCacheDir is the user's cache folder, or the one of the image where there is no user.
func defaultCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "/var/cache/trueup"
	}
	return filepath.Join(dir, "trueup")
}

// settingError is what is wrong with the value of one setting.
type settingError struct {
	key string
	err error
}

func (e *settingError) Error() string { return e.key + ": " + e.err.Error() }
func (e *settingError) Unwrap() error { return e.err }

// Validate returns a *settingError for the first setting that makes no sense.
func (c *agentConfig) Validate() error {
	for _, check := range []struct {
		key  string
		ok   bool
		want string
	}{
		{"poll-interval", c.PollInterval >= time.Second, "must be 1s or more"},
		{"resync-interval", c.ResyncInterval >= time.Second, "must be 1s or more"},
		{"workers", c.Workers >= 1 && c.Workers <= 1000, "must be from 1 to 1000"},
		{"concurrency", c.Concurrency >= 1 && c.Concurrency <= 1000, "must be from 1 to 1000"},
		{"cache-dir", c.CacheDir != "", "must name a folder"},
		{"git-timeout", c.GitTimeout >= time.Second, "must be 1s or more"},
		{"max-repository-size", c.MaxRepositorySize.Sign() > 0, "must be more than nothing, such as 500Mi"},
	} {
		if !check.ok {
			return &settingError{check.key, errors.New(check.want)}
		}
	}
	if err := checkAddress(c.MetricsAddress); err != nil {
		return &settingError{"metrics-address", err}
	}
	return cmp.Or(
		checkName("application-namespace", c.ApplicationNamespace),
		checkName("leader-elect-namespace", c.LeaderElectNamespace),
		c.Single.validate(),
	)
}

func (s *singleConfig) validate() error {
	if s.Repo != "" {
		return cmp.Or(checkName("namespace", s.Namespace), checkName("name", s.Name))
	}
	for _, setting := range []struct {
		key string
		set bool
	}{
		{"path", s.Path != ""}, {"revision", s.Revision != ""}, {"namespace", s.Namespace != ""},
		{"name", s.Name != ""}, {"prune", s.Prune}, {"self-heal", !s.SelfHeal},
	} {
		if setting.set {
			return &settingError{setting.key, errors.New("says something only together with repo")}
		}
	}
	return nil
}

// findApplicationName returns the name of the one Application: as it is set, or after the repository.
func (s *singleConfig) findApplicationName() (string, error) {
	if s.Name != "" {
		return s.Name, nil
	}
	base := strings.TrimSuffix(strings.TrimRight(s.Repo, "/"), ".git")
	base = base[strings.LastIndexAny(base, "/:")+1:]
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(base)), "-")
	if name == "" || len(name) > 63 {
		return "", &settingError{"name", fmt.Errorf("the repository %s gives no good name for the Application: set one", withoutPassword(s.Repo))}
	}
	return name, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
