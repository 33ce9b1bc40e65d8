package health

import (
	"encoding/json"
	"strings"
)

// conditionsV1 is where autoscaling/v1 keeps the conditions, as JSON.
const conditionsV1 = "autoscaling.alpha.kubernetes.io/conditions"

func horizontalPodAutoscaler(_ *Judge, o, status fields) Result {
	conditions := status
	if !status.has("conditions") {
		conditions = legacyConditions(o.at("metadata", "annotations").str(conditionsV1))
	}
	current, desired := status.num("currentReplicas"), status.num("desiredReplicas")
	able, active := conditions.condition("AbleToScale"), conditions.condition("ScalingActive")
	limited := conditions.condition("ScalingLimited")
	switch {
	case able.status == "" && active.status == "":
		return progressing("NotObserved", "waiting for the autoscaler's first look at its target")
	case able.isFalse():
		return degraded(able.reasonOr("UnableToScale"), "%s", able.text())
	case active.isFalse() && active.reason == "ScalingDisabled":
		return suspended(active.reason, "%s", active.text())
	case active.isFalse() && strings.Contains(active.message, "pods might be unready"):
		return progressing(active.reason, "%s", active.text())
	case active.isFalse():
		return degraded(active.reasonOr("ScalingInactive"), "%s", active.text())
	case limited.isTrue() && limited.reason == "TooManyReplicas":
		return healthy(limited.reason, "%d of %d replicas, at its maximum: %s", current, desired, limited.text())
	}
	return healthy("ScalingActive", "%d of %d replicas, between %d and %d",
		current, desired, o.at("spec").numOr("minReplicas", 1), o.at("spec").num("maxReplicas"))
}

// legacyConditions reads the annotation of autoscaling/v1; one that is no JSON reads as no conditions.
func legacyConditions(annotation string) fields {
	var conditions []any
	if annotation == "" || json.Unmarshal([]byte(annotation), &conditions) != nil {
		return nil
	}
	return fields{"conditions": conditions}
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
