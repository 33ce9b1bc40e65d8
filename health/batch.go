package health

import (
	"fmt"

	"github.com/trueup/trueup/health/internal/fields"
	"github.com/trueup/trueup/health/words"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func job(_ *Judge, o, status fields.Map) Result {
	spec := o.At("spec")
	succeeded, failed, active := status.Num("succeeded"), status.Num("failed"), status.Num("active")
	wanted := spec.NumOr("completions", spec.NumOr("parallelism", 1))
	for _, kind := range []string{"Failed", "FailureTarget"} {
		if c := status.Condition(kind); c.IsTrue() {
			return degraded(c.ReasonOr("Failed"), "%d of %d pods succeeded, %d failed: %s", succeeded, wanted, failed, c.Text())
		}
	}
	switch c := status.Condition("Complete"); {
	case c.IsTrue() && c.Reason == "SuccessPolicy":
		return healthy("SuccessPolicy", "completed by its success policy, %d of %d pods succeeded", succeeded, wanted)
	case c.IsTrue():
		return healthy("Completed", "completed, %d of %d pods succeeded", succeeded, wanted)
	case spec.Bool("suspend"), status.Condition("Suspended").IsTrue():
		return suspended("Suspended", "suspended, %d of %d pods succeeded", succeeded, wanted)
	case status.Condition("SuccessCriteriaMet").IsTrue():
		return progressing("SuccessCriteriaMet", "succeeded, %s still to be terminated", words.Count(active+status.Num("terminating"), "pod"))
	}
	message := fmt.Sprintf("%d of %d pods succeeded, %d active", succeeded, wanted, active)
	if failed > 0 {
		message += fmt.Sprintf(", %d failed (backoff limit %d)", failed, spec.NumOr("backoffLimit", 6))
	}
	return progressing("Running", "%s", message)
}

func cronJob(_ *Judge, o, status fields.Map) Result {
	if o.At("spec").Bool("suspend") {
		return suspended("Suspended", "suspended")
	}
	message := "scheduled, " + words.Count(len(status.List("active")), "job") + " active"
	// Both are RFC 3339 in UTC as the API server writes them, so they order as strings.
	scheduled, success := status.Str("lastScheduleTime"), status.Str("lastSuccessfulTime")
	if scheduled != "" {
		message += ", last run at " + scheduled
	}
	if scheduled > success && len(status.List("active")) == 0 {
		return healthy("LastRunNotSuccessful", "%s did not succeed", message)
	}
	return healthy("Scheduled", "%s", message)
}

// Absent returns the health of an object that is declared but not in the cluster. The cluster itself deletes a Job with
// ttlSecondsAfterFinished: where the last health seen of this very manifest is that of a finished Job, that one holds.
// With last "" nothing is known of it.
func Absent(manifest *unstructured.Unstructured, last Code) Result {
	missing := Result{Code: Missing, Reason: "NotFound", Message: "not in the cluster", Rule: "missing"}
	if manifest == nil {
		return missing
	}
	o := fields.Map(manifest.Object)
	gk := groupKind(o)
	finished := last == Healthy || last == Degraded
	if gk.Group != "batch" || gk.Kind != "Job" || !o.At("spec").Has("ttlSecondsAfterFinished") || !finished {
		return missing
	}
	r := healthy("DeletedAfterFinished", "completed, and deleted %ds later by its TTL", o.At("spec").Num("ttlSecondsAfterFinished"))
	if last == Degraded {
		r.Code, r.Message = Degraded, fmt.Sprintf("failed, and was deleted %ds later by its TTL", o.At("spec").Num("ttlSecondsAfterFinished"))
	}
	r.Rule = "builtin/Job"
	return r
}
