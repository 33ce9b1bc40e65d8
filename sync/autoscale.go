package sync

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trueup/trueup/diff"
)

var (
	hpaKind          = schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	scaledObjectKind = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
)

// scaleTarget returns the workload that an autoscaler scales; ok is false where the object is none.
func scaleTarget(id diff.ID, object map[string]any) (target diff.ID, ok bool) {
	switch id.GroupKind() {
	case hpaKind.GroupKind(), scaledObjectKind.GroupKind():
	default:
		return target, false
	}
	ref, _, _ := unstructured.NestedMap(object, "spec", "scaleTargetRef")
	kind, _ := ref["kind"].(string)
	name, _ := ref["name"].(string)
	apiVersion, _ := ref["apiVersion"].(string)
	if kind == "" && id.Kind == scaledObjectKind.Kind {
		kind, apiVersion = "Deployment", "apps/v1" // KEDA's default
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || kind == "" || name == "" {
		return target, false
	}
	return diff.ID{Group: gv.Group, Kind: kind, Namespace: id.Namespace, Name: name}, true
}

func noteAutoscaler(targets map[diff.ID]string, id diff.ID, object map[string]any) {
	if target, ok := scaleTarget(id, object); ok {
		targets[target] = id.String()
	}
}
