package health

import (
	"encoding/json"
	"strings"

	"github.com/trueup/trueup/health/internal/fields"
	"github.com/trueup/trueup/health/words"
)

// conditionsV1 is where autoscaling/v1 keeps the conditions, as JSON.
const (
	conditionsV1  = "autoscaling.alpha.kubernetes.io/conditions"
	maxAnnotation = 16 << 10
)

func horizontalPodAutoscaler(_ *Judge, o, status fields.Map) Result {
	condition := status.Condition
	if !status.Has("conditions") {
		condition = readLegacyConditions(o.At("metadata", "annotations").Str(conditionsV1)).find
	}
	current, desired := status.Num("currentReplicas"), status.Num("desiredReplicas")
	able, active, limited := condition("AbleToScale"), condition("ScalingActive"), condition("ScalingLimited")
	switch {
	case able.Status == "" && active.Status == "":
		return progressing("NotObserved", "waiting for the autoscaler's first look at its target")
	case able.IsFalse():
		return degraded(able.ReasonOr("UnableToScale"), "%s", able.Text())
	case active.IsFalse() && active.Reason == "ScalingDisabled":
		return suspended(active.Reason, "%s", active.Text())
	case active.IsFalse() && strings.Contains(active.Message, "pods might be unready"):
		return progressing(active.ReasonOr("MetricsMissing"), "%s", active.Text())
	case active.IsFalse():
		return degraded(active.ReasonOr("ScalingInactive"), "%s", active.Text())
	case limited.IsTrue() && limited.Reason == "TooManyReplicas":
		return healthy(limited.Reason, "%d of %d replicas, at its maximum: %s", current, desired, limited.Text())
	}
	return healthy("ScalingActive", "%d of %d replicas, between %d and %d",
		current, desired, o.At("spec").NumOr("minReplicas", 1), o.At("spec").Num("maxReplicas"))
}

type legacyConditions []struct{ Type, Status, Reason, Message string }

// readLegacyConditions reads the annotation of autoscaling/v1; one that is no JSON, or too long to be one of ours, reads as none.
func readLegacyConditions(annotation string) (conditions legacyConditions) {
	if annotation == "" || len(annotation) > maxAnnotation || json.Unmarshal([]byte(annotation), &conditions) != nil {
		return nil
	}
	return conditions
}

func (conditions legacyConditions) find(kind string) fields.Condition {
	for _, c := range conditions {
		if c.Type == kind {
			return fields.Condition{Kind: kind, Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
	}
	return fields.Condition{}
}

// podDisruptionBudget is healthy while it does its work, also while it allows no disruption: the pods it guards have a
// health of their own.
func podDisruptionBudget(_ *Judge, o, status fields.Map) Result {
	if r, ok := unobserved(o, status); ok {
		return r
	}
	if c := status.Condition("DisruptionAllowed"); c.Reason == "SyncFailed" {
		return degraded(c.Reason, "%s", c.Text())
	}
	return healthy("Observed", "%s healthy, at least %d wanted, %s allowed",
		words.Count(status.Num("currentHealthy"), "pod"), status.Num("desiredHealthy"), words.Count(status.Num("disruptionsAllowed"), "disruption"))
}
