package source

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
)

// Kustomize holds overrides that are added to a kustomization, named and merged as Argo CD's are.
type Kustomize struct {
	Images                  []string // name=newName:tag, name:tag, name@digest
	NamePrefix              string
	NameSuffix              string
	Namespace               string
	CommonLabels            map[string]string
	LabelWithoutSelector    bool // keep CommonLabels out of selectors
	LabelIncludeTemplates   bool // with LabelWithoutSelector: label pod templates all the same
	CommonAnnotations       map[string]string
	Replicas                []Replicas
	Patches                 []Patch
	Components              []string // paths relative to the kustomization
	IgnoreMissingComponents bool     // leave Components that are not there out
}

// Replicas sets the number of replicas of the workload called Name.
type Replicas struct {
	Name  string
	Count int64
}

// Patch is a strategic merge patch or a JSON patch, inline or in a file relative to the kustomization.
type Patch struct {
	Patch   string
	Path    string
	Target  *PatchTarget
	Options map[string]bool // allowNameChange, allowKindChange
}

// PatchTarget selects the objects of a Patch; each field but the selectors is an anchored regular expression.
type PatchTarget struct {
	Group, Version, Kind, Name, Namespace string
	AnnotationSelector, LabelSelector     string
}

// editKustomization returns the kustomization in content with the overrides of k. Content that is no mapping is returned
// as it is: kustomize knows best what to say of it.
func editKustomization(content []byte, k Kustomize) ([]byte, error) {
	var doc yaml.Node
	if yaml.Unmarshal(content, &doc) != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return content, nil
	}
	e := &kustomizationEdit{root: doc.Content[0]}
	edits := []func(*kustomizationEdit) error{k.editNames, k.editImages, k.editReplicas, k.editLabels, k.editPatches, k.editComponents}
	for _, edit := range edits {
		if err := edit(e); err != nil {
			return nil, err
		}
	}
	if !e.changed {
		return content, nil
	}
	return yaml.Marshal(&doc)
}

// kustomizationEdit changes single fields of a kustomization and leaves the rest as it was written.
type kustomizationEdit struct {
	root    *yaml.Node
	changed bool
}

// get decodes a field into v, which stays as it is if there is no such field.
func (e *kustomizationEdit) get(field string, v any) error {
	if i := e.index(field); i >= 0 {
		if err := e.root.Content[i+1].Decode(v); err != nil {
			return fmt.Errorf("field %s: %w", field, err)
		}
	}
	return nil
}

func (e *kustomizationEdit) set(field string, v any) error {
	var value yaml.Node
	if err := value.Encode(v); err != nil {
		return fmt.Errorf("field %s: %w", field, err)
	}
	e.changed = true
	if i := e.index(field); i >= 0 {
		e.root.Content[i+1] = &value
		return nil
	}
	e.root.Content = append(e.root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: field}, &value)
	return nil
}

// index returns where a field's key is, -1 if nowhere. kustomize takes field names in any case.
func (e *kustomizationEdit) index(field string) int {
	for i := 0; i+1 < len(e.root.Content); i += 2 {
		if strings.EqualFold(e.root.Content[i].Value, field) {
			return i
		}
	}
	return -1
}

// edit decodes a field, changes it and puts it back.
func edit[T any](e *kustomizationEdit, field string, change func(T) (T, error)) error {
	var v T
	if err := e.get(field, &v); err != nil {
		return err
	}
	v, err := change(v)
	if err != nil {
		return err
	}
	return e.set(field, v)
}

func (k Kustomize) editNames(e *kustomizationEdit) error {
	for _, f := range []struct{ field, value string }{
		{"namePrefix", k.NamePrefix}, {"nameSuffix", k.NameSuffix}, {"namespace", k.Namespace},
	} {
		if f.value == "" {
			continue
		}
		if err := e.set(f.field, f.value); err != nil {
			return err
		}
	}
	return nil
}

func (k Kustomize) editImages(e *kustomizationEdit) error {
	if len(k.Images) == 0 {
		return nil
	}
	return edit(e, "images", func(images []types.Image) ([]types.Image, error) {
		for _, s := range k.Images {
			image, err := parseImage(s)
			if err != nil {
				return nil, err
			}
			i := slices.IndexFunc(images, func(have types.Image) bool { return have.Name == image.Name })
			if i < 0 {
				images = append(images, image)
				continue
			}
			if image.NewName == "" {
				image.NewName = images[i].NewName
			}
			images[i] = image
		}
		return images, nil
	})
}

// parseImage reads an image override: [name=]newName[:tag|@digest].
func parseImage(s string) (types.Image, error) {
	name, rest, renamed := strings.Cut(s, "=")
	if !renamed {
		rest = s
	}
	var image types.Image
	newName := rest
	if before, digest, ok := strings.Cut(rest, "@"); ok {
		newName, image.Digest = before, digest
	} else if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, '/') {
		newName, image.NewTag = rest[:i], rest[i+1:]
	}
	image.Name = newName
	if renamed {
		image.Name, image.NewName = name, newName
	}
	if image.Name == "" || newName == "" || (!renamed && image.NewTag == "" && image.Digest == "") {
		return types.Image{}, fmt.Errorf("kustomize.images: %q is none of name:tag, name@digest, name=newName, name=newName:tag", s)
	}
	return image, nil
}

func (k Kustomize) editReplicas(e *kustomizationEdit) error {
	if len(k.Replicas) == 0 {
		return nil
	}
	return edit(e, "replicas", func(replicas []types.Replica) ([]types.Replica, error) {
		for _, r := range k.Replicas {
			want := types.Replica{Name: r.Name, Count: r.Count}
			if i := slices.IndexFunc(replicas, func(have types.Replica) bool { return have.Name == r.Name }); i >= 0 {
				replicas[i] = want
			} else {
				replicas = append(replicas, want)
			}
		}
		return replicas, nil
	})
}

func (k Kustomize) editLabels(e *kustomizationEdit) error {
	if len(k.CommonAnnotations) > 0 {
		if err := edit(e, "commonAnnotations", merged(k.CommonAnnotations)); err != nil {
			return err
		}
	}
	if len(k.CommonLabels) == 0 {
		return nil
	}
	if !k.LabelWithoutSelector {
		return edit(e, "commonLabels", merged(k.CommonLabels))
	}
	return edit(e, "labels", func(labels []types.Label) ([]types.Label, error) {
		return append(labels, types.Label{Pairs: k.CommonLabels, IncludeTemplates: k.LabelIncludeTemplates}), nil
	})
}

func merged(more map[string]string) func(map[string]string) (map[string]string, error) {
	return func(m map[string]string) (map[string]string, error) {
		if m == nil {
			m = map[string]string{}
		}
		for key, v := range more {
			m[key] = v
		}
		return m, nil
	}
}

func (k Kustomize) editPatches(e *kustomizationEdit) error {
	if len(k.Patches) == 0 {
		return nil
	}
	return edit(e, "patches", func(patches []yaml.Node) ([]yaml.Node, error) {
		for _, p := range k.Patches {
			var node yaml.Node
			if err := node.Encode(p.kustomize()); err != nil {
				return nil, err
			}
			patches = append(patches, node)
		}
		return patches, nil
	})
}

func (p Patch) kustomize() types.Patch {
	out := types.Patch{Patch: p.Patch, Path: p.Path}
	if t := p.Target; t != nil {
		out.Target = &types.Selector{
			ResId: resid.ResId{
				Gvk:       resid.Gvk{Group: t.Group, Version: t.Version, Kind: t.Kind},
				Name:      t.Name,
				Namespace: t.Namespace,
			},
			AnnotationSelector: t.AnnotationSelector,
			LabelSelector:      t.LabelSelector,
		}
	}
	if len(p.Options) > 0 {
		out.Options = &types.PatchArgs{
			AllowNameChange: p.Options["allowNameChange"],
			AllowKindChange: p.Options["allowKindChange"],
		}
	}
	return out
}

func (k Kustomize) editComponents(e *kustomizationEdit) error {
	if len(k.Components) == 0 {
		return nil
	}
	return edit(e, "components", func(components []string) ([]string, error) {
		for _, c := range k.Components {
			if !slices.Contains(components, c) {
				components = append(components, c)
			}
		}
		return components, nil
	})
}
