package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/testdata/gitserver"
	"github.com/trueup/trueup/testdata/kubetest"
)

//go:embed shop
var shop embed.FS

// stage is what the demo runs on. Everything it makes is in one temporary folder, or a child process.
type stage struct {
	screen
	*sync.Clients                       // of the administrator
	dir           string                // the temporary folder
	work          string                // a clone of the shop's repository, in which all commands run
	env           []string              // of all commands
	cluster       *kubetest.Cluster     // the control plane
	git           *gitserver.Repository // the shop's repository
	metrics       *metricsAPI           // what the autoscaler asks for the pods' load
	agent         *exec.Cmd             // the agent; nil before it is started
	agentEnded    chan error
	film          *film         // of the running step, if it has one
	patience      time.Duration // with one sight
}

// setUp builds trueup and starts everything but the agent.
func setUp(ctx context.Context, opts options, out screen) (_ *stage, err error) {
	s := &stage{screen: out, patience: 45 * time.Second} // it takes a few on a machine with nothing else to do
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "trueup-demo-"); err != nil {
		return nil, err
	}
	s.title("Getting ready")
	if err := s.timed("trueup is built", func() error { return s.build(ctx) }); err != nil {
		return nil, err
	}
	if err := s.timed("a Kubernetes control plane runs, with one node", func() error { return s.startCluster(ctx) }); err != nil {
		return nil, err
	}
	if err := s.startMetrics(ctx); err != nil {
		return nil, fmt.Errorf("serving the pods' metrics: %w", err)
	}
	if opts.repo != "" {
		return s, nil
	}
	return s, s.timed("a Git server has the repository of a web shop", func() error { return s.startGit(ctx) })
}

// close ends all processes, waits for their end, and removes what was written.
func (s *stage) close() error {
	if s.agent != nil {
		s.agent.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended already
		hanging := time.AfterFunc(20*time.Second, func() { s.agent.Process.Kill() })
		<-s.agentEnded
		hanging.Stop()
	}
	if s.metrics != nil {
		s.metrics.server.Close()
	}
	if s.cluster != nil {
		s.cluster.Stop()
	}
	if s.git != nil {
		s.git.Stop()
	}
	return os.RemoveAll(s.dir)
}

func (s *stage) timed(what string, do func() error) error {
	started := time.Now()
	if err := do(); err != nil {
		return err
	}
	s.seen(what, time.Since(started))
	return nil
}

func (s *stage) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

func (s *stage) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", s.path("bin", "trueup"), "github.com/trueup/trueup/cmd/trueup")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building trueup: %w\n%s", err, out)
	}
	return nil
}

func (s *stage) startCluster(ctx context.Context) (err error) {
	// Once it runs, a Ctrl-C must not end it before the agent.
	starting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	if s.cluster, err = kubetest.Start(starting, kubetest.Options{}); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	stop()
	if s.Clients, err = sync.NewClients(s.cluster.RESTConfig()); err != nil {
		return err
	}
	s.work = s.path("shop")
	s.env = append(os.Environ(),
		"PATH="+s.path("bin")+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+s.path("home"), "KUBECONFIG="+s.cluster.Kubeconfig(),
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "NO_COLOR=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	return errors.Join(os.Mkdir(s.work, 0o755), os.Symlink(s.cluster.KubectlPath(), s.path("bin", "kubectl")))
}

// startGit serves a repository with the shop in it, and clones it.
func (s *stage) startGit(ctx context.Context) (err error) {
	defer recoverGit(&err)
	files := make(map[string]string)
	if err := fs.WalkDir(shop, "shop", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := shop.ReadFile(name)
		files[strings.TrimPrefix(name, "shop/")] = string(data)
		return err
	}); err != nil {
		return err
	}
	s.git = gitserver.New(gitReporter{}, s.path("git"), gitserver.Options{})
	s.git.Config("http.receivepack", "true") // so that anyone may push
	s.git.Commit(files, "A web shop")
	_, err = s.sh(ctx, "git clone --quiet "+s.git.URL()+" .")
	return err
}

// gitReporter turns a failure of the Git server into a panic, for recoverGit.
type gitReporter struct{}

type gitError struct{ error }

func (gitReporter) Helper() {}

func (gitReporter) Fatalf(format string, args ...any) { panic(gitError{fmt.Errorf(format, args...)}) }

func recoverGit(err *error) {
	switch r := recover().(type) {
	case nil:
	case gitError:
		*err = fmt.Errorf("serving Git: %w", r.error)
	default:
		panic(r)
	}
}

// install brings the API and the agent's ServiceAccount with its permissions into the cluster. The pods there are
// simulated, so the agent itself runs as a process of ours.
func (s *stage) install(ctx context.Context, permissions string) error {
	return s.show(ctx, command{
		line: "trueup install --print " + permissions + " | sed 's/replicas: 1/replicas: 0/' | kubectl apply --server-side -f -",
		only: "definition|serviceaccount|deployment",
	})
}

// startAgent runs the agent as that ServiceAccount, with no more rights than it has.
func (s *stage) startAgent(ctx context.Context, args ...string) error {
	if err := s.writeAgentKubeconfig(ctx); err != nil {
		return fmt.Errorf("writing the agent's kubeconfig: %w", err)
	}
	log, err := os.Create(s.path("agent.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	args = append([]string{"agent", "--application-namespace", "trueup"}, args...)
	s.command("trueup " + strings.Join(args, " "))
	s.agent = exec.Command(s.path("bin", "trueup"), args...)
	s.agent.Env = append(os.Environ(), "KUBECONFIG="+s.path("agent.kubeconfig"), "TRUEUP_CACHE_DIR="+s.path("cache"), "TRUEUP_METRICS_ADDRESS=127.0.0.1:0")
	s.agent.Stdout, s.agent.Stderr = log, log
	s.agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // close ends it, not Ctrl-C
	if err := s.agent.Start(); err != nil {
		s.agent = nil
		return fmt.Errorf("starting the agent: %w", err)
	}
	s.agentEnded = make(chan error, 1)
	go func() {
		s.agentEnded <- s.agent.Wait()
		close(s.agentEnded)
	}()
	return nil
}

func (s *stage) writeAgentKubeconfig(ctx context.Context) error {
	day := int64(24 * time.Hour / time.Second)
	token, err := s.Kube.CoreV1().ServiceAccounts("trueup").CreateToken(ctx, "trueup",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(s.cluster.Kubeconfig())
	if err != nil {
		return err
	}
	current := config.Contexts[config.CurrentContext]
	current.Namespace = "trueup"
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{current.AuthInfo: {Token: token.Status.Token}}
	return clientcmd.WriteToFile(*config, s.path("agent.kubeconfig"))
}

// checkAgent returns an error with the end of the agent's log if it has ended.
func (s *stage) checkAgent() error {
	select {
	case err := <-s.agentEnded:
		return fmt.Errorf("the agent has ended (%v); the end of its log:\n%s", err, s.agentLog(10))
	default:
		return nil
	}
}

// agentLog returns the last lines of the agent's log.
func (s *stage) agentLog(n int) []byte {
	log, err := os.ReadFile(s.path("agent.log"))
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.SplitAfter(bytes.TrimSpace(log), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], nil)
}

// prepare makes a command that ends when ctx does, with all programs in it.
func (s *stage) prepare(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Dir, cmd.Env = s.work, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// sh runs a command in the clone and returns what it prints.
func (s *stage) sh(ctx context.Context, command string) (string, error) {
	out, err := s.prepare(ctx, command).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("running %s: %w\n%s", command, err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// show runs a command, and shows it and what it prints.
func (s *stage) show(ctx context.Context, c command) error {
	s.command(c.line)
	out, err := s.sh(ctx, c.line)
	if err == nil {
		s.output(out, c.only)
	}
	return err
}

func (s *stage) run(ctx context.Context, line string) error { return s.show(ctx, command{line: line}) }

// follow is run for a command that takes its time: what it prints is shown at once.
func (s *stage) follow(ctx context.Context, line string) error {
	s.command(line)
	cmd := s.prepare(ctx, line)
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			s.output(lines.Text(), "")
		}
		io.Copy(io.Discard, read) //nolint:errcheck // a line was too long to be shown
	}()
	err := cmd.Run()
	write.Close()
	<-shown
	return err
}
