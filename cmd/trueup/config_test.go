package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestTheApplicationIsNamedAfterItsRepository(t *testing.T) {
	for sentence, c := range map[string]struct{ repo, chart, name, want string }{
		"a URL's last part, without .git":        {repo: "https://git.example.com/team/shop.git", want: "shop"},
		"a slash at the end is no part":          {repo: "https://git.example.com/team/shop/", want: "shop"},
		"user@host:path, without a slash":        {repo: "git@git.example.com:shop.git", want: "shop"},
		"capitals and dots become what names do": {repo: "https://git.example.com/My.Shop_2", want: "my-shop-2"},
		"a name that is set wins":                {repo: "https://git.example.com/shop", name: "web", want: "web"},
		"a chart's last part":                    {repo: "https://charts.example.com", chart: "team/Shop", want: "shop"},
		"nothing to take a name from":            {repo: "https://git.example.com/___.git", want: ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := (&singleConfig{Repo: c.repo, Chart: c.chart, Name: c.name}).findApplicationName()
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestSettingsComeFromTheCommandLineThenTheEnvironment(t *testing.T) {
	var cfg agentConfig
	flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	cfg.addFlags(flags)
	t.Setenv("TRUEUP_POLL_INTERVAL", "7s")
	t.Setenv("TRUEUP_WORKERS", "9")
	t.Setenv("TRUEUP_MAX_REPOSITORY_SIZE", "5Mi")
	t.Setenv("TRUEUP_METRICS_ADDRESS", "") // set, to nothing
	if err := flags.Parse([]string{"--workers", "3"}); err != nil {
		t.Fatal(err)
	}
	if _, err := loadSettings(flags, ""); err != nil {
		t.Fatal(err)
	}
	cfg.complete("home")
	type settings struct {
		Poll, Resync            time.Duration
		Workers                 int
		Bytes                   int64
		Address, Lease, Watched string
	}
	want := settings{7 * time.Second, time.Hour, 3, 5 << 20, "", "home", ""}
	got := settings{cfg.PollInterval, cfg.ResyncInterval, cfg.Workers, cfg.MaxRepositoryBytes, cfg.MetricsAddress, cfg.LeaderElectNamespace, cfg.ApplicationNamespace}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}
