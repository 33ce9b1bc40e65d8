package deploy

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// names gives "Kind namespace/name" for each object.
func names(objects []*unstructured.Unstructured) []string {
	var list []string
	for _, o := range objects {
		list = append(list, o.GetKind()+" "+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
	}
	return list
}

func objects(t *testing.T, o Options) []*unstructured.Unstructured {
	t.Helper()
	list, err := o.Objects()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestObjectsWithoutOptionsAreWhatKustomizeGivesOfTheFolder(t *testing.T) {
	want, err := build(filesys.MakeFsOnDisk(), ".")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, objects(t, Options{})); d != "" {
		t.Errorf("-folder +embedded:\n%s", d)
	}
}

func TestObjectsComeInTheOrderInWhichTheyCanBeApplied(t *testing.T) {
	want := []string{
		"Namespace trueup",
		"CustomResourceDefinition applications.trueup.dev",
		"ServiceAccount trueup/trueup",
		"ClusterRole trueup-reader",
		"ClusterRoleBinding trueup-reader",
		"ClusterRole trueup-managed",
		"ClusterRole trueup-managed-builtin",
		"ClusterRoleBinding trueup-managed",
		"Role trueup/trueup",
		"RoleBinding trueup/trueup",
		"Service trueup/trueup-metrics",
		"Deployment trueup/trueup",
	}
	if d := cmp.Diff(want, names(objects(t, Options{}))); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestAnotherNamespaceReachesEveryObjectAndEverySubject(t *testing.T) {
	for _, o := range objects(t, Options{Namespace: "gitops", ClusterAdmin: true}) {
		switch o.GetKind() {
		case "Namespace":
			if o.GetName() != "gitops" {
				t.Errorf("the Namespace is called %s", o.GetName())
			}
		case "ServiceAccount", "Role", "RoleBinding", "Service", "Deployment":
			if o.GetNamespace() != "gitops" {
				t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
			}
		}
		subjects, _, err := unstructured.NestedSlice(o.Object, "subjects")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range subjects {
			if ns := s.(map[string]any)["namespace"]; ns != "gitops" {
				t.Errorf("%s %s binds a subject in namespace %v", o.GetKind(), o.GetName(), ns)
			}
		}
	}
}

func TestImage(t *testing.T) {
	for sentence, c := range map[string]struct{ image, want string }{
		"none is the manifests' own":             {"", Image + ":v0.1.0"},
		"a tag is taken":                         {"example.com/trueup:v2", "example.com/trueup:v2"},
		"no tag is latest":                       {"example.com/trueup", "example.com/trueup:latest"},
		"a registry's port is not a tag":         {"localhost:5000/trueup", "localhost:5000/trueup:latest"},
		"a port and a tag are told apart":        {"localhost:5000/trueup:v2", "localhost:5000/trueup:v2"},
		"a digest is kept":                       {"example.com/trueup@sha256:abc", "example.com/trueup@sha256:abc"},
		"a tag beside a digest stays beside it":  {"example.com/trueup:v2@sha256:abc", "example.com/trueup:v2@sha256:abc"},
		"the name of the manifests with a newer": {Image + ":v9", Image + ":v9"},
	} {
		t.Run(sentence, func(t *testing.T) {
			list := objects(t, Options{Image: c.image})
			containers, _, err := unstructured.NestedSlice(list[len(list)-1].Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			if got := containers[0].(map[string]any)["image"]; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAllowWritesOneLabelledRole(t *testing.T) {
	list := objects(t, Options{Allow: []string{"shop.example.com/*", "cert-manager.io/certificates", "cert-manager.io/issuers"}})
	role := list[len(list)-1]
	if role.GetName() != AllowedRole || role.GetLabels()["trueup.dev/aggregate-to-managed"] != "true" {
		t.Fatalf("the last object is %s %s with labels %v", role.GetKind(), role.GetName(), role.GetLabels())
	}
	verbs := []any{"get", "list", "watch", "create", "patch", "delete"}
	want := []any{
		object{"apiGroups": []any{"shop.example.com"}, "resources": []any{"*"}, "verbs": verbs},
		object{"apiGroups": []any{"cert-manager.io"}, "resources": []any{"certificates", "issuers"}, "verbs": verbs},
	}
	if d := cmp.Diff(want, role.Object["rules"]); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for sentence, c := range map[string]struct {
		options Options
		want    string
	}{
		"a namespace with capitals":       {Options{Namespace: "GitOps"}, `"GitOps" is no name for a namespace`},
		"a group alone":                   {Options{Allow: []string{"shop.example.com"}}, "write GROUP/RESOURCE"},
		"every group":                     {Options{Allow: []string{"*/*"}}, "--cluster-admin"},
		"a kind in place of a plural":     {Options{Allow: []string{"shop.example.com/Widget"}}, "plural in lower case"},
		"something that is no group":      {Options{Allow: []string{"a b/widgets"}}, `"a b" is no API group`},
		"the core group, spelled as \"\"": {Options{Allow: []string{"/pods"}}, `"" is no API group`},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := c.options.Objects()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestRBACGrantsNothingDangerous(t *testing.T) {
	for _, o := range objects(t, Options{Allow: []string{"shop.example.com/*"}}) {
		rules, _, err := unstructured.NestedSlice(o.Object, "rules")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			rule := r.(map[string]any)
			for _, verb := range rule["verbs"].([]any) {
				switch verb {
				case "*", "update", "deletecollection", "bind", "escalate", "impersonate", "approve", "sign":
					if o.GetKind() == "Role" && verb == "update" && cmp.Equal(rule["resources"], []any{"leases"}) {
						continue // leader election updates one Lease, in the agent's own namespace
					}
					t.Errorf("%s %s grants %v on %v", o.GetKind(), o.GetName(), verb, rule["resources"])
				}
			}
		}
	}
}

func TestNoManifestIsForgottenInTheKustomization(t *testing.T) {
	kustomization, err := os.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() && e.Name() != "kustomization.yaml" && !strings.Contains(string(kustomization), "- "+e.Name()+"\n") {
			t.Errorf("%s is not listed in kustomization.yaml", e.Name())
		}
	}
}

func TestTheWebhookComponentAddsAReceiver(t *testing.T) {
	plain, with := objects(t, Options{}), objects(t, Options{Webhook: true})
	if d := cmp.Diff(append(names(plain), "Service trueup/trueup-webhook"), names(with)); d != "" {
		t.Errorf("objects, -want +got:\n%s", d)
	}
	deployment := with[len(with)-2]
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	agent := containers[0].(map[string]any)
	for field, want := range map[string]int{"args": 5, "env": 4, "ports": 2, "volumeMounts": 3} {
		if list, _ := agent[field].([]any); len(list) != want {
			t.Errorf("%s: got %v, want %d", field, list, want)
		}
	}
	service := with[len(with)-1]
	target, _, err := unstructured.NestedSlice(service.Object, "spec", "ports")
	if err != nil {
		t.Fatal(err)
	}
	if port := target[0].(map[string]any)["targetPort"]; port != "webhook" {
		t.Errorf("the Service's port leads to %v", port)
	}
}
