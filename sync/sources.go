package sync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// reader reads what Git declares for Applications, with the rights of the agent or of whoever asks.
type reader struct {
	clients        *Clients
	repositories   *source.Repositories
	templates      func(context.Context) (source.Templates, error)
	submoduleHosts []string
	kinds          *apply.Kinds
	rendered       func(time.Duration, error) // called after each render
}

// A picked source is one source of an Application at the commit that it stands for.
type picked struct {
	name         string // in messages, "" where there is one source only
	src          v1alpha1.Source
	repositories *source.Repositories // as this source sees them
	revision     source.Revision
	maxAge       time.Duration // of what is known of other repositories that it names
	lastKnown    bool          // their servers are not asked for what the cache has of them
	signer       string        // "" where nothing has to be signed
}

// named says of which source an error is.
func (p *picked) named(err error) error {
	if p.name == "" || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

func commits(picks []*picked) []string {
	var list []string
	for _, p := range picks {
		list = append(list, p.revision.Commit)
	}
	return list
}

// signatures says who signed the picks; nil where that is not known, as of those that a status names.
func signatures(picks []*picked) []v1alpha1.SignatureStatus {
	var list []v1alpha1.SignatureStatus
	for _, p := range picks {
		if p.src.Verify != nil && p.signer != "" {
			list = append(list, v1alpha1.SignatureStatus{Source: p.name, Mode: verifyMode(p.src.Verify), Signer: p.signer})
		}
	}
	return list
}

// repositoriesOf returns the repositories as a source sees them: with their submodules, unless it wants none.
func (r *reader) repositoriesOf(src v1alpha1.Source, parent login) *source.Repositories {
	if !wantsSubmodules(src) {
		return r.repositories
	}
	return r.repositories.WithSubmodules(r.submoduleAuth(src, parent))
}

// at returns all sources at the given commits, without asking anybody.
func (r *reader) at(app *v1alpha1.Application, commits []string) []*picked {
	sources, names := app.Spec.AllSources()
	if len(commits) != len(sources) {
		return nil
	}
	var picks []*picked
	for i, src := range sources {
		picks = append(picks, &picked{name: names[i], src: src, repositories: r.repositoriesOf(src, login{}), revision: source.Revision{Commit: commits[i]}, lastKnown: true})
	}
	return picks
}

// resolve returns all sources of an Application at the commits that they stand for, or at the given revisions, and makes
// sure that they can be read. Either all of them can be, or none is used: it is an error that names the source.
func (r *reader) resolve(ctx context.Context, app *v1alpha1.Application, revisions []string, maxAge time.Duration) ([]*picked, error) {
	sources, names := app.Spec.AllSources()
	if len(revisions) != 0 && len(revisions) != len(sources) {
		return nil, fmt.Errorf("the Application has %d sources, and %d revisions are given", len(sources), len(revisions))
	}
	answers := map[question]source.Revision{}
	var picks []*picked
	for i, src := range sources {
		if len(revisions) != 0 {
			src.TargetRevision = revisions[i]
		}
		p := &picked{name: names[i], src: src, maxAge: maxAge}
		login, err := r.login(ctx, app.Namespace, src)
		if err != nil {
			return nil, p.named(err)
		}
		p.repositories = r.repositoriesOf(src, login)
		q := questionOf(src)
		// Two paths of one revision are of one commit, also while somebody pushes.
		revision, ok := answers[q]
		if !ok {
			if revision, err = p.resolve(ctx, login.auth); err != nil {
				return nil, p.named(login.explain(err))
			}
			answers[q] = revision
		}
		p.revision = revision
		picks = append(picks, p)
	}
	return picks, nil
}

// A question is what a server is asked for one source.
type question struct {
	url, secret, revision string
	chart                 source.Chart
	submodules            bool
}

func questionOf(src v1alpha1.Source) question {
	q := question{url: src.RepoURL, revision: src.TargetRevision, submodules: wantsSubmodules(src)}
	if src.Chart != "" {
		q.chart = chartOf(src)
	}
	if src.SecretRef != nil {
		q.secret = src.SecretRef.Name
	}
	return q
}

// A verifyError says that a revision is not signed by anyone who may, or that this cannot be told.
type verifyError struct{ error }

func (e verifyError) Unwrap() error { return e.error }

// verify notes who signed the picks; the error is a verifyError.
func (r *reader) verify(ctx context.Context, app *v1alpha1.Application, picks []*picked) error {
	for _, p := range picks {
		if p.src.Verify == nil {
			continue
		}
		data, err := r.secret(ctx, app.Namespace, p.src.Verify.SecretRef.Name, "the keys of those who may sign")
		if err != nil {
			return verifyError{p.named(err)}
		}
		v, err := source.VerificationFromSecret(source.VerifyMode(verifyMode(p.src.Verify)), data)
		if err != nil {
			return verifyError{p.named(fmt.Errorf("reading the keys of those who may sign from Secret %s/%s: %w", app.Namespace, p.src.Verify.SecretRef.Name, err))}
		}
		if p.signer, err = p.repositories.Verify(ctx, p.src.RepoURL, p.revision, v); err != nil {
			return verifyError{p.named(err)}
		}
	}
	return nil
}

func verifyMode(v *v1alpha1.Verify) v1alpha1.VerifyMode {
	if v.Mode == "" {
		return v1alpha1.VerifyMode(source.VerifyHEAD)
	}
	return v.Mode
}

// trees returns the files of each source, with those that they may refer to.
func (r *reader) trees(ctx context.Context, picks []*picked) ([]*source.Tree, error) {
	var trees []*source.Tree
	for _, p := range picks {
		tree, err := p.tree(ctx)
		if err != nil {
			return nil, p.named(err)
		}
		trees = append(trees, tree)
	}
	refs := map[string]*source.Tree{}
	for i, p := range picks {
		if p.src.Ref != "" {
			refs[p.src.Ref] = trees[i]
		}
	}
	for i := range trees {
		remotes := r.repositories.Remotes(r.remoteAuth, picks[i].maxAge)
		if picks[i].lastKnown {
			remotes = remotes.LastKnown()
		}
		trees[i] = trees[i].WithRefs(refs).WithRemotes(remotes)
	}
	return trees, nil
}

// rendering is what all sources of an Application render to.
type rendering struct {
	objects    []source.Object
	leftOut    []source.Object // declared, but nothing to apply
	footprints []footprint
	secrets    []string // texts that nothing shown may have in it
	cluster    string   // digest of what the cluster serves, if it had a part in it
	rendered   []*source.Rendered
}

// prefix says of which source the i-th render is; it is "" where there is one only.
func (r *rendering) prefix(i int) string {
	if len(r.rendered) == 1 {
		return ""
	}
	return fmt.Sprintf("sources[%d] ", r.footprints[i].source)
}

// warnings are those of all sources.
func (r *rendering) warnings() []string {
	var all []string
	for i, one := range r.rendered {
		for _, w := range one.Warnings {
			all = append(all, r.prefix(i)+w)
		}
	}
	return all
}

// footprint is what one render depended on, of one source.
type footprint struct {
	source int
	*source.Footprint
}

// haveRemotes reports whether renders may give another result with no commit to what was rendered.
func haveRemotes(footprints []footprint) bool {
	return slices.ContainsFunc(footprints, func(f footprint) bool { return f.HasRemotes() })
}

// hold reports whether renders of trees would give the same result.
func hold(ctx context.Context, footprints []footprint, trees []*source.Tree) bool {
	return !slices.ContainsFunc(footprints, func(f footprint) bool { return !f.Holds(ctx, trees[f.source]) })
}

// render renders all sources, in their order.
func (r *reader) render(ctx context.Context, app *v1alpha1.Application, picks []*picked, trees []*source.Tree, vars variables) (*rendering, error) {
	out := &rendering{}
	for i, p := range picks {
		if !p.src.IsRendered() {
			continue
		}
		opts, err := renderOptions(app, p.src)
		if err != nil {
			return nil, p.named(err)
		}
		served := ""
		opts.Helm.Cluster = func() (*source.Cluster, error) {
			s, err := r.kinds.Served()
			served = s.Digest
			return &source.Cluster{KubeVersion: s.KubeVersion, APIVersions: s.APIVersions}, err
		}
		opts.Substitute, opts.Decryption = vars.of[i], vars.keys[i]
		start := time.Now()
		rendered, err := source.Render(ctx, trees[i], p.src.Path, opts)
		if r.rendered != nil {
			r.rendered(time.Since(start), err)
		}
		if err != nil {
			return nil, p.named(err)
		}
		for _, o := range rendered.Objects {
			if p.name != "" {
				o.File = p.name + " " + o.File
			}
			out.objects = append(out.objects, o)
		}
		out.leftOut = append(out.leftOut, rendered.LeftOut...)
		out.footprints = append(out.footprints, footprint{i, source.NewFootprint(trees[i], rendered.Inputs)})
		out.secrets = append(out.secrets, rendered.Secrets...)
		if rendered.UsesCluster {
			out.cluster = served
		}
		out.rendered = append(out.rendered, rendered)
	}
	return out, nil
}

// syncedSource is how a status says which sources were synced: by the spec's digest, and by the versions of what the
// variables are from, since those change what is declared as a commit does.
func syncedSource(digest, versions string) string {
	if versions == "" {
		return digest
	}
	return digest + "+" + diff.Digest([]byte(versions))
}

// isSyncedSource reports whether a status is of the sources with a digest, whatever their variables were.
func isSyncedSource(synced, digest string) bool {
	spec, _, _ := strings.Cut(synced, "+")
	return spec == digest
}
