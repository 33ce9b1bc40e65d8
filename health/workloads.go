package health

import (
	"fmt"

	"github.com/trueup/trueup/health/internal/fields"
	"github.com/trueup/trueup/health/words"
)

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
func unobserved(o, status fields.Map) (Result, bool) {
	generation := o.At("metadata").Num("generation")
	switch observed := status.Num("observedGeneration"); {
	case len(status) == 0:
		return progressing("NotObserved", "waiting for its controller to see it"), true
	case observed < generation:
		return behind(observed, generation), true
	}
	return Result{}, false
}

func deployment(_ *Judge, o, status fields.Map) Result {
	if r, ok := unobserved(o, status); ok {
		return r
	}
	spec := o.At("spec")
	if c := status.Condition("ReplicaFailure"); c.IsTrue() {
		return degraded(c.ReasonOr("ReplicaFailure"), "%s", c.Text())
	}
	desired, updated := spec.NumOr("replicas", 1), status.Num("updatedReplicas")
	if c := status.Condition("Progressing"); c.IsFalse() && c.Reason == "ProgressDeadlineExceeded" {
		return degraded(c.Reason, "%d of %d replicas available, past the progress deadline of %ds",
			status.Num("availableReplicas"), desired, spec.NumOr("progressDeadlineSeconds", 600))
	}
	if spec.Bool("paused") {
		return suspended("Paused", "rollout is paused with %d of %d replicas updated", updated, desired)
	}
	return replicas(desired, status, status.Num("replicas")-updated)
}

// replicas judges a rollout that replaces all replicas: updated, old ones gone, available.
func replicas(desired int64, status fields.Map, old int64) Result {
	updated, available := status.Num("updatedReplicas"), status.Num("availableReplicas")
	switch {
	case updated < desired:
		return progressing("RollingOut", "%d of %d replicas updated", updated, desired)
	case old > 0:
		return progressing("RollingOut", "%s still to be terminated, %d of %d updated", words.Count(old, "old replica"), updated, desired)
	case updated > desired:
		return progressing("ScalingDown", "%s still to be terminated, %d wanted", words.Count(updated-desired, "replica"), desired)
	case available < desired:
		return progressing("ReplicasUnavailable", "%d of %d replicas available, %d ready", available, desired, status.Num("readyReplicas"))
	case desired == 0:
		return healthy("ScaledToZero", "scaled to 0 replicas")
	}
	return healthy("Available", "%d of %d replicas available", available, desired)
}

func replicaSet(_ *Judge, o, status fields.Map) Result {
	if r, ok := unobserved(o, status); ok {
		return r
	}
	if c := status.Condition("ReplicaFailure"); c.IsTrue() {
		return degraded(c.ReasonOr("ReplicaFailure"), "%s", c.Text())
	}
	desired, actual, available := o.At("spec").NumOr("replicas", 1), status.Num("replicas"), status.Num("availableReplicas")
	switch {
	case actual > desired:
		return progressing("ScalingDown", "%s still to be terminated, %d wanted", words.Count(actual-desired, "replica"), desired)
	case available < desired:
		return progressing("ReplicasUnavailable", "%d of %d replicas available", available, desired)
	case desired == 0:
		return healthy("ScaledToZero", "scaled to 0 replicas")
	}
	return healthy("Available", "%d of %d replicas available", available, desired)
}

func statefulSet(_ *Judge, o, status fields.Map) Result {
	if r, ok := unobserved(o, status); ok {
		return r
	}
	spec := o.At("spec")
	desired, actual := spec.NumOr("replicas", 1), status.Num("replicas")
	ready, updated := status.Num("readyReplicas"), status.Num("updatedReplicas")
	switch {
	case ready < desired:
		return progressing("ReplicasNotReady", "%d of %d replicas ready%s", ready, desired, blockingOrdinal(o, desired, actual, ready))
	case actual > desired:
		return progressing("ScalingDown", "%s still to be terminated, %d wanted", words.Count(actual-desired, "replica"), desired)
	case desired == 0:
		return healthy("ScaledToZero", "scaled to 0 replicas")
	}
	outdated := status.Str("updateRevision") != status.Str("currentRevision") && updated < desired
	partition := max(spec.At("updateStrategy", "rollingUpdate").Num("partition"), 0)
	switch {
	case !outdated:
	case spec.At("updateStrategy").Str("type") == "OnDelete":
		return healthy("OnDelete", "%d of %d replicas ready; %d run the old revision until they are deleted", ready, desired, desired-updated)
	case updated < desired-partition:
		return progressing("RollingOut", "%d of %d replicas updated%s", updated, desired-partition, partitionNote(partition))
	case partition > 0:
		return healthy("Partitioned", "%d of %d replicas ready; %d updated%s", ready, desired, updated, partitionNote(partition))
	}
	// availableReplicas differs from readyReplicas only under minReadySeconds.
	if available := status.NumOr("availableReplicas", ready); spec.Num("minReadySeconds") > 0 && available < desired {
		return progressing("ReplicasUnavailable", "%d of %d replicas available", available, desired)
	}
	return healthy("Ready", "%d of %d replicas ready", ready, desired)
}

// blockingOrdinal names the pod that all later ones wait for while a StatefulSet starts its pods in order.
func blockingOrdinal(o fields.Map, desired, actual, ready int64) string {
	spec := o.At("spec")
	if spec.Str("podManagementPolicy") == "Parallel" || actual >= desired || actual < 1 || ready != actual-1 {
		return ""
	}
	ordinal := spec.At("ordinals").Num("start") + actual - 1
	return fmt.Sprintf("; pods start in order, %s-%d is next", o.At("metadata").Str("name"), ordinal)
}

func partitionNote(partition int64) string {
	if partition == 0 {
		return ""
	}
	return fmt.Sprintf(" (partition %d)", partition)
}

func daemonSet(_ *Judge, o, status fields.Map) Result {
	if r, ok := unobserved(o, status); ok {
		return r
	}
	desired, updated := status.Num("desiredNumberScheduled"), status.Num("updatedNumberScheduled")
	available := status.Num("numberAvailable")
	onDelete := o.At("spec", "updateStrategy").Str("type") == "OnDelete"
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
