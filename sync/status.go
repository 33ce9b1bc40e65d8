package sync

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// status makes the status that a pass comes to, from the old one and how each object stands.
func (l *look) status(now time.Time) *v1alpha1.ApplicationStatus {
	s := l.app.Status.DeepCopy()
	s.ObservedGeneration = l.app.Generation
	s.ObservedRefresh = l.snap.refresh
	steps := l.sortedSteps()
	if l.snap.set != nil {
		l.objects(s, steps)
	}
	l.syncStatus(s)
	l.hooksStatus(s, now)
	l.healthStatus(s, steps, now)
	l.operationStatus(s, now)
	l.conditions(s, now)
	return s
}

// sortedSteps puts the worst first: those that a person has to look at.
func (l *look) sortedSteps() []*Step {
	steps := make([]*Step, 0, len(l.st.steps))
	for _, s := range l.st.steps {
		steps = append(steps, s)
	}
	weight := func(s *Step) int {
		switch {
		case l.st.failures[s.ID] != nil:
			return 0
		case s.Sync == v1alpha1.SyncUnknown:
			return 1
		case s.Health.Code == health.Degraded:
			return 2
		case s.Sync == v1alpha1.OutOfSync:
			return 3
		case s.Health.Code != health.Healthy:
			return 4
		}
		return 5
	}
	slices.SortFunc(steps, func(a, b *Step) int { return cmp.Or(weight(a)-weight(b), a.ID.Compare(b.ID)) })
	return steps
}

// objects counts the objects and lists those that are not in order, bounded.
func (l *look) objects(s *v1alpha1.ApplicationStatus, steps []*Step) {
	var counts v1alpha1.ObjectCounts
	var resources []v1alpha1.ResourceStatus
	var drift []v1alpha1.FieldDrift
	s.ResourcesOmitted = 0
	for _, step := range steps {
		count(&counts, step)
		drift = append(drift, l.drift(step)...)
		if step.Sync == v1alpha1.Synced && step.Health.Code == health.Healthy && step.Reason != reasonByValue {
			continue
		}
		if len(resources) < v1alpha1.MaxResources {
			resources = append(resources, l.resource(step))
		} else {
			s.ResourcesOmitted++
		}
	}
	s.Objects, s.Resources = counts, resources
	l.driftStatus(s, drift)
	s.Kinds = l.statusKinds(s.Kinds)
}

// driftStatus lists the first of drift. What is held by the breaker comes before all, since a restart is to remember it.
func (l *look) driftStatus(s *v1alpha1.ApplicationStatus, drift []v1alpha1.FieldDrift) {
	slices.SortStableFunc(drift, func(a, b v1alpha1.FieldDrift) int {
		switch {
		case (a.HeldUntil == nil) == (b.HeldUntil == nil):
			return 0
		case a.HeldUntil != nil:
			return -1
		}
		return 1
	})
	listed := drift[:min(len(drift), v1alpha1.MaxDrift)]
	for i := range listed {
		listed[i] = keepTime(listed[i], s.Drift, l.now)
	}
	s.Drift, s.DriftOmitted = slices.Clone(listed), len(drift)-len(listed)
}

func count(c *v1alpha1.ObjectCounts, s *Step) {
	c.Total++
	switch {
	case s.Sync == v1alpha1.Synced:
		c.Synced++
	case s.Sync == v1alpha1.SyncUnknown:
		c.Unknown++
	default:
		c.OutOfSync++
	}
	if s.Desired == nil {
		c.Extra++
	}
	switch s.Health.Code {
	case health.Healthy:
		c.Healthy++
	case health.Progressing:
		c.Progressing++
	case health.Degraded:
		c.Degraded++
	case health.Suspended:
		c.Suspended++
	case health.Missing:
		c.Missing++
	}
}

func reference(id diff.ID) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{Group: id.Group, Kind: id.Kind, Namespace: id.Namespace, Name: id.Name}
}

// idOf is the reverse of reference.
func idOf(r v1alpha1.ObjectReference) diff.ID {
	return diff.ID{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// maxMessage bounds what an object says about itself in the status.
const maxMessage = 1024

func (l *look) resource(s *Step) v1alpha1.ResourceStatus {
	r := v1alpha1.ResourceStatus{ObjectReference: reference(s.ID), Sync: s.Sync, Health: string(s.Health.Code), Reason: s.Reason, Message: s.Message}
	if s.Sync == v1alpha1.Synced && s.Reason != reasonByValue {
		r.Reason, r.Message = s.Health.Reason, s.Health.Message
	}
	r.Message = truncate(l.snap.mask.Text(r.Message), maxMessage)
	return r
}

func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// drift lists the fields of an object that others own, and what people added.
func (l *look) drift(s *Step) []v1alpha1.FieldDrift {
	var out []v1alpha1.FieldDrift
	for _, loss := range s.Comparison.Losses {
		if s.Comparison.State == diff.Changed && loss.Owner == (diff.Owner{}) && loss.Rule != diff.RuleContested {
			continue // new in Git
		}
		d := fieldDrift(s.ID, l.path(loss.Path), loss.Owner, string(loss.Verdict), loss.Reason)
		d.HeldUntil, d.Times = l.st.heldUntil(s.Desired, loss, l.now)
		out = append(out, d)
	}
	for _, e := range s.Comparison.Extras {
		out = append(out, fieldDrift(s.ID, l.path(e.Path), e.Owner, string(diff.Enforce), e.Reason()))
	}
	return out
}

// path is how the status calls a field: the name of a map's key or a list's item may be as long as an object can be.
func (l *look) path(p fieldpath.Path) string {
	return truncate(l.snap.mask.Text(p.String()), maxMessage)
}

func fieldDrift(id diff.ID, path string, o diff.Owner, decision, reason string) v1alpha1.FieldDrift {
	d := v1alpha1.FieldDrift{
		ObjectReference: reference(id), Path: path,
		Manager: o.Manager, Operation: o.Operation, Subresource: o.Subresource, Decision: decision, Reason: reason,
	}
	if !o.Time.IsZero() {
		t := metav1.NewTime(o.Time)
		d.Time = &t
	}
	return d
}

// keepTime leaves the time at which a field was first taken: an owner that writes it every second is no news, and must
// not make us write every second either. The API server notes no time for the scale subresource, nor for a field that
// nobody owns: there it is when this was first seen.
func keepTime(d v1alpha1.FieldDrift, old []v1alpha1.FieldDrift, now time.Time) v1alpha1.FieldDrift {
	for _, o := range old {
		if o.ObjectReference == d.ObjectReference && o.Path == d.Path && o.Manager == d.Manager && o.Subresource == d.Subresource && o.Decision == d.Decision && o.Time != nil {
			d.Time = o.Time
		}
	}
	if d.Time == nil {
		seen := metav1.NewTime(now).Rfc3339Copy()
		d.Time = &seen
	}
	return d
}

// statusKinds are the kinds to look into after a restart: those of the revision, and those of which something is left.
func (l *look) statusKinds(old []v1alpha1.KindReference) []v1alpha1.KindReference {
	var kinds []v1alpha1.KindReference
	have := map[diff.ID]bool{}
	add := func(k v1alpha1.KindReference) {
		if gk := (diff.ID{Group: k.Group, Kind: k.Kind}); !have[gk] {
			have[gk] = true
			kinds = append(kinds, k)
		}
	}
	for _, gvk := range l.snap.set.Kinds() {
		add(v1alpha1.KindReference{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind})
	}
	left := map[diff.ID]bool{}
	for _, kind := range l.hookKinds {
		left[kind] = true
	}
	for id, s := range l.st.steps {
		if s.Desired == nil {
			left[diff.ID{Group: id.Group, Kind: id.Kind}] = true
		}
	}
	for _, k := range old {
		gk := diff.ID{Group: k.Group, Kind: k.Kind}
		// A kind that could not be listed is unknown, and so kept.
		if _, unlisted := l.unknown[gk.GroupKind()]; left[gk] || unlisted || l.blocked != "" {
			add(k)
		}
	}
	slices.SortFunc(kinds, func(a, b v1alpha1.KindReference) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind))
	})
	return kinds
}

func (l *look) syncStatus(s *v1alpha1.ApplicationStatus) {
	s.Sync.FailedRevision = l.snap.failed
	if l.snap.set == nil {
		s.Sync.Status = v1alpha1.SyncUnknown
		return
	}
	commit := l.snap.revision()
	s.Sync.Revision, s.Sync.ShortRevision, s.Sync.Revisions = commit, v1alpha1.ShortRevision(commit), l.snap.revisions()
	if l.snap.signatures != nil || !l.verifies() {
		s.Sync.Signatures = l.snap.signatures // else it is the revision that was verified before a restart
	}
	switch {
	case l.blocked != "" && s.Objects.OutOfSync == 0, s.Objects.Unknown > 0 && s.Objects.OutOfSync == 0:
		s.Sync.Status = v1alpha1.SyncUnknown
	case s.Objects.OutOfSync > 0, l.snap.renderErr != nil, l.snap.verifyErr != nil:
		s.Sync.Status = v1alpha1.OutOfSync
	default:
		s.Sync.Status = v1alpha1.Synced
	}
	if l.whole() {
		s.Sync.SyncedRevision, s.Sync.SyncedRevisions, s.Sync.SyncedSource = commit, l.snap.revisions(), syncedSource(l.source, l.snap.versions)
		s.Sync.SyncedState = l.snap.set.state
	}
	if l.blocked == "" {
		s.Sync.SyncedObjects = l.budgetBase(s.Sync.SyncedObjects)
	}
}

// whole reports whether the revision has been brought to the cluster: nothing of it is missing, changed or failed.
func (l *look) whole() bool {
	if l.blocked != "" || l.hold != "" || len(l.st.failures) > 0 || l.did.again {
		return false
	}
	return l.inPlace()
}

// inPlace reports whether all objects are in the cluster as the revision has them, but for drift.
func (l *look) inPlace() bool {
	for _, s := range l.st.steps {
		if s.Desired == nil || s.contested { // which has been written, again and again
			continue
		}
		switch s.Comparison.State {
		case diff.InSync, diff.Drifted, diff.Held:
		default: // also one that could not be compared: unknown, refused or on its way out
			return false
		}
	}
	return true
}

func (l *look) healthStatus(s *v1alpha1.ApplicationStatus, steps []*Step, now time.Time) {
	code, message := health.Healthy, ""
	if l.snap.set == nil {
		code = health.Unknown
	}
	for _, step := range steps {
		c := step.Health.Code
		if c == "" || step.Desired == nil || !c.WorseThan(code) {
			continue
		}
		code, message, l.deciding = c, step.ID.String(), step
		if step.Health.Message != "" {
			message += ": " + truncate(l.snap.mask.Text(step.Health.Message), maxMessage)
		}
	}
	code, message = l.hookHealth(code, message)
	if s.Health.Status != string(code) || s.Health.LastTransitionTime == nil {
		t := metav1.NewTime(now).Rfc3339Copy()
		s.Health.Status, s.Health.LastTransitionTime = string(code), &t
	}
	if deadline := progressDeadline(&l.app.Spec, s.Health); !deadline.IsZero() && !now.Before(deadline) {
		message += fmt.Sprintf("; Progressing for longer than its deadline of %s", progressTime(&l.app.Spec))
	}
	s.Health.Message = message
}

// defaultProgressTime is how long an Application may be Progressing that does not say how long.
const defaultProgressTime = 10 * time.Minute

func progressTime(spec *v1alpha1.ApplicationSpec) time.Duration {
	if spec.ProgressDeadlineSeconds == nil {
		return defaultProgressTime
	}
	return time.Duration(*spec.ProgressDeadlineSeconds) * time.Second
}

// progressDeadline is when Progressing begins to take too long; zero for another health.
func progressDeadline(spec *v1alpha1.ApplicationSpec, h v1alpha1.HealthStatus) time.Time {
	if h.Status != string(health.Progressing) || h.LastTransitionTime == nil {
		return time.Time{}
	}
	return h.LastTransitionTime.Add(progressTime(spec))
}

// operationStatus ends the operation of this pass and notes it in the history.
func (l *look) operationStatus(s *v1alpha1.ApplicationStatus, now time.Time) {
	if l.hookOperation(s, now) {
		return
	}
	interrupted := s.OperationState != nil && s.OperationState.Phase == v1alpha1.PhaseRunning
	if l.waiting || l.blocked != "" && l.input.Request == nil || !l.did.tried && l.input.Request == nil && !interrupted {
		return
	}
	phase, message := v1alpha1.PhaseSucceeded, l.summary()
	if err := cmp.Or(l.failure(), l.unread()); err != nil {
		phase, message = v1alpha1.PhaseFailed, err.Error()
	}
	if l.did.again && phase == v1alpha1.PhaseSucceeded {
		return // the next pass, which comes at once, will end it
	}
	if l.run != nil && l.run.ended {
		l.started = l.run.status.StartedAt.Time
	} else if l.started.IsZero() {
		l.started = now
	}
	op := l.operation(phase, truncate(message, 2*maxMessage))
	finished := metav1.NewTime(now).Rfc3339Copy()
	op.FinishedAt = &finished
	s.OperationState = op
	if l.input.Request != nil {
		l.st.answered = op.ID
		s.LastRequest = &v1alpha1.RequestStatus{ID: op.ID, Phase: op.Phase, Message: op.Message, FinishedAt: finished}
	}
	if l.did.wrote() > 0 || l.hookError() != nil || phase == v1alpha1.PhaseFailed && l.st.retry.times <= 1 && l.did.refused != nil {
		s.History = record(s.History, l.record(op))
	}
}

// unread is why a sync that a person asked for could not bring what Git has now; nil where it could, or nobody asked.
func (l *look) unread() error {
	switch {
	case l.input.Request == nil:
		return nil
	case l.blocked != "":
		return errors.New(l.blocked)
	case l.snap.fetchErr != nil:
		return l.snap.fetchErr
	case l.snap.verifyErr != nil:
		return l.snap.verifyErr
	case l.snap.renderErr != nil:
		return fmt.Errorf("%s: %w", revisionName(l.snap.failed), l.snap.renderErr)
	}
	return nil
}

// failure is why the pass did not bring about what it was to; nil where it did.
func (l *look) failure() error {
	if err := cmp.Or(l.did.refused, l.hookError()); err != nil {
		return err
	}
	if l.did.failed == 0 {
		return nil
	}
	var errs []error
	for _, id := range sortedFailures(l.st.failures) {
		errs = append(errs, l.st.failures[id].err)
	}
	return fmt.Errorf("%s failed: %w", words.Count(len(errs), "object"), first(errs))
}

func sortedFailures(m map[diff.ID]*failure) []diff.ID {
	ids := make([]diff.ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, diff.ID.Compare)
	return ids
}
