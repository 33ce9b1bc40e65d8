// Command demo shows Trueup at work: it starts a real Kubernetes control plane, a Git server with the repository of
// a web shop and the agent, and tells a story of commits, hands in the cluster and an autoscaler. It checks each step
// and fails with the first that does not happen. Start reading at story in story.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	keep bool   // stay up until Ctrl-C
	repo string // the user's own repository, in place of the shop
	path string // the folder in it
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the cleaning up
	os.Exit(run(untilGoRunEnds(ctx), os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 1 if something did not happen, 2 for a wrong command line, 130 for Ctrl-C before the end.
func run(ctx context.Context, args []string, out *os.File, errOut io.Writer) int {
	opts, err := parse(args, errOut)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(errOut, "demo:", err)
		return 2
	}
	err = show(ctx, opts, newScreen(out))
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && !errors.Is(err, errNotReady):
		return 130
	}
	fmt.Fprintf(errOut, "\ndemo: %v\n", err)
	return 1
}

func parse(args []string, errOut io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.BoolVar(&opts.keep, "keep", false, "stay up after the story, until Ctrl-C")
	flags.StringVar(&opts.repo, "repo", "", "sync this repository, a URL or a folder, in place of the shop; stays up until Ctrl-C")
	flags.StringVar(&opts.path, "dir", "", "with --repo: the folder in the repository (default: its root)")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	switch {
	case flags.NArg() > 0:
		return opts, fmt.Errorf("unexpected %q: see --help", flags.Arg(0))
	case opts.path != "" && opts.repo == "":
		return opts, errors.New("--dir says something only together with --repo")
	}
	return opts, nil
}

// show puts up the stage, shows what is asked for, and clears the stage away.
func show(ctx context.Context, opts options, out screen) (err error) {
	s, err := setUp(ctx, opts, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if opts.repo != "" {
		return s.showRepository(ctx, opts)
	}
	if err := s.tell(ctx, story()); err != nil {
		return err
	}
	if !opts.keep {
		s.title("What to try next")
		s.say(next)
		return nil
	}
	s.stayUp(ctx, "shop")
	return nil
}

// untilGoRunEnds returns a context that also ends with the go run that started this program: it dies of a SIGTERM
// without passing it on.
func untilGoRunEnds(ctx context.Context) context.Context {
	self, err := os.Executable()
	if err != nil || !strings.Contains(self, "/go-build") {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for parent := os.Getppid(); os.Getppid() == parent; {
			time.Sleep(200 * time.Millisecond)
		}
		cancel()
	}()
	return ctx
}
