package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// errNotReady says that the user's repository did not come up.
var errNotReady = errors.New("the repository did not become Synced and Healthy")

// showRepository syncs a repository of the user's own, and stays up until ctx ends.
func (s *stage) showRepository(ctx context.Context, opts options) error {
	s.title("Your repository in the cluster")
	repo := opts.repo
	if info, err := os.Stat(repo); err == nil && info.IsDir() {
		if repo, err = filepath.Abs(repo); err != nil {
			return err
		}
		repo = "file://" + repo
	}
	// A repository that nobody has seen may declare anything; the cluster is there for it alone.
	if err := s.install(ctx, "--cluster-admin"); err != nil {
		return err
	}
	args := []string{"--repo", repo, "--name", "demo", "--namespace", "demo", "--prune", "--poll-interval", "10s"}
	if opts.path != "" {
		args = append(args, "--path", opts.path)
	}
	if err := s.startAgent(ctx, args...); err != nil {
		return err
	}
	if _, err := s.until(ctx, func(ctx context.Context, s *stage) (string, error) {
		_, err := s.application(ctx, "demo")
		return "", err
	}); err != nil {
		return err
	}
	notReady := s.follow(ctx, "trueup wait demo --timeout 2m")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := s.run(ctx, "trueup status demo"); err != nil {
		return err
	}
	if notReady != nil {
		notReady = errNotReady
		s.say("\nIt is not Synced and Healthy. The agent goes on: push what it needs.")
	}
	s.stayUp(ctx, "demo")
	return notReady
}

// stayUp says what a person can do now, and waits until ctx ends.
func (s *stage) stayUp(ctx context.Context, app string) {
	s.title("Staying up until Ctrl-C")
	s.say(fmt.Sprintf(`In another terminal:

  export KUBECONFIG=%s PATH=%s:$PATH
  trueup status %s --watch
  trueup --help`, s.cluster.Kubeconfig(), s.path("bin"), app))
	if s.git != nil {
		s.say(fmt.Sprintf(`
The shop's repository is %s
with a clone in          %s

  cd %[2]s && edit, git commit -a, git push    and Trueup rolls it out
  kubectl -n shop scale deployment checkout --replicas 0    and Trueup puts it back
  kubectl -n shop get deployments --watch`, s.git.URL(), s.work))
	}
	s.say("\nThe agent's log is " + s.path("agent.log"))
	if m := regexp.MustCompile(`msg=serving address=(\S+)`).FindSubmatch(s.agentLog(1000)); m != nil {
		s.say(fmt.Sprintf("Its metrics are http://%s/metrics", m[1]))
	}
	select {
	case <-ctx.Done():
	case err := <-s.agentEnded:
		s.say(fmt.Sprintf("\nThe agent has ended (%v); the end of its log:\n%s", err, s.agentLog(10)))
	}
}
