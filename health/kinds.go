package health

import (
	"strings"

	"github.com/trueup/trueup/health/internal/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kindsWithoutHealth are the built-in kinds that work, or not, without ever saying so.
var kindsWithoutHealth = func() map[schema.GroupKind]bool {
	kinds := make(map[schema.GroupKind]bool)
	for group, names := range map[string]string{
		"":                             "Binding ComponentStatus ConfigMap Endpoints Event LimitRange PodTemplate ResourceQuota Secret ServiceAccount",
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

func groupKind(o fields.Map) schema.GroupKind {
	group, _, found := strings.Cut(o.Str("apiVersion"), "/")
	if !found {
		group = "" // the core group: "v1"
	}
	return schema.GroupKind{Group: group, Kind: o.Str("kind")}
}

// A kindFunc judges an object of one built-in kind. The rule of its result is filled in by the caller.
type kindFunc func(j *Judge, o, status fields.Map) Result

type builtin struct {
	rule  string // "builtin/Deployment"
	judge kindFunc
}

var builtins = func() map[schema.GroupKind]builtin {
	kinds := make(map[schema.GroupKind]builtin)
	for group, funcs := range map[string]map[string]kindFunc{
		"": {
			"Namespace": namespace, "PersistentVolume": persistentVolume, "PersistentVolumeClaim": persistentVolumeClaim,
			"Pod": pod, "ReplicationController": replicaSet, "Service": service,
		},
		"admissionregistration.k8s.io": {
			"MutatingWebhookConfiguration": webhookConfiguration, "ValidatingWebhookConfiguration": webhookConfiguration,
			"ValidatingAdmissionPolicy": admissionPolicy,
		},
		"apiextensions.k8s.io":   {"CustomResourceDefinition": customResourceDefinition},
		"apiregistration.k8s.io": {"APIService": apiService},
		"apps": {
			"DaemonSet": daemonSet, "Deployment": deployment, "ReplicaSet": replicaSet, "StatefulSet": statefulSet,
		},
		"autoscaling":                  {"HorizontalPodAutoscaler": horizontalPodAutoscaler},
		"batch":                        {"CronJob": cronJob, "Job": job},
		"certificates.k8s.io":          {"CertificateSigningRequest": certificateSigningRequest},
		"discovery.k8s.io":             {"EndpointSlice": endpointSlice},
		"flowcontrol.apiserver.k8s.io": {"FlowSchema": flowControl, "PriorityLevelConfiguration": flowControl},
		"gateway.networking.k8s.io": {
			"Gateway": gateway, "GRPCRoute": route, "HTTPRoute": route, "TCPRoute": route, "TLSRoute": route, "UDPRoute": route,
		},
		"networking.k8s.io": {"Ingress": ingress},
		"policy":            {"PodDisruptionBudget": podDisruptionBudget},
		"resource.k8s.io":   {"ResourceClaim": resourceClaim},
	} {
		for kind, judge := range funcs {
			kinds[schema.GroupKind{Group: group, Kind: kind}] = builtin{rule: "builtin/" + kind, judge: judge}
		}
	}
	return kinds
}()
