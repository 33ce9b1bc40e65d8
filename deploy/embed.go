// Package deploy holds the manifests that a user installs and gives them as objects.
// Start reading at Options.Objects; kustomization.yaml lists the files, and `kubectl apply -k deploy` installs the same.
package deploy

import (
	"embed"
	"fmt"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd paths=../sync/v1alpha1 output:crd:dir=.
//go:generate mv trueup.dev_applications.yaml crd.yaml

//go:embed *.yaml webhook/*.yaml
var files embed.FS

// Names of objects in the manifests.
const (
	Namespace  = "trueup"                  // where the agent runs unless Options say otherwise
	Deployment = "trueup"                  // the agent
	CRDName    = "applications.trueup.dev" // the CustomResourceDefinition of Application
	Image      = "trueup/trueup"           // the image's name in the manifests, without its tag
)

// CRD returns the CustomResourceDefinition of Application; the caller may change it.
func CRD() (*unstructured.Unstructured, error) {
	data, err := files.ReadFile("crd.yaml")
	if err != nil {
		return nil, err
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &crd.Object); err != nil {
		return nil, fmt.Errorf("decoding crd.yaml: %w", err)
	}
	return crd, nil
}

// Options say what differs from the manifests as they are.
type Options struct {
	Namespace    string   // the agent's and the Applications' namespace; empty is "trueup"
	Image        string   // NAME[:TAG][@DIGEST]; empty is the one in kustomization.yaml
	ClusterAdmin bool     // the agent may do everything
	Webhook      bool     // the agent receives the webhooks of Git servers
	Allow        []string // GROUP/RESOURCE that the agent may manage besides the built-in kinds; RESOURCE may be *
}

// Objects returns what to install, in the order in which to apply it. It fails on options that make no sense.
func (o Options) Objects() ([]*unstructured.Unstructured, error) {
	overlay, extra, err := o.overlay()
	if err != nil {
		return nil, err
	}
	tree := filesys.MakeFsInMemory()
	if err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		return tree.WriteFile(path.Join("/deploy", name), data)
	}); err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	if len(extra) > 0 {
		overlay.Resources = append(overlay.Resources, "extra.yaml")
		if err := tree.WriteFile("/overlay/extra.yaml", extra); err != nil {
			return nil, err
		}
	}
	data, err := yaml.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	if err := tree.WriteFile("/overlay/kustomization.yaml", data); err != nil {
		return nil, err
	}
	return build(tree, "/overlay")
}

func build(tree filesys.FileSystem, dir string) ([]*unstructured.Unstructured, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // as kubectl does: the kustomization says the order
	rendered, err := krusty.MakeKustomizer(options).Run(tree, dir)
	if err != nil {
		return nil, fmt.Errorf("rendering the manifests: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, res := range rendered.Resources() {
		data, err := res.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("rendering the manifests: %w", err)
		}
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("rendering the manifests: %w", err)
		}
		objects = append(objects, obj)
	}
	return objects, nil
}

// overlay returns the kustomization on top of the manifests, and the objects that are only in the overlay as YAML.
func (o Options) overlay() (types.Kustomization, []byte, error) {
	k := types.Kustomization{
		TypeMeta:    types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind},
		Resources:   []string{"../deploy"},
		SortOptions: &types.SortOptions{Order: types.FIFOSortOrder},
	}
	if o.Namespace != "" && o.Namespace != Namespace {
		if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
			return k, nil, fmt.Errorf("%q is no name for a namespace: %s", o.Namespace, problems[0])
		}
		k.Namespace = o.Namespace
	}
	if o.Webhook {
		k.Components = []string{"../deploy/webhook"}
	}
	if o.Image != "" {
		k.Images = []types.Image{parseImage(o.Image)}
	}
	extra, err := o.extraRoles()
	return k, extra, err
}
