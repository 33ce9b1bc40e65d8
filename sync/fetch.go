package sync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// sourceDigest tells whether a snapshot is of what the Application asks for now.
func sourceDigest(app *v1alpha1.Application) string {
	raw, err := json.Marshal(struct {
		Source      v1alpha1.Source
		Destination v1alpha1.Destination
	}{app.Spec.Source, app.Spec.Destination})
	if err != nil {
		return "" // not reached: these types always marshal
	}
	return diff.Digest(raw)
}

// refresh looks at Git for one Application and wakes its loop when something is new. It returns when to look again.
func (c *Controller) refresh(ctx context.Context, key types.NamespacedName) time.Duration {
	app := c.application(key)
	if app == nil {
		return 0
	}
	st := c.states.of(key)
	old := st.current()
	next := c.look(ctx, app, old)
	if ctx.Err() != nil {
		return 0
	}
	if old == nil || !next.same(old) {
		st.replace(next)
		c.queue.Add(key)
	}
	return c.nextLook(key, next)
}

// nextLook spreads the looks of many Applications, and comes back sooner, but ever later, after a failure.
func (c *Controller) nextLook(key types.NamespacedName, s *snapshot) time.Duration {
	interval := c.config.PollInterval
	switch {
	case s.fetchErr != nil:
		return min(c.fetchBackoff.When(key), interval)
	case s.set != nil && len(s.set.Unknown) > 0:
		interval = min(interval, unknownKindsAgain)
	}
	c.fetchBackoff.Forget(key)
	return interval - interval/10 + rand.N(interval/5+1)
}

// unknownKindsAgain is how soon kinds that are not served are asked for again, besides when a definition arrives.
const unknownKindsAgain = 15 * time.Second

// same reports whether two snapshots lead to the same verdicts and the same report.
func (s *snapshot) same(o *snapshot) bool {
	return s.source == o.source && s.revision == o.revision && s.set == o.set && s.failed == o.failed && s.refresh == o.refresh && s.request == o.request &&
		message(s.fetchErr) == message(o.fetchErr) && message(s.renderErr) == message(o.renderErr)
}

func sameMessage(a, b error) bool { return message(a) == message(b) }

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// look makes the next snapshot from Git and the one before. What cannot be read leaves the last good state in place.
func (c *Controller) look(ctx context.Context, app *v1alpha1.Application, old *snapshot) *snapshot {
	next := &snapshot{source: sourceDigest(app)}
	if old != nil && old.source == next.source {
		*next = *old
	}
	maxAge := c.config.PollInterval / 2
	refresh, request := app.Annotations[v1alpha1.AnnotationRefresh], app.Annotations[v1alpha1.AnnotationSync]
	if next.refresh != refresh || next.request != request || old == nil {
		next.refresh, next.request, maxAge = refresh, request, 0
	}
	next.fetchErr, next.renderErr, next.failed = nil, nil, ""
	auth, err := c.auth(ctx, app)
	if err != nil {
		next.fetchErr = err
		return c.fallBack(ctx, app, auth, next)
	}
	revision, err := c.repositories.Resolve(ctx, app.Spec.Source.RepoURL, auth, app.Spec.Source.TargetRevision, maxAge)
	if err != nil {
		next.fetchErr = err
		return c.fallBack(ctx, app, auth, next)
	}
	if err := c.render(ctx, app, revision.Commit, next); err != nil {
		next.renderErr, next.failed = err, revision.Commit
		return c.fallBack(ctx, app, auth, next)
	}
	return next
}

// fallBack returns to the last revision that was synced whole, where an agent that was just started cannot have a
// newer one: so that healing goes on while Git is away or has a broken commit.
func (c *Controller) fallBack(ctx context.Context, app *v1alpha1.Application, auth source.Auth, next *snapshot) *snapshot {
	synced := app.Status.Sync
	if next.set != nil || synced.SyncedRevision == "" || synced.SyncedSource != next.source {
		return next
	}
	err := c.render(ctx, app, synced.SyncedRevision, next)
	if errors.Is(err, source.ErrNotFetched) {
		if _, err = c.repositories.Resolve(ctx, app.Spec.Source.RepoURL, auth, synced.SyncedRevision, time.Hour); err == nil {
			err = c.render(ctx, app, synced.SyncedRevision, next)
		}
	}
	if err != nil {
		c.log.Debug("the last good revision cannot be read", "application", app.Namespace+"/"+app.Name, "error", err)
	}
	return next
}

// render reads one commit into next; on an error next keeps what it has.
func (c *Controller) render(ctx context.Context, app *v1alpha1.Application, commit string, next *snapshot) error {
	if next.revision == commit && next.set != nil && len(next.set.Unknown) == 0 {
		return nil
	}
	src := app.Spec.Source
	tree, err := c.repositories.Tree(ctx, src.RepoURL, commit)
	if err != nil {
		return err
	}
	if next.set != nil && len(next.set.Unknown) == 0 && next.footprint.Holds(tree) {
		next.revision = commit
		return nil
	}
	start := c.clock.Now()
	rendered, err := source.Render(ctx, tree, src.Path, renderOptions(src))
	c.metrics.rendered(c.clock.Since(start), err)
	if err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
	set, err := newDesiredSet(rendered.Objects, key, app.Spec.Destination.Namespace, c.kinds)
	if err != nil {
		return err
	}
	// Kinds that are still unknown are no news.
	if next.set == nil || !next.footprint.Holds(tree) || !maps.EqualFunc(set.Unknown, next.set.Unknown, sameMessage) {
		next.set, next.footprint = set, source.NewFootprint(tree, rendered.Inputs)
	}
	next.revision = commit
	return nil
}

// auth reads the repository's credentials.
func (c *Controller) auth(ctx context.Context, app *v1alpha1.Application) (source.Auth, error) {
	return SourceAuth(ctx, c.clients, app)
}

// SourceAuth reads the credentials of an Application's repository from its Secret. It blocks for one request, and
// sends none where the Application names no Secret.
func SourceAuth(ctx context.Context, clients *Clients, app *v1alpha1.Application) (source.Auth, error) {
	ref := app.Spec.Source.SecretRef
	if ref == nil {
		return source.Auth{}, nil
	}
	secret, err := clients.Kube.CoreV1().Secrets(app.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return source.Auth{}, fmt.Errorf("reading the repository's credentials from Secret %s/%s: %w", app.Namespace, ref.Name, err)
	}
	auth, err := source.AuthFromSecret(secret.Data)
	if err != nil {
		return source.Auth{}, fmt.Errorf("reading the repository's credentials from Secret %s/%s: %w", app.Namespace, ref.Name, err)
	}
	return auth, nil
}

func renderOptions(s v1alpha1.Source) source.Options {
	var opts source.Options
	if d := s.Directory; d != nil {
		opts.Directory = source.Directory{Recurse: d.Recurse, Include: d.Include, Exclude: d.Exclude}
	}
	k := s.Kustomize
	if k == nil {
		return opts
	}
	opts.Kustomize = source.Kustomize{
		Images: k.Images, NamePrefix: k.NamePrefix, NameSuffix: k.NameSuffix,
		CommonLabels: k.CommonLabels, LabelWithoutSelector: k.LabelWithoutSelector, LabelIncludeTemplates: k.LabelIncludeTemplates,
		CommonAnnotations: k.CommonAnnotations, Namespace: k.Namespace, Components: k.Components,
	}
	for _, r := range k.Replicas {
		opts.Kustomize.Replicas = append(opts.Kustomize.Replicas, source.Replicas{Name: r.Name, Count: int64(r.Count.IntValue())})
	}
	for _, p := range k.Patches {
		patch := source.Patch{Path: p.Path, Patch: p.Patch, Options: p.Options}
		if t := p.Target; t != nil {
			patch.Target = &source.PatchTarget{Group: t.Group, Version: t.Version, Kind: t.Kind, Name: t.Name, Namespace: t.Namespace,
				LabelSelector: t.LabelSelector, AnnotationSelector: t.AnnotationSelector}
		}
		opts.Kustomize.Patches = append(opts.Kustomize.Patches, patch)
	}
	return opts
}
