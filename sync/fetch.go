package sync

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/source/mask"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// sourceDigest tells whether a snapshot is of what the Application asks for now.
func sourceDigest(app *v1alpha1.Application) string {
	raw, err := json.Marshal(struct {
		Source      v1alpha1.Source
		Destination v1alpha1.Destination
		Sources     []v1alpha1.Source `json:",omitempty"`
	}{app.Spec.Source, app.Spec.Destination, app.Spec.Sources})
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
	next := c.look(ctx, app, old, st.takeAsk())
	if ctx.Err() != nil {
		return 0
	}
	switch {
	case old == nil || !next.same(old):
		st.replace(next)
		c.queue.Add(key)
	case !slices.Equal(next.commits, old.commits):
		// It only has to be said: Applications that this commit changes go first.
		st.replace(next)
		c.queue.AddAfter(key, unchangedAfter)
	}
	return c.nextLook(key, next)
}

// nextLook spreads the looks of many Applications, and comes back sooner, but ever later, after a failure.
func (c *Controller) nextLook(key types.NamespacedName, s *snapshot) time.Duration {
	interval := c.config.PollInterval
	switch {
	case s.fetchErr != nil, s.verifyErr != nil, errors.As(s.renderErr, &inputError{}):
		return min(c.fetchBackoff.When(key), interval)
	case s.set != nil && len(s.set.Unknown) > 0:
		interval = min(interval, unknownKindsAgain)
	}
	c.fetchBackoff.Forget(key)
	return interval - interval/10 + rand.N(interval/5+1)
}

// unknownKindsAgain is how soon kinds that are not served are asked for again, besides when a definition arrives.
const unknownKindsAgain = 15 * time.Second

// unchangedAfter is how long an Application waits that a commit does not change, to say that it is at that commit.
const unchangedAfter = time.Second

// same reports whether two snapshots lead to the same verdicts and the same report, but for the commits.
func (s *snapshot) same(o *snapshot) bool {
	return s.source == o.source && s.set == o.set && s.versions == o.versions && s.failed == o.failed && s.refresh == o.refresh && s.request == o.request &&
		slices.Equal(s.signatures, o.signatures) &&
		sameMessage(s.fetchErr, o.fetchErr) && sameMessage(s.verifyErr, o.verifyErr) && sameMessage(s.renderErr, o.renderErr)
}

func sameMessage(a, b error) bool { return message(a) == message(b) }

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// look makes the next snapshot from Git and the one before. What cannot be read leaves the last good state in place.
func (c *Controller) look(ctx context.Context, app *v1alpha1.Application, old *snapshot, why ask) *snapshot {
	next := &snapshot{source: sourceDigest(app)}
	if old != nil && old.source == next.source {
		*next = *old
	}
	maxAge := c.config.PollInterval / 2
	refresh, request := app.Annotations[v1alpha1.AnnotationRefresh], app.Annotations[v1alpha1.AnnotationSync]
	asked := next.refresh != refresh || next.request != request || old == nil
	next.refresh, next.request = refresh, request
	switch {
	case asked && (why.since.IsZero() || why.refresh != refresh || why.request != request):
		maxAge = 0 // the watch has brought the request, but has not told when
	case !why.since.IsZero():
		maxAge = min(maxAge, c.clock.Since(why.since))
	}
	next.fetchErr, next.verifyErr, next.renderErr, next.failed = nil, nil, nil, ""
	picks, err := c.reader.resolve(ctx, app, nil, maxAge)
	if err != nil {
		next.fetchErr = err
		return c.fallBack(ctx, app, next)
	}
	if err := c.reader.verify(ctx, app, picks); err != nil {
		next.verifyErr, next.failed = err, next.newest(picks)
		return c.fallBack(ctx, app, next)
	}
	if next.stops.hold(commits(picks), c.clock.Now()) && maxAge > 0 {
		next.renderErr, next.failed = next.stops.err, next.newest(picks)
		return c.fallBack(ctx, app, next)
	}
	if err := c.render(ctx, app, picks, next); err != nil {
		next.renderErr, next.failed = err, next.newest(picks)
		next.stops = next.stops.after(err, commits(picks), c.clock.Now())
		return c.fallBack(ctx, app, next)
	}
	next.stops = stops{}
	if old != nil && !slices.Equal(old.republished, next.republished) {
		for _, what := range next.republished {
			c.log.Warn("a chart's version is not what it was", "application", app.Namespace+"/"+app.Name, "warning", what)
		}
	}
	return next
}

// newest names the picks that cannot be used by one commit: the first that is not in use.
func (s *snapshot) newest(picks []*picked) string {
	for i, p := range picks {
		if len(s.commits) != len(picks) || s.commits[i] != p.revision.Commit {
			return p.revision.Commit
		}
	}
	return picks[0].revision.Commit
}

// fallBack returns to the last revision that was synced whole, where an agent that was just started cannot have a
// newer one: so that healing goes on while Git is away or has a commit that cannot be used. Of several sources it takes
// all as they were then.
func (c *Controller) fallBack(ctx context.Context, app *v1alpha1.Application, next *snapshot) *snapshot {
	synced := app.Status.Sync
	if next.set != nil || synced.SyncedRevision == "" || !isSyncedSource(synced.SyncedSource, next.source) {
		return next
	}
	commits := synced.SyncedRevisions
	if len(commits) == 0 {
		commits = []string{synced.SyncedRevision}
	}
	picks := c.reader.at(app, commits)
	if picks == nil {
		return next
	}
	err := c.render(ctx, app, picks, next)
	if errors.Is(err, source.ErrNotFetched) {
		if picks, err = c.reader.resolve(ctx, app, commits, time.Hour); err == nil {
			err = c.render(ctx, app, picks, next)
		}
	}
	if err != nil {
		c.log.Debug("the last good revision cannot be read", "application", app.Namespace+"/"+app.Name, "error", err)
	}
	return next
}

// inputError says that something besides the repository cannot be read that a render needs.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

// render reads the commits of all sources into next; on an error next keeps what it has.
func (c *Controller) render(ctx context.Context, app *v1alpha1.Application, picks []*picked, next *snapshot) error {
	vars, err := c.reader.variables(ctx, app)
	if err != nil {
		return inputError{err}
	}
	at := commits(picks)
	known := next.set != nil && len(next.set.Unknown) == 0 && next.versions == vars.versions && c.reader.isCluster(next.cluster)
	if known && slices.Equal(next.commits, at) && !haveRemotes(next.footprints) {
		next.signatures = signatures(picks)
		return nil
	}
	trees, err := c.reader.trees(ctx, picks)
	if err != nil {
		return err
	}
	if known && hold(ctx, next.footprints, trees) {
		next.take(picks)
		return nil
	}
	out, err := c.reader.render(ctx, app, picks, trees, vars)
	if err != nil {
		return err
	}
	secrets := mask.New(out.secrets)
	key := types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
	set, err := newDesiredSet(out.objects, key, app.Spec.Destination.Namespace, c.kinds)
	if err != nil {
		return secrets.Error(err)
	}
	set.leaveOut(out.leftOut, app.Spec.Destination.Namespace)
	// Kinds that are still unknown are no news.
	if next.set == nil || next.versions != vars.versions || next.cluster != out.cluster || !hold(ctx, next.footprints, trees) || !maps.EqualFunc(set.Unknown, next.set.Unknown, sameMessage) {
		next.set, next.footprints, next.mask, next.warnings, next.cluster = set, out.footprints, secrets, out.warnings(), out.cluster
	}
	next.versions = vars.versions
	next.take(picks)
	return nil
}

// take notes which picks the set is from.
func (s *snapshot) take(picks []*picked) {
	at := commits(picks)
	if !slices.Equal(s.commits, at) {
		s.republished = republished(s.commits, picks)
	}
	s.commits, s.signatures = at, signatures(picks)
}

func renderOptions(app *v1alpha1.Application, s v1alpha1.Source) (source.Options, error) {
	opts := source.Options{}
	var err error
	if opts.Helm, err = helmOptions(app, s.Helm); err != nil {
		return opts, err
	}
	if d := s.Directory; d != nil {
		opts.Directory = source.Directory{Recurse: d.Recurse, Include: d.Include, Exclude: d.Exclude, Jsonnet: jsonnetOptions(d.Jsonnet)}
	}
	k := s.Kustomize
	if k == nil {
		return opts, nil
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
	return opts, nil
}

func jsonnetOptions(j *v1alpha1.Jsonnet) (opts source.Jsonnet) {
	if j == nil {
		return opts
	}
	for _, v := range j.ExtVars {
		opts.ExtVars = append(opts.ExtVars, source.JsonnetVar(v))
	}
	for _, v := range j.TLAs {
		opts.TLAs = append(opts.TLAs, source.JsonnetVar(v))
	}
	opts.Libs = j.Libs
	return opts
}
