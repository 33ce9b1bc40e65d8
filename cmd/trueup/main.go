// Command trueup keeps a Kubernetes cluster true to Git: the agent that does it, and the command line that shows it.
// Start reading at newRootCommand; there is one file per verb, and all that a verb needs of the outside is in cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/trueup/trueup/source"
)

func main() {
	source.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
