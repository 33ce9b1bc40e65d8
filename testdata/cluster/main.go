// Command cluster runs a real Kubernetes control plane on loopback: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kwok, which plays the kubelets. There is no container
// engine and no root: everything is built from Go modules, once, and lives in a temporary folder that
// goes away with it. It works on Linux and macOS.
//
//	go run .                      run a cluster until Ctrl-C, and print its kubeconfig
//	go run . exec -- CMD ARGS…    run a command against a cluster of its own, exit with its code
//	go run . binaries             build the binaries where they are missing, print their folder
//
// Start reading at startCluster in cluster.go; binaries.go is where the programs come from.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const usage = `Run a Kubernetes control plane on loopback, from Go modules alone.

  go run . [--nodes N]                           until Ctrl-C; prints the kubeconfig's path
  go run . exec [--nodes N] [-C DIR] -- CMD …    for as long as CMD runs, with KUBECONFIG set; exits with its code
  go run . binaries                              build what is missing and print the folder

KUBEBUILDER_ASSETS names a folder whose etcd, kube-apiserver and others are used instead of building them.

Flags:
`

func main() {
	if len(os.Args) == 3 && os.Args[1] == janitorCommand {
		runJanitor(os.Stdin, os.Args[2])
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C is not waited for; the janitor cleans up
	err := run(untilGoRunEnds(ctx), os.Args[1:])
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, &exit):
		os.Exit(exitCode(exit))
	case errors.Is(err, errUsage):
		os.Exit(2)
	case errors.Is(err, context.Canceled):
		os.Exit(130)
	default:
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		os.Exit(1)
	}
}

// errUsage is for a wrong command line about which the flag package has said all.
var errUsage = errors.New("wrong usage")

// options are what the command line says.
type options struct {
	nodes   int    // kwok nodes to create
	control bool   // obey JSON commands on standard input, see control.go
	dir     string // where exec runs its command
}

func run(ctx context.Context, args []string) error {
	verb := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	var opts options
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.IntVar(&opts.nodes, "nodes", 1, "number of nodes; each has 1,000 CPUs and room for a million pods")
	flags.BoolVar(&opts.control, "stdin", false, "obey JSON commands on standard input, and stop when it closes")
	flags.StringVar(&opts.dir, "C", "", "directory in which exec runs its command")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if opts.nodes < 0 {
		return fmt.Errorf("--nodes is %d: there cannot be fewer than no nodes", opts.nodes)
	}
	switch command := flags.Args(); {
	case verb == "" && len(command) == 0:
		return serve(ctx, opts)
	case verb == "binaries" && len(command) == 0:
		bin, err := findBinaries(ctx, os.Stderr)
		if err == nil {
			fmt.Println(bin.dir)
		}
		return err
	case verb == "exec" && len(command) > 0:
		return execute(ctx, opts, command)
	}
	return fmt.Errorf("unknown command %q: try --help", strings.Join(os.Args[1:], " "))
}

// serve runs a cluster until ctx ends, a component dies, or, with --stdin, standard input is closed.
func serve(ctx context.Context, opts options) error {
	var lines <-chan []byte
	if opts.control {
		ctx, lines = commands(ctx, os.Stdin)
	}
	started := time.Now()
	c, err := startCluster(ctx, opts.nodes, os.Stderr)
	if err != nil {
		return err
	}
	defer c.close()
	if opts.control {
		return control(ctx, c, lines, os.Stdout)
	}
	fmt.Printf(`The cluster is up after %.1f s: Kubernetes %s on %s.

  export KUBECONFIG=%s
  %s get nodes

The components' logs are in %s.
Press Ctrl-C to stop it and to remove that folder.
`, time.Since(started).Seconds(), c.version, c.server, c.kubeconfig("admin"), c.bin.path("kubectl"), c.path("logs"))
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.died:
		return err
	}
}

// execute runs a command against a cluster of its own and returns its *exec.ExitError.
func execute(ctx context.Context, opts options, command []string) error {
	c, err := startCluster(ctx, opts.nodes, os.Stderr)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = os.Stdin, os.Stdout, os.Stderr, opts.dir
	cmd.Env = append(os.Environ(), c.environ()...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", command[0], err)
	}
	c.janitor.watch(cmd.Process.Pid)
	defer c.janitor.unwatch(cmd.Process.Pid)
	go func() { cancel(<-c.died) }()
	err = cmd.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

func exitCode(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// goRunPath matches the folders from which go run runs a program: a temporary one and the build cache.
var goRunPath = regexp.MustCompile(`/go-build|/[0-9a-f]{64}-d/`)

// untilGoRunEnds returns a context that also ends when the go run that started this program is gone: it
// dies of a SIGTERM without passing it on.
func untilGoRunEnds(ctx context.Context) context.Context {
	self, err := os.Executable()
	if err != nil || !goRunPath.MatchString(self) {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		for ; os.Getppid() == parent; time.Sleep(200 * time.Millisecond) {
		}
		cancel()
	}()
	return ctx
}
