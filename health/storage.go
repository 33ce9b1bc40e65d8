package health

import "strings"

func persistentVolumeClaim(j *Judge, o, status fields) Result {
	switch status.str("phase") {
	case "Bound":
		return boundClaim(o, status)
	case "Lost":
		return degraded("Lost", "its volume %s is gone", o.at("spec").str("volumeName"))
	}
	return pendingClaim(j, o)
}

func boundClaim(o, status fields) Result {
	if state := status.at("allocatedResourceStatuses").str("storage"); strings.HasSuffix(state, "Infeasible") {
		return degraded(state, "bound to %s, and its resize is not possible", o.at("spec").str("volumeName"))
	}
	for _, kind := range []string{"ControllerResizeError", "NodeResizeError", "ModifyVolumeError"} {
		if c := status.condition(kind); c.isTrue() {
			return degraded(c.reasonOr(kind), "bound to %s: %s", o.at("spec").str("volumeName"), c.text())
		}
	}
	for _, kind := range []string{"Resizing", "ModifyingVolume"} {
		if c := status.condition(kind); c.isTrue() {
			return progressing(kind, "bound to %s: %s", o.at("spec").str("volumeName"), c.text())
		}
	}
	if c := status.condition("FileSystemResizePending"); c.isTrue() {
		return healthy(c.kind, "bound to %s, grows once a pod mounts it anew", o.at("spec").str("volumeName"))
	}
	size, _ := status.at("capacity")["storage"].(string)
	return healthy("Bound", "bound to %s (%s)", o.at("spec").str("volumeName"), size)
}

// pendingClaim tells a claim that is being provisioned from one that waits for its first consumer. The volume controller
// names the provisioner in an annotation as soon as it wants a volume, which for WaitForFirstConsumer is when the
// scheduler has chosen a node for a pod that uses the claim.
func pendingClaim(j *Judge, o fields) Result {
	spec, annotations := o.at("spec"), o.at("metadata", "annotations")
	class := spec.str("storageClassName")
	for _, key := range []string{"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"} {
		if p := annotations.str(key); p != "" {
			return progressing("Provisioning", "waiting for a volume from provisioner %s (storage class %s)", p, class)
		}
	}
	if annotations.str("volume.kubernetes.io/selected-node") != "" {
		return progressing("Provisioning", "waiting for a volume on node %s", annotations.str("volume.kubernetes.io/selected-node"))
	}
	if volume := spec.str("volumeName"); volume != "" {
		return progressing("Binding", "waiting to be bound to volume %s", volume)
	}
	if j.opts.WaitForFirstConsumer != nil {
		if waits, known := j.opts.WaitForFirstConsumer(class); known && !waits {
			return progressing("Pending", "waiting for a volume of storage class %s", class)
		}
	}
	return healthy("WaitForFirstConsumer", "unbound; a volume is bound once a pod uses the claim")
}

func persistentVolume(_ *Judge, o, status fields) Result {
	claim := o.at("spec", "claimRef")
	name := claim.str("namespace") + "/" + claim.str("name")
	switch phase := status.str("phase"); phase {
	case "Bound":
		return healthy(phase, "bound to claim %s", name)
	case "Available":
		return healthy(phase, "available, not claimed")
	case "Released":
		return healthy(phase, "released: claim %s is gone, its data is kept (reclaim policy %s)", name, o.at("spec").str("persistentVolumeReclaimPolicy"))
	case "Failed":
		return degraded("ReclaimFailed", "reclaiming it failed: %s", status.str("message"))
	}
	return progressing("Pending", "pending")
}
