package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func job(_ *Judge, o, status fields) Result {
	spec := o.at("spec")
	succeeded, failed, active := status.num("succeeded"), status.num("failed"), status.num("active")
	wanted := spec.numOr("completions", spec.numOr("parallelism", 1))
	for _, kind := range []string{"Failed", "FailureTarget"} {
		if c := status.condition(kind); c.isTrue() {
			return degraded(c.reasonOr("Failed"), "%d of %d pods succeeded, %d failed: %s", succeeded, wanted, failed, c.text())
		}
	}
	switch c := status.condition("Complete"); {
	case c.isTrue() && c.reason == "SuccessPolicy":
		return healthy("SuccessPolicy", "completed by its success policy, %d of %d pods succeeded", succeeded, wanted)
	case c.isTrue():
		return healthy("Completed", "completed, %d of %d pods succeeded", succeeded, wanted)
	case spec.bool("suspend"), status.condition("Suspended").isTrue():
		return suspended("Suspended", "suspended, %d of %d pods succeeded", succeeded, wanted)
	case status.condition("SuccessCriteriaMet").isTrue():
		return progressing("SuccessCriteriaMet", "succeeded, %d pods still to be terminated", active+status.num("terminating"))
	}
	message := fmt.Sprintf("%d of %d pods succeeded, %d active", succeeded, wanted, active)
	if failed > 0 {
		message += fmt.Sprintf(", %d failed (backoff limit %d)", failed, spec.numOr("backoffLimit", 6))
	}
	return progressing("Running", "%s", message)
}

func cronJob(_ *Judge, o, status fields) Result {
	if o.at("spec").bool("suspend") {
		return suspended("Suspended", "suspended")
	}
	message := fmt.Sprintf("scheduled, %d jobs active", len(status.list("active")))
	// Both are RFC 3339 in UTC as the API server writes them, so they order as strings.
	scheduled, success := status.str("lastScheduleTime"), status.str("lastSuccessfulTime")
	if scheduled != "" {
		message += ", last run at " + scheduled
	}
	if scheduled > success && len(status.list("active")) == 0 {
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
	o := fields(manifest.Object)
	gk := groupKind(o)
	finished := last == Healthy || last == Degraded
	if gk.Group != "batch" || gk.Kind != "Job" || !o.at("spec").has("ttlSecondsAfterFinished") || !finished {
		return missing
	}
	r := healthy("DeletedAfterFinished", "completed, and deleted %ds later by its TTL", o.at("spec").num("ttlSecondsAfterFinished"))
	if last == Degraded {
		r.Code, r.Message = Degraded, fmt.Sprintf("failed, and was deleted %ds later by its TTL", o.at("spec").num("ttlSecondsAfterFinished"))
	}
	r.Rule = "builtin/Job"
	return r
}
