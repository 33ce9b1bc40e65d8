package health

import "fmt"

func progressing(reason, format string, args ...any) Result {
	return Result{Code: Progressing, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func degraded(reason, format string, args ...any) Result {
	return Result{Code: Degraded, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func suspended(reason, format string, args ...any) Result {
	return Result{Code: Suspended, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func healthy(reason, format string, args ...any) Result {
	return Result{Code: Healthy, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// unobserved returns a result where the status is not yet about this generation. The workload controllers always
// write observedGeneration, so there its absence means that they have not seen the object at all.
func unobserved(o, status fields) (Result, bool) {
	generation := o.at("metadata").num("generation")
	switch observed := status.num("observedGeneration"); {
	case len(status) == 0:
		return progressing("NotObserved", "waiting for its controller to see it"), true
	case observed < generation:
		return behind(observed, generation), true
	}
	return Result{}, false
}

func deployment(_ *Judge, o, status fields) Result {
	if r, ok := unobserved(o, status); ok {
		return r
	}
	spec := o.at("spec")
	if c := status.condition("ReplicaFailure"); c.isTrue() {
		return degraded(c.reasonOr("ReplicaFailure"), "%s", c.text())
	}
	desired, updated := spec.numOr("replicas", 1), status.num("updatedReplicas")
	if c := status.condition("Progressing"); c.isFalse() && c.reason == "ProgressDeadlineExceeded" {
		return degraded(c.reason, "%d of %d replicas available, past the progress deadline of %ds",
			status.num("availableReplicas"), desired, spec.numOr("progressDeadlineSeconds", 600))
	}
	if spec.bool("paused") {
		return suspended("Paused", "rollout is paused with %d of %d replicas updated", updated, desired)
	}
	return replicas(desired, status, status.num("replicas")-updated)
}

// replicas judges a rollout that replaces all replicas: updated, old ones gone, available.
func replicas(desired int64, status fields, old int64) Result {
	updated, available := status.num("updatedReplicas"), status.num("availableReplicas")
	switch {
	case updated < desired:
		return progressing("RollingOut", "%d of %d replicas updated", updated, desired)
	case old > 0:
		return progressing("RollingOut", "%d old replicas still to be terminated, %d of %d updated", old, updated, desired)
	case updated > desired:
		return progressing("ScalingDown", "%d replicas still to be terminated, %d wanted", updated-desired, desired)
	case available < desired:
		return progressing("ReplicasUnavailable", "%d of %d replicas available, %d ready", available, desired, status.num("readyReplicas"))
	case desired == 0:
		return healthy("ScaledToZero", "scaled to 0 replicas")
	}
	return healthy("Available", "%d of %d replicas available", available, desired)
}

func replicaSet(_ *Judge, o, status fields) Result {
	if r, ok := unobserved(o, status); ok {
		return r
	}
	if c := status.condition("ReplicaFailure"); c.isTrue() {
		return degraded(c.reasonOr("ReplicaFailure"), "%s", c.text())
	}
	desired, actual, available := o.at("spec").numOr("replicas", 1), status.num("replicas"), status.num("availableReplicas")
	switch {
	case actual > desired:
		return progressing("ScalingDown", "%d replicas still to be terminated, %d wanted", actual-desired, desired)
	case available < desired:
		return progressing("ReplicasUnavailable", "%d of %d replicas available", available, desired)
	case desired == 0:
		return healthy("ScaledToZero", "scaled to 0 replicas")
	}
	return healthy("Available", "%d of %d replicas available", available, desired)
}

func statefulSet(_ *Judge, o, status fields) Result {
	if r, ok := unobserved(o, status); ok {
		return r
	}
	spec := o.at("spec")
	desired, actual := spec.numOr("replicas", 1), status.num("replicas")
	ready, updated := status.num("readyReplicas"), status.num("updatedReplicas")
	switch {
	case ready < desired:
		return progressing("ReplicasNotReady", "%d of %d replicas ready%s", ready, desired, blockingOrdinal(o, desired, actual, ready))
	case actual > desired:
		return progressing("ScalingDown", "%d replicas still to be terminated, %d wanted", actual-desired, desired)
	case desired == 0:
		return healthy("ScaledToZero", "scaled to 0 replicas")
	}
	outdated := status.str("updateRevision") != status.str("currentRevision") && updated < desired
	partition := max(spec.at("updateStrategy", "rollingUpdate").num("partition"), 0)
	switch {
	case !outdated:
	case spec.at("updateStrategy").str("type") == "OnDelete":
		return healthy("OnDelete", "%d of %d replicas ready; %d run the old revision until they are deleted", ready, desired, desired-updated)
	case updated < desired-partition:
		return progressing("RollingOut", "%d of %d replicas updated%s", updated, desired-partition, partitionNote(partition))
	case partition > 0:
		return healthy("Partitioned", "%d of %d replicas ready; %d updated%s", ready, desired, updated, partitionNote(partition))
	}
	// availableReplicas differs from readyReplicas only under minReadySeconds.
	if available := status.numOr("availableReplicas", ready); spec.num("minReadySeconds") > 0 && available < desired {
		return progressing("ReplicasUnavailable", "%d of %d replicas available", available, desired)
	}
	return healthy("Ready", "%d of %d replicas ready", ready, desired)
}

// blockingOrdinal names the pod that all later ones wait for while a StatefulSet starts its pods in order.
func blockingOrdinal(o fields, desired, actual, ready int64) string {
	spec := o.at("spec")
	if spec.str("podManagementPolicy") == "Parallel" || actual >= desired || actual < 1 || ready != actual-1 {
		return ""
	}
	ordinal := spec.at("ordinals").num("start") + actual - 1
	return fmt.Sprintf("; pods start in order, %s-%d is next", o.at("metadata").str("name"), ordinal)
}

func partitionNote(partition int64) string {
	if partition == 0 {
		return ""
	}
	return fmt.Sprintf(" (partition %d)", partition)
}

func daemonSet(_ *Judge, o, status fields) Result {
	if r, ok := unobserved(o, status); ok {
		return r
	}
	desired, updated := status.num("desiredNumberScheduled"), status.num("updatedNumberScheduled")
	available := status.num("numberAvailable")
	onDelete := o.at("spec", "updateStrategy").str("type") == "OnDelete"
	switch {
	case desired == 0:
		return healthy("NoNodes", "no node matches, 0 pods wanted")
	case updated < desired && !onDelete:
		return progressing("RollingOut", "%d of %d pods updated", updated, desired)
	case available < desired:
		return progressing("PodsUnavailable", "%d of %d pods available", available, desired)
	case updated < desired:
		return healthy("OnDelete", "%d of %d pods available; %d run the old revision until they are deleted", available, desired, desired-updated)
	}
	return healthy("Available", "%d of %d pods available", available, desired)
}
