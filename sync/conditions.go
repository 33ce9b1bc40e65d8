package sync

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/sync/v1alpha1"
)

func (l *look) conditions(s *v1alpha1.ApplicationStatus, now time.Time) {
	set := func(kind string, ok metav1.ConditionStatus, reason, message string) {
		c := metav1.Condition{Type: kind, Status: ok, Reason: reason, Message: truncate(l.snap.mask.Text(message), 8*maxMessage), ObservedGeneration: l.app.Generation, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy()}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	switch {
	case l.snap.fetchErr != nil:
		set(v1alpha1.ConditionFetched, metav1.ConditionFalse, "FetchFailed", l.snap.fetchErr.Error())
	case l.snap.set == nil && l.snap.renderErr == nil && l.snap.verifyErr == nil:
		set(v1alpha1.ConditionFetched, metav1.ConditionUnknown, "Fetching", l.blocked)
	default:
		set(v1alpha1.ConditionFetched, metav1.ConditionTrue, "Fetched", "the repository can be read")
	}
	switch {
	case !l.verifies():
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionVerified)
	case l.snap.verifyErr != nil:
		set(v1alpha1.ConditionVerified, metav1.ConditionFalse, "Refused", l.refusal(s))
	case len(s.Sync.Signatures) == 0 || l.snap.fetchErr != nil:
		set(v1alpha1.ConditionVerified, metav1.ConditionUnknown, "NotFetched", "nothing has been verified yet")
	default:
		set(v1alpha1.ConditionVerified, metav1.ConditionTrue, "Verified", signedBy(s.Sync.Signatures))
	}
	switch {
	case l.snap.renderErr != nil:
		set(v1alpha1.ConditionRendered, metav1.ConditionFalse, "RenderFailed", fmt.Sprintf("%s: %v", revisionName(l.snap.failed), l.snap.renderErr))
	case l.snap.set == nil && l.snap.verifyErr != nil:
		set(v1alpha1.ConditionRendered, metav1.ConditionUnknown, "NotVerified", "nothing has been verified yet")
	case l.snap.set == nil:
		set(v1alpha1.ConditionRendered, metav1.ConditionUnknown, "NotFetched", l.notYet("fetched"))
	default:
		set(v1alpha1.ConditionRendered, metav1.ConditionTrue, "Rendered", renderedMessage(l.snap))
	}
	switch {
	case l.st.retry.err != nil:
		set(v1alpha1.ConditionApplied, metav1.ConditionFalse, "Refused", l.st.retry.err.Error())
	case len(l.st.failures) > 0:
		set(v1alpha1.ConditionApplied, metav1.ConditionFalse, "Failed", l.anyFailure())
	case l.blocked != "":
		set(v1alpha1.ConditionApplied, metav1.ConditionUnknown, "Waiting", l.blocked)
	case l.hooksFailed(s) != "":
		set(v1alpha1.ConditionApplied, metav1.ConditionFalse, v1alpha1.ReasonHookFailed, l.hooksFailed(s))
	case l.hookWait != "":
		set(v1alpha1.ConditionApplied, metav1.ConditionUnknown, v1alpha1.ReasonWaitingForHooks, l.hookWait)
	case l.snap.set == nil:
		set(v1alpha1.ConditionApplied, metav1.ConditionUnknown, "NotRendered", l.notYet("rendered"))
	case s.Sync.Status == v1alpha1.Synced:
		set(v1alpha1.ConditionApplied, metav1.ConditionTrue, "Applied", "everything that Git declares is in the cluster")
	default:
		set(v1alpha1.ConditionApplied, metav1.ConditionFalse, "OutOfSync", outOfSyncMessage(s))
	}
	switch {
	case len(l.app.Spec.HealthRules) == 0:
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionHealthRules)
	case l.rulesErr != nil:
		set(v1alpha1.ConditionHealthRules, metav1.ConditionFalse, "Invalid", l.rulesErr.Error()+"; none of the rules is used until it is corrected")
	default:
		set(v1alpha1.ConditionHealthRules, metav1.ConditionTrue, "Compiled", words.Count(len(l.app.Spec.HealthRules), "rule"))
	}
	ok, reason := metav1.ConditionFalse, "NotReady"
	if s.Sync.Status == v1alpha1.Synced && s.Health.Status == string(health.Healthy) && l.snap.fetchErr == nil && l.rulesErr == nil && l.hooksFailed(s) == "" && l.hookWait == "" {
		ok, reason = metav1.ConditionTrue, "SyncedAndHealthy"
	}
	set(v1alpha1.ConditionReady, ok, reason, readyMessage(s))
}

// notYet says that there is nothing yet of the source as it is now; after another source, what becomes of what is there.
func (l *look) notYet(what string) string {
	if last := l.app.Status.Sync.Revision; last != "" {
		return fmt.Sprintf("nothing has been %s since the source changed or the agent started; what is there of %s stays as it is, and is not healed", what, revisionName(last))
	}
	return "nothing has been " + what + " yet"
}

// verifies reports whether something has to be signed.
func (l *look) verifies() bool {
	sources, _ := l.app.Spec.AllSources()
	return slices.ContainsFunc(sources, func(s v1alpha1.Source) bool { return s.Verify != nil })
}

// refusal says why a revision is refused for its signature, and what runs on.
func (l *look) refusal(s *v1alpha1.ApplicationStatus) string {
	text := l.snap.verifyErr.Error()
	if l.snap.set != nil {
		text += fmt.Sprintf("; %s runs on", s.Sync.ShortRevision)
	}
	return text
}

func signedBy(signatures []v1alpha1.SignatureStatus) string {
	var parts []string
	for _, sig := range signatures {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s signed by %s", sig.Source, sig.Mode, sig.Signer)))
	}
	return strings.Join(parts, "; ")
}

func renderedMessage(s *snapshot) string {
	message := words.Count(len(s.set.Objects), "object")
	if n := len(s.set.Hooks); n > 0 {
		message += ", " + words.Count(n, "hook")
	}
	for _, w := range slices.Concat(s.warnings, s.republished) {
		message += warningMark + w
	}
	return message
}

// warningMark stands before each warning in the message of ConditionRendered.
const warningMark = "; warning: "

// Warnings returns the warnings of the render that is used, as far as the status has room for them.
func Warnings(app *v1alpha1.Application) []string {
	c := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionRendered)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return strings.Split(c.Message, warningMark)[1:]
}

func (l *look) anyFailure() string {
	ids := sortedFailures(l.st.failures)
	return fmt.Sprintf("%s failed: %v", words.Count(len(ids), "object"), l.st.failures[ids[0]].err)
}

// readyMessage is one line on what is the matter: the first thing that a person has to look at.
func readyMessage(s *v1alpha1.ApplicationStatus) string {
	for _, kind := range []string{v1alpha1.ConditionFetched, v1alpha1.ConditionVerified, v1alpha1.ConditionRendered, v1alpha1.ConditionHealthRules} {
		if c := meta.FindStatusCondition(s.Conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			return c.Message
		}
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionApplied); c != nil && slices.Contains([]string{"Refused", "Failed", "Waiting", v1alpha1.ReasonHookFailed, v1alpha1.ReasonWaitingForHooks}, c.Reason) {
		return c.Message
	}
	return objectsMessage(s)
}

// objectsMessage is one line on the first object that is not as it is to be.
func objectsMessage(s *v1alpha1.ApplicationStatus) string {
	if len(s.Resources) == 0 {
		return words.Count(s.Objects.Total, "object") + " Synced and Healthy"
	}
	return objectMessage(s.Resources[0], len(s.Resources)+s.ResourcesOmitted-1)
}

// outOfSyncMessage is one line on the first object that is not as Git declares it; how healthy an object is does not count.
func outOfSyncMessage(s *v1alpha1.ApplicationStatus) string {
	apart := slices.DeleteFunc(slices.Clone(s.Resources), func(r v1alpha1.ResourceStatus) bool { return r.Sync == v1alpha1.Synced })
	count := max(len(apart), s.Objects.OutOfSync+s.Objects.Unknown)
	switch {
	case len(apart) > 0:
		return objectMessage(apart[0], count-1)
	case count == 0 && s.Sync.FailedRevision != "":
		return fmt.Sprintf("%s is in the cluster; the newer %s cannot be used", revisionName(s.Sync.Revision), revisionName(s.Sync.FailedRevision))
	}
	return words.Count(count, "object") + " not as Git declares"
}

// objectMessage is one line on an object; more is how many others there are like it.
func objectMessage(r v1alpha1.ResourceStatus, more int) string {
	message := idOf(r.ObjectReference).String() + ": " + cmp.Or(r.Message, r.Reason, string(r.Sync)+" "+r.Health)
	if more > 0 {
		message += " (and " + words.Count(more, "more object") + ")"
	}
	return message
}
