package sync

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/source"
)

// someKinds serves what these tables declare.
type someKinds struct{}

func (someKinds) Of(gvk schema.GroupVersionKind) (apply.Kind, error) {
	switch gvk.Kind {
	case "ConfigMap", "Secret", "Deployment":
		return apply.Kind{Namespaced: true, HasStatus: gvk.Kind == "Deployment"}, nil
	case "ClusterRole", "Namespace":
		return apply.Kind{}, nil
	}
	return apply.Kind{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

func declared(t *testing.T, manifests ...string) []source.Object {
	t.Helper()
	var objects []source.Object
	for i, m := range manifests {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(m), &u.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, source.Object{Unstructured: u, File: "shop/all.yaml", Line: i + 1})
	}
	return objects
}

func TestWhatGitDeclares(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		id       diff.ID
		has      []string // in the configuration as JSON
		lacks    []string
	}{
		"an object without a namespace goes to the destination": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}",
			diff.ID{Kind: "ConfigMap", Namespace: "dest", Name: "a"}, []string{`"namespace":"dest"`, `"trueup.dev/app":"shop"`, `"trueup.dev/tracking":"trueup/shop:/ConfigMap:dest/a"`}, nil},
		"an object with a namespace keeps it": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: own}}",
			diff.ID{Kind: "ConfigMap", Namespace: "own", Name: "a"}, []string{`"namespace":"own"`}, nil},
		"a cluster-scoped object has none": {
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a, namespace: own}}",
			diff.ID{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "a"}, nil, []string{`"namespace"`}},
		"a status and what the API server writes are not declared": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, uid: x, resourceVersion: '1', creationTimestamp: null, generation: 3}, spec: {replicas: 2, paused: null}, status: {replicas: 1}}",
			diff.ID{Group: "apps", Kind: "Deployment", Namespace: "dest", Name: "a"}, []string{`"replicas":2`}, []string{"status", "uid", "resourceVersion", "creationTimestamp", "generation", "paused"}},
		"a Secret is declared as it is stored": {
			"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {x: eA==}, stringData: {pw: yes!}}",
			diff.ID{Kind: "Secret", Namespace: "dest", Name: "a"}, []string{`"x":"eA=="`, `"pw":"eWVzIQ=="`}, []string{"stringData"}},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := newDesiredSet(declared(t, c.manifest), shopApp, "dest", someKinds{})
			if err != nil {
				t.Fatal(err)
			}
			d := set.byID[c.id]
			if d == nil {
				t.Fatalf("want %v, got %v", c.id, set.Objects[0].ID)
			}
			for _, part := range c.has {
				if !strings.Contains(string(d.json), part) {
					t.Errorf("want %s in %s", part, d.json)
				}
			}
			for _, part := range c.lacks {
				if strings.Contains(string(d.json), part) {
					t.Errorf("want no %s in %s", part, d.json)
				}
			}
		})
	}
}

func TestWhatGitCannotDeclare(t *testing.T) {
	for name, c := range map[string]struct {
		manifests []string
		namespace string
		message   string
	}{
		"no namespace anywhere":       {[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"}, "", "shop/all.yaml:1: ConfigMap a names no namespace: set metadata.namespace"},
		"one object twice":            {[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: dest}}"}, "dest", "declared twice: in shop/all.yaml:1 and in shop/all.yaml:2"},
		"a yield that is no path":     {[]string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {trueup.dev/yield: data}}}"}, "dest", "shop/all.yaml:1: ConfigMap dest/a: the annotation trueup.dev/yield[0]: path \"data\": must begin with"},
		"a number as a Secret's text": {[]string{"{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {pin: 4711}}"}, "dest", "stringData.pin must be a string"},
		"a Secret's data in clear":    {[]string{"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {pw: hunter2!}}"}, "dest", "data.pw is no base64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newDesiredSet(declared(t, c.manifests...), shopApp, c.namespace, someKinds{})
			if err == nil || !strings.Contains(err.Error(), c.message) {
				t.Errorf("want an error with %q, got %v", c.message, err)
			}
			if err != nil && (strings.Contains(err.Error(), "4711") || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("the error shows a Secret's value: %v", err)
			}
		})
	}
}
