package main

import (
	"cmp"
	"context"
	"time"

	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// renderApp renders an Application from its repository, at a revision or else at the commit it is compared with.
func (cl *cluster) renderApp(ctx context.Context, app *v1alpha1.Application, revision string) (*source.Rendered, error) {
	auth, err := sync.SourceAuth(ctx, cl.Clients, app)
	if err != nil {
		return nil, err
	}
	src := app.Spec.Source
	repositories := source.NewRepositories(defaultCacheDir(), source.RepositoriesOptions{})
	revision = cmp.Or(revision, app.Status.Sync.Revision, src.TargetRevision)
	commit, err := repositories.Resolve(ctx, src.RepoURL, auth, revision, time.Minute)
	if err != nil {
		return nil, err
	}
	tree, err := repositories.Tree(ctx, src.RepoURL, commit.Commit)
	if err != nil {
		return nil, err
	}
	return source.Render(ctx, tree, src.Path, sourceOptions(src))
}
