package diff

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ID names one object of a cluster, whatever version it is read in.
type ID struct {
	Group, Kind, Namespace, Name string
}

// GroupKind returns the kind without a version.
func (id ID) GroupKind() schema.GroupKind { return schema.GroupKind{Group: id.Group, Kind: id.Kind} }

// String returns the object as people write it: "Deployment shop/web", "ClusterRole viewer".
func (id ID) String() string {
	if id.Namespace == "" {
		return id.Kind + " " + id.Name
	}
	return id.Kind + " " + id.Namespace + "/" + id.Name
}

// Compare orders by group, kind, namespace and name.
func (id ID) Compare(other ID) int {
	return cmp.Or(
		strings.Compare(id.Group, other.Group),
		strings.Compare(id.Kind, other.Kind),
		strings.Compare(id.Namespace, other.Namespace),
		strings.Compare(id.Name, other.Name),
	)
}
