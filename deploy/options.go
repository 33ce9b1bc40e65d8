package deploy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// Names of the objects that Options add to the manifests.
const (
	AllowedRole         = "trueup-managed-allowed" // the ClusterRole of Options.Allow
	ClusterAdminBinding = "trueup-cluster-admin"   // the ClusterRoleBinding of Options.ClusterAdmin
)

// object is a manifest as it is written.
type object = map[string]any

// parseImage splits NAME[:TAG][@DIGEST] into an override of the image in the manifests.
func parseImage(image string) types.Image {
	name, digest, _ := strings.Cut(image, "@")
	override := types.Image{Name: Image, NewName: name, Digest: digest}
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") { // a colon before it is a registry's port
		override.NewName, override.NewTag = name[:i], name[i+1:]
	}
	if override.NewTag == "" && digest == "" {
		override.NewTag = "latest"
	}
	return override
}

func (o Options) extraRoles() ([]byte, error) {
	var out bytes.Buffer
	write := func(obj object) error {
		data, err := yaml.Marshal(obj)
		out.WriteString("---\n")
		out.Write(data)
		return err
	}
	if len(o.Allow) > 0 {
		rules, err := allowRules(o.Allow)
		if err != nil {
			return nil, err
		}
		if err := write(metaObject("ClusterRole", AllowedRole, object{
			"trueup.dev/aggregate-to-managed": "true",
		}, object{"rules": rules})); err != nil {
			return nil, err
		}
	}
	if o.ClusterAdmin {
		if err := write(metaObject("ClusterRoleBinding", ClusterAdminBinding, object{}, object{
			"roleRef": object{
				"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
			},
			"subjects": []any{object{"kind": "ServiceAccount", "name": "trueup", "namespace": Namespace}},
		})); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

func metaObject(kind, name string, labels, body object) object {
	labels["app.kubernetes.io/name"] = "trueup"
	labels["app.kubernetes.io/part-of"] = "trueup"
	body["apiVersion"] = "rbac.authorization.k8s.io/v1"
	body["kind"] = kind
	body["metadata"] = object{"name": name, "labels": labels}
	return body
}

// allowRules gives one rule per API group, so that the role reads well.
func allowRules(allow []string) ([]any, error) {
	var groups []string
	resources := make(map[string][]any)
	for _, item := range allow {
		group, resource, ok := strings.Cut(item, "/")
		switch {
		case !ok || resource == "":
			return nil, fmt.Errorf("allowing %q: write GROUP/RESOURCE, for example shop.example.com/* or cert-manager.io/certificates", item)
		case group == "*":
			return nil, fmt.Errorf("allowing %q: that is nearly everything; if it is meant, install with --cluster-admin", item)
		case len(validation.IsDNS1123Subdomain(group)) > 0:
			return nil, fmt.Errorf("allowing %q: %q is no API group", item, group)
		case resource != "*" && len(validation.IsDNS1123Label(resource)) > 0:
			return nil, fmt.Errorf("allowing %q: %q is no resource: it is the plural in lower case, as in %s/widgets", item, resource, group)
		}
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
		resources[group] = append(resources[group], resource)
	}
	var rules []any
	for _, group := range groups {
		rules = append(rules, object{
			"apiGroups": []any{group},
			"resources": resources[group],
			"verbs":     []any{"get", "list", "watch", "create", "patch", "delete"},
		})
	}
	return rules, nil
}
