package apply

import "k8s.io/apimachinery/pkg/runtime/schema"

// Ranks: the objects of one rank need nothing of a later one. Deleting goes the other way round.
const (
	RankNamespaces = iota
	RankCRDs
	RankRBAC
	RankConfig
	RankServices
	RankWorkloads
	RankCustom
	RankWebhooks
	ranks
)

var rankOf = map[schema.GroupKind]int{
	{Group: "", Kind: "Namespace"}:                                                    RankNamespaces,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:                 RankCRDs,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                               RankRBAC,
	{Group: "", Kind: "ServiceAccount"}:                                               RankRBAC,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                         RankRBAC,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                  RankRBAC,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                                RankRBAC,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:                         RankRBAC,
	{Group: "", Kind: "ConfigMap"}:                                                    RankConfig,
	{Group: "", Kind: "Secret"}:                                                       RankConfig,
	{Group: "", Kind: "ResourceQuota"}:                                                RankConfig,
	{Group: "", Kind: "LimitRange"}:                                                   RankConfig,
	{Group: "", Kind: "PersistentVolume"}:                                             RankConfig,
	{Group: "", Kind: "PersistentVolumeClaim"}:                                        RankConfig,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                   RankConfig,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                               RankConfig,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                                RankConfig,
	{Group: "", Kind: "Service"}:                                                      RankServices,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                             RankWebhooks,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   RankWebhooks,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     RankWebhooks,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        RankWebhooks,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: RankWebhooks,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}:          RankWebhooks,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"}:   RankWebhooks,
}

// builtin are the groups of built-in kinds: what is not listed above and not in one of these is a custom resource.
var builtin = map[string]bool{
	"": true, "apps": true, "batch": true, "autoscaling": true, "policy": true, "networking.k8s.io": true,
	"discovery.k8s.io": true, "coordination.k8s.io": true, "node.k8s.io": true, "storage.k8s.io": true,
	"rbac.authorization.k8s.io": true, "events.k8s.io": true, "flowcontrol.apiserver.k8s.io": true,
	"resource.k8s.io": true, "certificates.k8s.io": true, "scheduling.k8s.io": true,
}

// Rank returns when objects of gk are applied: lower ones first.
func Rank(gk schema.GroupKind) int {
	if rank, ok := rankOf[gk]; ok {
		return rank
	}
	if builtin[gk.Group] {
		return RankWorkloads
	}
	return RankCustom
}

// IsBuiltin reports whether the kinds of a group are built into the API server.
func IsBuiltin(group string) bool {
	return builtin[group] || group == "apiextensions.k8s.io" || group == "apiregistration.k8s.io" || group == "admissionregistration.k8s.io"
}
