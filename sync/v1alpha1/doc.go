// Package v1alpha1 is the Application API: what a person declares of one sync, and what the agent reports of it.
// Field names are Argo CD's wherever the meaning is the same. Start reading at Application.
//
// +kubebuilder:object:generate=true
// +groupName=trueup.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group, version and resource names of the Application API.
var (
	GroupVersion        = schema.GroupVersion{Group: "trueup.dev", Version: "v1alpha1"}
	ApplicationKind     = GroupVersion.WithKind("Application")
	ApplicationResource = GroupVersion.WithResource("applications")
)

// AddToScheme registers the types of this package with s.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Application{}, &ApplicationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
