package source

import (
	"context"
	"fmt"
	"strings"
	gosync "sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

const kustomizationGroup = "kustomize.config.k8s.io"

// openAPI guards the schema that kustomize keeps for the whole process. Kustomizations that bring their own (the field
// openapi) run alone and are cleaned up after; the others run side by side.
var openAPI gosync.RWMutex

// renderKustomization renders the kustomization in file as `kubectl kustomize` does, with the overrides of k added to it
// as `kustomize edit` would.
func renderKustomization(ctx context.Context, tree *Tree, file string, opts Options) (*Rendered, error) {
	kfs, err := newKustomizeFS(ctx, tree, file, opts.Kustomize, opts.Helm.Cluster)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", file, err)
	}
	m, err := runKustomize(kfs)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", file, kfs.explain(err))
	}
	out := &Rendered{Kind: KindKustomize, Warnings: kfs.warnings(), UsesCluster: kfs.usesCluster}
	for _, r := range m.Resources() {
		o, err := kustomizeObject(r, file)
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", file, err)
		}
		out.Objects = append(out.Objects, o)
	}
	if len(out.Objects) == 0 {
		out.Empty = fmt.Sprintf("the kustomization %s renders to no objects", file)
	}
	return out, nil
}

func runKustomize(kfs *kustomizeFS) (resmap.ResMap, error) {
	for kfs.ctx.Err() == nil {
		readsBefore, bytesBefore := kfs.tree.rec.counted()
		m, err := buildShared(kfs)
		if err != nil && kfs.ownSchema() {
			m, err = buildAlone(kfs)
		}
		reads, bytes := kfs.tree.rec.counted()
		if !kfs.pauses.work() {
			return m, err
		}
		kfs.again(reads-readsBefore, bytes-bytesBefore)
	}
	return nil, context.Cause(kfs.ctx)
}

func buildAlone(kfs *kustomizeFS) (resmap.ResMap, error) {
	openAPI.Lock()
	defer openAPI.Unlock()
	defer openapi.ResetOpenAPI()
	kfs.allowOwnSchema()
	return kfs.build()
}

func buildShared(kfs *kustomizeFS) (resmap.ResMap, error) {
	openAPI.RLock()
	defer openAPI.RUnlock() // also where kustomize panics: the lock is everybody's
	return kfs.build()
}

// build renders the folder with the options of `kubectl kustomize`. Plugins other than the built-in ones are off, Helm too.
// Whoever calls it holds openAPI.
func (k *kustomizeFS) build() (resmap.ResMap, error) {
	opts := krusty.MakeDefaultOptions()
	opts.Reorder = krusty.ReorderOptionUnspecified
	return krusty.MakeKustomizer(opts).Run(k, repositoryRoot+k.dir)
}

// kustomizeObject returns the object of a resource. Its file is the kustomization: kustomize can tell the file of each
// resource, but only at the price of noting each step it takes.
func kustomizeObject(r *resource.Resource, file string) (Object, error) {
	content, err := r.MarshalJSON()
	if err != nil {
		return Object{}, err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(content); err != nil {
		return Object{}, err
	}
	nameVersion(u)
	return Object{Unstructured: u, File: file, Random: unmarkRandom(u)}, nil
}

// kustomizeVersion is the version of kustomize that kubectl has and that the library here is part of.
const kustomizeVersion = "v5.8.1"

// nameVersion repairs the label of buildMetadata's managedByLabel: the library takes the version from the build
// information of the kustomize command, and without it writes one that no label can have.
func nameVersion(u *unstructured.Unstructured) {
	if u.GetLabels()[konfig.ManagedbyLabelKey] == "kustomize-(devel)" {
		_ = unstructured.SetNestedField(u.Object, "kustomize-"+kustomizeVersion, "metadata", "labels", konfig.ManagedbyLabelKey)
	}
}

// deprecations returns kustomize's warnings about a kustomization, without the prefix it prints them with.
func deprecations(file string, content []byte) []string {
	var k types.Kustomization
	if k.Unmarshal(content) != nil {
		return nil
	}
	var out []string
	for _, w := range *k.CheckDeprecatedFields() {
		out = append(out, file+": "+strings.TrimPrefix(w, "# Warning: "))
	}
	return out
}
