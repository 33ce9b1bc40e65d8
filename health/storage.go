package health

import (
	"strings"

	"github.com/trueup/trueup/health/internal/fields"
)

func persistentVolumeClaim(j *Judge, o, status fields.Map) Result {
	switch status.Str("phase") {
	case "Bound":
		return boundClaim(o, status)
	case "Lost":
		return degraded("Lost", "its volume %s is gone", o.At("spec").Str("volumeName"))
	}
	return pendingClaim(j, o)
}

func boundClaim(o, status fields.Map) Result {
	if state := status.At("allocatedResourceStatuses").Str("storage"); strings.HasSuffix(state, "Infeasible") {
		return degraded(state, "bound to %s, and its resize is not possible", o.At("spec").Str("volumeName"))
	}
	for _, kind := range []string{"ControllerResizeError", "NodeResizeError", "ModifyVolumeError"} {
		if c := status.Condition(kind); c.IsTrue() {
			return degraded(c.ReasonOr(kind), "bound to %s: %s", o.At("spec").Str("volumeName"), c.Text())
		}
	}
	for _, kind := range []string{"Resizing", "ModifyingVolume"} {
		if c := status.Condition(kind); c.IsTrue() {
			return progressing(kind, "bound to %s: %s", o.At("spec").Str("volumeName"), c.Text())
		}
	}
	if c := status.Condition("FileSystemResizePending"); c.IsTrue() {
		return healthy(c.Kind, "bound to %s, grows once a pod mounts it anew", o.At("spec").Str("volumeName"))
	}
	size, _ := status.At("capacity")["storage"].(string)
	return healthy("Bound", "bound to %s (%s)", o.At("spec").Str("volumeName"), size)
}

// pendingClaim tells a claim that is being provisioned from one that waits for its first consumer. The volume controller
// names the provisioner in an annotation as soon as it wants a volume, which for WaitForFirstConsumer is when the
// scheduler has chosen a node for a pod that uses the claim.
func pendingClaim(j *Judge, o fields.Map) Result {
	spec, annotations := o.At("spec"), o.At("metadata", "annotations")
	class := spec.Str("storageClassName")
	for _, key := range []string{"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"} {
		if p := annotations.Str(key); p != "" {
			return progressing("Provisioning", "waiting for a volume from provisioner %s (storage class %s)", p, class)
		}
	}
	if annotations.Str("volume.kubernetes.io/selected-node") != "" {
		return progressing("Provisioning", "waiting for a volume on node %s", annotations.Str("volume.kubernetes.io/selected-node"))
	}
	if volume := spec.Str("volumeName"); volume != "" {
		return progressing("Binding", "waiting to be bound to volume %s", volume)
	}
	if j.opts.WaitForFirstConsumer != nil {
		if waits, known := j.opts.WaitForFirstConsumer(class); known && !waits {
			if class == "" {
				return progressing("Pending", "waiting for a volume without a storage class")
			}
			return progressing("Pending", "waiting for a volume of storage class %s", class)
		}
	}
	return healthy("WaitForFirstConsumer", "unbound; a volume is bound once a pod uses the claim")
}

func persistentVolume(_ *Judge, o, status fields.Map) Result {
	claim := o.At("spec", "claimRef")
	name := claim.Str("namespace") + "/" + claim.Str("name")
	switch phase := status.Str("phase"); phase {
	case "Bound":
		return healthy(phase, "bound to claim %s", name)
	case "Available":
		return healthy(phase, "available, not claimed")
	case "Released":
		return healthy(phase, "released: claim %s is gone, its data is kept (reclaim policy %s)", name, o.At("spec").Str("persistentVolumeReclaimPolicy"))
	case "Failed":
		return degraded("ReclaimFailed", "reclaiming it failed: %s", status.Str("message"))
	}
	return progressing("Pending", "pending")
}
