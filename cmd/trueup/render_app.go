package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// renderApp renders an Application from its repository, at a revision or else at the commit it is compared with.
func (cl *cluster) renderApp(ctx context.Context, app *v1alpha1.Application, revision string) (*source.Rendered, error) {
	auth, err := cl.repositoryAuth(ctx, app)
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

// repositoryAuth reads the credentials that an Application names.
func (cl *cluster) repositoryAuth(ctx context.Context, app *v1alpha1.Application) (source.Auth, error) {
	ref := app.Spec.Source.SecretRef
	if ref == nil {
		return source.Auth{}, nil
	}
	secret, err := cl.Kube.CoreV1().Secrets(app.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return source.Auth{}, fmt.Errorf("reading the credentials of the repository: %w", err)
	}
	auth, err := source.AuthFromSecret(secret.Data)
	if err != nil {
		return source.Auth{}, fmt.Errorf("reading Secret %s/%s: %w", app.Namespace, ref.Name, err)
	}
	return auth, nil
}
