package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/trueup/trueup/source"
)

const (
	allowedRemotesFlag  = "kustomize-allowed-remotes"
	allowedRemotesUsage = "beginnings of URLs that kustomizations may name outside of their repository, separated by commas, as https://github.com/org"
)

// allowedRemotes reads what kustomizations may name: as a flag says, or else the environment variable that the agent has
// for it too.
func allowedRemotes(flag []string) (source.AllowedRemotes, error) {
	env := envPrefix + "_" + strings.ToUpper(strings.ReplaceAll(allowedRemotesFlag, "-", "_"))
	from := "--" + allowedRemotesFlag
	if flag == nil {
		from = "$" + env
		if err := (list{&flag}).Set(os.Getenv(env)); err != nil {
			return source.AllowedRemotes{}, err
		}
	}
	remotes, err := source.NewAllowedRemotes(flag)
	if err != nil {
		return source.AllowedRemotes{}, fmt.Errorf("reading %s: %w", from, err)
	}
	return remotes, nil
}
