package sync

import (
	"context"
	"fmt"
	"strings"

	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// chartOf returns the chart that a source names.
func chartOf(src v1alpha1.Source) source.Chart {
	return source.Chart{Repository: src.RepoURL, Name: src.Chart, PassCredentials: src.Helm != nil && src.Helm.PassCredentials}
}

// repositoryURL returns the URL of a source's repository as credential templates have it.
func repositoryURL(src v1alpha1.Source) string {
	if src.Chart != "" {
		return source.ChartURL(src.RepoURL)
	}
	return src.RepoURL
}

// resolve returns what the source stands for now, and makes sure that it can be read.
func (p *picked) resolve(ctx context.Context, auth source.Auth) (source.Revision, error) {
	if p.src.Chart != "" {
		return p.repositories.ResolveChart(ctx, chartOf(p.src), auth, p.src.TargetRevision, p.maxAge)
	}
	return p.repositories.Resolve(ctx, p.src.RepoURL, auth, p.src.TargetRevision, p.maxAge)
}

// tree returns the files of what the source stands for.
func (p *picked) tree(ctx context.Context) (*source.Tree, error) {
	if p.src.Chart != "" {
		return p.repositories.ChartTree(ctx, chartOf(p.src), p.revision.Commit)
	}
	return p.repositories.Tree(ctx, p.src.RepoURL, p.revision.Commit)
}

// republished says which charts have another digest under the version that they had before. That is followed, and not as
// it should be: whoever publishes something else gives it another version.
func republished(before []string, picks []*picked) []string {
	if len(before) != len(picks) {
		return nil
	}
	var list []string
	for i, p := range picks {
		now := p.revision.Commit
		version := v1alpha1.ShortRevision(now)
		if p.src.Chart == "" || before[i] == now || v1alpha1.ShortRevision(before[i]) != version || !strings.Contains(now, "@") {
			continue
		}
		digest := func(revision string) string { return strings.TrimPrefix(revision, version+"@") }
		list = append(list, fmt.Sprintf("version %s of chart %s was published anew: it was %.19s and is %.19s", version, p.src.Chart, digest(before[i]), digest(now)))
	}
	return list
}

// revisionName says what a revision is, for messages.
func revisionName(revision string) string {
	short := v1alpha1.ShortRevision(revision)
	if strings.Contains(revision, "sha256:") {
		return "version " + short
	}
	return "commit " + short
}
