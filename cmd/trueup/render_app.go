package main

import (
	"context"
	"fmt"
	"os"

	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// renderApp renders an Application from its repository, at a revision or else at the commit it is compared with.
func (cl *cluster) renderApp(ctx context.Context, app *v1alpha1.Application, revision string, remotes []string) (*source.Rendered, error) {
	var rendered *source.Rendered
	err := withRemotes(remotes, func(repositories *source.Repositories) (err error) {
		_, rendered, err = sync.Render(ctx, cl.Clients, repositories, app, revision)
		return err
	})
	return rendered, err
}

// withRepositories lends repositories in a folder of their own: a clone has one commit only, and another command or an
// agent may run at the same time.
func withRepositories(use func(*source.Repositories) error) error {
	return withRemotes(nil, use)
}

// withRemotes is withRepositories, with what kustomizations may name by URL; nil is what the environment says.
func withRemotes(remotes []string, use func(*source.Repositories) error) error {
	allowed, err := allowedRemotes(remotes)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "trueup-")
	if err != nil {
		return fmt.Errorf("making a folder for the repository: %w", err)
	}
	defer os.RemoveAll(dir)
	return use(source.NewRepositories(dir, source.RepositoriesOptions{Remotes: allowed}))
}

// preview asks what a sync would do.
func (cl *cluster) preview(ctx context.Context, app *v1alpha1.Application, revision string, prune bool) (*sync.Preview, error) {
	var preview *sync.Preview
	err := withRepositories(func(repositories *source.Repositories) (err error) {
		preview, err = sync.NewPreview(ctx, cl.Clients, repositories, app, revision, prune)
		return err
	})
	return preview, err
}
