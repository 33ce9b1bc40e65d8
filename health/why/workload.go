package why

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/internal/fields"
	"github.com/trueup/trueup/health/words"
)

// transition returns since when the condition of that type is as it is; zero where it is absent.
func transition(status fields.Map, kind string) time.Time {
	for _, v := range status.Conditions() {
		if c := fields.Of(v); c.Str("type") == kind {
			return parseTime(c.Str("lastTransitionTime"))
		}
	}
	return time.Time{}
}

func (w *walk) deployment(o *object) {
	w.link(o.Ref, transition(o.status, "Progressing"), "%s", o.health.Message)
	if o.spec.Bool("paused") {
		w.stuck(fmt.Sprintf("kubectl rollout resume -n %s deployment/%s", o.Namespace, o.Name), "%s is paused: %s", o.Ref, o.health.Message)
		return
	}
	newest := newestReplicaSet(w.owned(o, "ReplicaSet"))
	if newest == nil {
		w.stuck(describe(o.Ref), "%s has no ReplicaSet: %s", o.Ref, o.health.Message)
		return
	}
	above := len(w.report.Chain)
	w.replicas(newest, o)
	if w.report.Cause == "" {
		w.report.Chain = w.report.Chain[:above] // the new pods are fine
		w.leftovers(o)
	}
}

// newestReplicaSet returns the one of the highest revision, or nil.
func newestReplicaSet(sets []*object) *object {
	var newest *object
	for _, set := range sets {
		if newest == nil || compareRevisions(set, newest) > 0 {
			newest = set
		}
	}
	return newest
}

func compareRevisions(a, b *object) int {
	revision := func(o *object) int64 {
		n, _ := fields.Int(o.metadata.At("annotations")["deployment.kubernetes.io/revision"])
		return n
	}
	return cmp.Or(cmp.Compare(revision(a), revision(b)), a.created().Compare(b.created()))
}

// leftovers ends at a Deployment whose new pods are fine: it waits for old ones to go, or for time to pass.
func (w *walk) leftovers(o *object) {
	for _, set := range w.owned(o, "ReplicaSet") {
		var leaving []*object
		for _, p := range w.owned(set, "Pod") {
			if !p.deleted().IsZero() {
				leaving = append(leaving, p)
			}
		}
		if len(leaving) > 0 {
			w.link(set.Ref, set.created(), "%s", set.health.Message)
			w.pods(o, leaving, len(leaving))
			return
		}
	}
	w.stuck(describe(o.Ref), "%s waits: %s", o.Ref, o.health.Message)
}

func (w *walk) replicaSet(o *object) {
	w.replicas(o, o)
	if w.report.Cause == "" {
		w.stuck(describe(o.Ref), "%s waits: %s", o.Ref, o.health.Message)
	}
}

// replicas goes on at a ReplicaSet; its pods are called those of owner.
func (w *walk) replicas(o, owner *object) {
	desired, actual := o.spec.NumOr("replicas", 1), o.status.Num("replicas")
	w.link(o.Ref, o.created(), "%d of %d pods created", actual, desired)
	if actual < desired && w.cannotCreate(o) {
		return
	}
	if sick := unhealthy(w.owned(o, "Pod")); len(sick) > 0 {
		w.pods(owner, sick, max(int(desired), len(sick)))
	}
}

func unhealthy(all []*object) []*object {
	return slices.DeleteFunc(slices.Clone(all), func(o *object) bool { return o.health.Code == health.Healthy })
}

var (
	createPrefix  = regexp.MustCompile(`^(Error creating: |create Pod \S+ in StatefulSet \S+ failed error: )`)
	quotaExceeded = regexp.MustCompile(`exceeded quota: ([^,]+), requested: (.+), used: (.+), limited: (.+)`)
	webhookName   = regexp.MustCompile(`admission webhook "([^"]+)" denied`)
	policyName    = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)'`)
)

// cannotCreate ends at a controller whose pods the API server refuses; it reports whether that is so.
func (w *walk) cannotCreate(o *object) bool {
	message, since := "", time.Time{}
	if c := o.status.Condition("ReplicaFailure"); c.IsTrue() {
		message, since = c.Message, transition(o.status, "ReplicaFailure")
	} else if e, ok := w.latest(o.Ref, "", "FailedCreate"); ok {
		message, since = e.Message, e.Time
	}
	if message == "" {
		return false
	}
	message = createPrefix.ReplaceAllString(message, "")
	link := &w.report.Chain[len(w.report.Chain)-1]
	link.Condition, link.Since = link.Condition+": "+message, since
	if m := quotaExceeded.FindStringSubmatch(message); m != nil {
		ref := Ref{Kind: "ResourceQuota", Namespace: o.Namespace, Name: m[1]}
		if quota := w.byRef[ref]; quota != nil {
			w.link(ref, time.Time{}, "%s", quotaUse(quota))
		}
		w.stuck(describe(ref), "%s cannot create its pods: %s is used up: a pod needs %s, %s is used of %s", o.Ref, ref, m[2], m[3], m[4])
		return true
	}
	by := "the API server"
	if m := webhookName.FindStringSubmatch(message); m != nil {
		by = "admission webhook " + m[1]
	} else if m := policyName.FindStringSubmatch(message); m != nil {
		by = "ValidatingAdmissionPolicy " + m[1]
	} else if strings.Contains(message, "violates PodSecurity") {
		by = "Pod Security admission"
	}
	w.stuck(describe(o.Ref), "%s cannot create its pods, refused by %s: %s", o.Ref, by, message)
	return true
}

// quotaUse returns "pods 2 of 2, requests.cpu 3 of 4" in the order of the names.
func quotaUse(q *object) string {
	hard, used := q.status.At("hard"), q.status.At("used")
	var parts []string
	for resource := range hard {
		parts = append(parts, fmt.Sprintf("%s %s of %s", resource, cmp.Or(used.Str(resource), "0"), hard.Str(resource)))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// statefulSet names the ordinal that all others wait for.
func (w *walk) statefulSet(o *object) {
	desired := o.spec.NumOr("replicas", 1)
	w.link(o.Ref, o.created(), "%s", o.health.Message)
	pods := w.owned(o, "Pod")
	sick := unhealthy(pods)
	switch {
	case len(sick) == 0 && int64(len(pods)) < desired && w.cannotCreate(o):
	case len(sick) == 0:
		w.stuck(describe(o.Ref), "%s waits: %s", o.Ref, o.health.Message)
	case o.spec.Str("podManagementPolicy") == "Parallel":
		w.pods(o, sick, int(desired))
	default:
		w.pods(o, sick[:1], int(desired))
		if waiting := desired - int64(len(pods)); waiting > 0 {
			w.report.Cause += fmt.Sprintf("; pods start in order, %s %s for it", words.Count(waiting, "more pod"), plural("waits", int(waiting)))
		}
	}
}

func (w *walk) daemonSet(o *object) {
	desired := o.status.Num("desiredNumberScheduled")
	w.link(o.Ref, o.created(), "%s", o.health.Message)
	if o.status.Num("currentNumberScheduled") < desired && w.cannotCreate(o) {
		return
	}
	if sick := unhealthy(w.owned(o, "Pod")); len(sick) > 0 {
		w.pods(o, sick, max(int(desired), len(sick)))
		return
	}
	w.stuck(describe(o.Ref), "%s waits: %s", o.Ref, o.health.Message)
}

// job names the pod that failed last.
func (w *walk) job(o *object) {
	w.link(o.Ref, o.created(), "%s", o.health.Message)
	if o.health.Code == health.Suspended {
		w.stuck(fmt.Sprintf("kubectl patch job -n %s %s --type=merge -p '{\"spec\":{\"suspend\":false}}'", o.Namespace, o.Name), "%s is suspended", o.Ref)
		return
	}
	sick := unhealthy(w.owned(o, "Pod"))
	if len(sick) == 0 {
		if !w.cannotCreate(o) {
			w.stuck(describe(o.Ref), "%s: %s", o.Ref, o.health.Message)
		}
		return
	}
	failed := slices.DeleteFunc(slices.Clone(sick), func(p *object) bool { return p.status.Str("phase") != "Failed" })
	if len(failed) == 0 {
		w.pods(o, sick, len(sick))
		return
	}
	last := slices.MaxFunc(failed, func(a, b *object) int { return a.created().Compare(b.created()) })
	w.pods(o, []*object{last}, int(max(o.status.Num("failed"), 1)))
	if o.health.Code == health.Degraded {
		w.report.Cause = fmt.Sprintf("%s failed (%s): %s", o.Ref, o.health.Reason, w.report.Cause)
	}
}

func (w *walk) cronJob(o *object) {
	w.link(o.Ref, o.created(), "%s", o.health.Message)
	jobs := w.owned(o, "Job")
	if o.health.Code == health.Suspended || len(jobs) == 0 {
		w.stuck(describe(o.Ref), "%s: %s", o.Ref, o.health.Message)
		return
	}
	w.job(slices.MaxFunc(jobs, func(a, b *object) int { return a.created().Compare(b.created()) }))
}
