package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandHasAHelpWithAnExample(t *testing.T) {
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			check(sub)
		}
		if !cmd.HasParent() {
			return
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: its short help is %q", cmd.CommandPath(), cmd.Short)
		}
		example := false
		for line := range strings.Lines(cmd.Example) {
			example = example || strings.Contains(line, cmd.CommandPath()+" ") || strings.TrimSpace(line) == cmd.CommandPath()
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: the example is not indented: %q", cmd.CommandPath(), line)
			}
		}
		if !example {
			t.Errorf("%s: no example shows it: %q", cmd.CommandPath(), cmd.Example)
		}
		for line := range strings.Lines(cmd.Long) {
			if len(strings.TrimSuffix(line, "\n")) > 120 {
				t.Errorf("%s: a line of its help is too long: %q", cmd.CommandPath(), line)
			}
		}
	}
	check(newRootCommand())
}
