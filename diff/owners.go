package diff

import (
	"path"
	"strings"
)

// Class is what kind of owner a field manager is.
type Class string

const (
	// Person is a tool with which people change objects by hand.
	Person Class = "person"
	// Injector writes CA bundles into objects of others.
	Injector Class = "injector"
	// Released is our own second manager, which keeps values alive that left Git.
	Released Class = "released"
)

// KnownOwner is one row of the table of known field managers.
type KnownOwner struct {
	// Manager is a glob of field managers.
	Manager string
	Class   Class
	// Source says where the name comes from.
	Source string
}

// KnownOwners lists the field managers whose kind is known by name. Everybody else is a controller.
//
// A tool that does not set a field manager gets the first part of its user agent (k8s.io/apiserver, prefixFromUserAgent).
var KnownOwners = []KnownOwner{
	{"kubectl", Person, "kubectl: the user agent, seen with the scale subresource"},
	{"kubectl-*", Person, "kubectl: FieldManager options of its verbs (kubectl-edit, kubectl-client-side-apply, kubectl-patch …)"},
	{"k9s", Person, "k9s: the user agent"},
	{"Lens", Person, "Lens: the user agent"},
	{"OpenLens", Person, "OpenLens: the user agent"},
	{"node-fetch", Person, "Lens and Headlamp through @kubernetes/client-node: the user agent of its HTTP library"},
	{"headlamp*", Person, "Headlamp: the user agent"},
	{"dashboard", Person, "kubernetes/dashboard: the user agent"},
	{"Mozilla", Person, "web consoles (Rancher, OpenShift, Dashboard) that pass the browser's user agent on"},
	{"rancher", Person, "Rancher: the user agent"},
	{"oc", Person, "OpenShift's oc: the user agent"},
	{"oc-*", Person, "OpenShift's oc: FieldManager options of its verbs"},
	{"helm", Person, "Helm 3: the user agent; Helm 4: its field manager"},
	{"curl", Person, "curl: the user agent"},
	{"python-requests", Person, "scripts: the user agent"},
	{"OpenAPI-Generator", Person, "generated clients in scripts: the user agent"},

	{"cainjector", Injector, "cert-manager: the user agent of cmd/cainjector"},
	{"cert-manager-cainjector*", Injector, "cert-manager: FieldManager of the CA injector"},
	{"service-ca-operator", Injector, "OpenShift: service CA injection"},
	{"pilot-discovery", Injector, "Istio: caBundle of its webhooks"},
	{"vault-k8s", Injector, "Vault agent injector: caBundle of its webhook"},

	{"trueup-released", Released, "Trueup: values that outlive their line in Git"},
}

// ClassOf returns what kind of owner manager is, "" where the table does not know it.
func ClassOf(manager string) Class {
	for _, k := range KnownOwners {
		if k.matches(manager) {
			return k.Class
		}
	}
	return ""
}

func (k KnownOwner) matches(manager string) bool {
	if prefix, ok := strings.CutSuffix(k.Manager, "*"); ok {
		return strings.HasPrefix(manager, prefix)
	}
	return k.Manager == manager
}

// glob reports whether s matches pattern; an empty pattern matches everything, * anything, also slashes.
func glob(pattern, s string) bool {
	if pattern == "" || pattern == "*" {
		return true
	}
	const slash = "\x00"
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(s, "/", slash))
	return err == nil && ok
}
