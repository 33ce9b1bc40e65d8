package health

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kindsWithoutHealth are the built-in kinds that work, or not, without ever saying so.
var kindsWithoutHealth = func() map[schema.GroupKind]bool {
	kinds := make(map[schema.GroupKind]bool)
	for group, names := range map[string]string{
		"": "Binding ComponentStatus ConfigMap Endpoints Event LimitRange PodTemplate ResourceQuota Secret ServiceAccount",
		"admissionregistration.k8s.io": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding ValidatingAdmissionPolicyBinding",
		"apps":                         "ControllerRevision",
		"certificates.k8s.io":          "ClusterTrustBundle",
		"coordination.k8s.io":          "Lease LeaseCandidate",
		"events.k8s.io":                "Event",
		"networking.k8s.io":            "IPAddress IngressClass NetworkPolicy",
		"node.k8s.io":                  "RuntimeClass",
		"rbac.authorization.k8s.io":    "ClusterRole ClusterRoleBinding Role RoleBinding",
		"resource.k8s.io":              "DeviceClass ResourceClaimTemplate ResourceSlice",
		"scheduling.k8s.io":            "PriorityClass",
		"storage.k8s.io":               "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttributesClass",
		"gateway.networking.k8s.io":    "ReferenceGrant",
		"internal.apiserver.k8s.io":    "StorageVersion",
	} {
		for _, kind := range strings.Fields(names) {
			kinds[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return kinds
}()

// Judged reports whether objects of the kind have a health of their own. Those of other kinds (ConfigMap, Secret, RBAC …)
// are Healthy once they are present, so their metadata is all that has to be watched. Kinds it does not know are judged.
func Judged(gk schema.GroupKind) bool { return !kindsWithoutHealth[gk] }

func groupKind(o fields) schema.GroupKind {
	group, _, found := strings.Cut(o.str("apiVersion"), "/")
	if !found {
		group = "" // the core group: "v1"
	}
	return schema.GroupKind{Group: group, Kind: o.str("kind")}
}

// judge is the order of the package's doc comment.
func (j *Judge) judge(o fields) Result {
	gk := groupKind(o)
	if !Judged(gk) {
		return Result{Code: Healthy, Reason: "Present", Message: "present; its kind has no health", Rule: "builtin/" + gk.Kind}
	}
	metadata, status := o.at("metadata"), o.at("status")
	if metadata.str("deletionTimestamp") != "" {
		return terminating(metadata)
	}
	if observed, generation := status.num("observedGeneration"), metadata.num("generation"); status.has("observedGeneration") && observed < generation {
		return behind(observed, generation)
	}
	if r, ok := byConditions(o, status); ok {
		return r
	}
	if r, ok := byPhase(status); ok {
		return r
	}
	return j.byPresence(gk, status)
}
