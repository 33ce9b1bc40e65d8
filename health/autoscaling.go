package health

import (
	"encoding/json"
	"strings"
)

// conditionsV1 is where autoscaling/v1 keeps the conditions, as JSON.
const (
	conditionsV1  = "autoscaling.alpha.kubernetes.io/conditions"
	maxAnnotation = 16 << 10
)

func horizontalPodAutoscaler(_ *Judge, o, status fields) Result {
	condition := status.condition
	if !status.has("conditions") {
		condition = readLegacyConditions(o.at("metadata", "annotations").str(conditionsV1)).find
	}
	current, desired := status.num("currentReplicas"), status.num("desiredReplicas")
	able, active, limited := condition("AbleToScale"), condition("ScalingActive"), condition("ScalingLimited")
	switch {
	case able.status == "" && active.status == "":
		return progressing("NotObserved", "waiting for the autoscaler's first look at its target")
	case able.isFalse():
		return degraded(able.reasonOr("UnableToScale"), "%s", able.text())
	case active.isFalse() && active.reason == "ScalingDisabled":
		return suspended(active.reason, "%s", active.text())
	case active.isFalse() && strings.Contains(active.message, "pods might be unready"):
		return progressing(active.reasonOr("MetricsMissing"), "%s", active.text())
	case active.isFalse():
		return degraded(active.reasonOr("ScalingInactive"), "%s", active.text())
	case limited.isTrue() && limited.reason == "TooManyReplicas":
		return healthy(limited.reason, "%d of %d replicas, at its maximum: %s", current, desired, limited.text())
	}
	return healthy("ScalingActive", "%d of %d replicas, between %d and %d",
		current, desired, o.at("spec").numOr("minReplicas", 1), o.at("spec").num("maxReplicas"))
}

type legacyConditions []struct{ Type, Status, Reason, Message string }

// readLegacyConditions reads the annotation of autoscaling/v1; one that is no JSON, or too long to be one of ours, reads as none.
func readLegacyConditions(annotation string) (conditions legacyConditions) {
	if annotation == "" || len(annotation) > maxAnnotation || json.Unmarshal([]byte(annotation), &conditions) != nil {
		return nil
	}
	return conditions
}

func (conditions legacyConditions) find(kind string) condition {
	for _, c := range conditions {
		if c.Type == kind {
			return condition{kind: kind, status: c.Status, reason: c.Reason, message: c.Message}
		}
	}
	return condition{}
}

// podDisruptionBudget is healthy while it does its work, also while it allows no disruption: the pods it guards have a
// health of their own.
func podDisruptionBudget(_ *Judge, o, status fields) Result {
	if r, ok := unobserved(o, status); ok {
		return r
	}
	if c := status.condition("DisruptionAllowed"); c.reason == "SyncFailed" {
		return degraded(c.reason, "%s", c.text())
	}
	return healthy("Observed", "%d pods healthy, at least %d wanted, %d disruptions allowed",
		status.num("currentHealthy"), status.num("desiredHealthy"), status.num("disruptionsAllowed"))
}
