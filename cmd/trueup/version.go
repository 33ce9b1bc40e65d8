package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker: -ldflags "-X main.version=v1.2.3 -X main.commit=…".
var version, commit string

// buildInfo says which program this is.
type buildInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes that are in no commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion takes what the linker was told, and the rest from what the go command recorded.
func buildVersion() buildInfo {
	b := buildInfo{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && b.Commit == "":
				b.Commit = s.Value
			case s.Key == "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}

func newVersionCommand() *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Example: `  trueup version
  trueup version -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := buildVersion()
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(b)
			}
			line := "trueup " + b.Version
			if b.Commit != "" {
				line += " (" + b.Commit[:min(7, len(b.Commit))]
				if b.Modified {
					line += ", modified"
				}
				line += ")"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s\n", line, b.Go, b.Platform)
			return nil
		},
	}
	cmd.Flags().VarP(oneOf(&output, "text", "json"), "output", "o", "text or json")
	return cmd
}
