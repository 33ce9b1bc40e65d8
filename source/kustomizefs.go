package source

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	gosync "sync"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/trueup/trueup/source/internal/manifest"
)

// repositoryRoot is where kustomize finds the tree. It is no real folder; it is not "/" so that a path that climbs out
// of the repository is told from one that does not.
const repositoryRoot = "/repository/"

// kustomizeFS shows a Tree to kustomize as a file system that cannot be written. It also is the gate for what kustomize
// would do besides reading files: run git and fetch URLs for remote resources.
type kustomizeFS struct {
	filesys.FileSystem // nil: what is not overridden below is never called by a build

	ctx     context.Context // of the render: kustomize hands none on to where remote repositories are fetched
	tree    *Tree
	dir     string // the folder that is rendered, links followed
	root    string // its kustomization, links followed
	content []byte // of root, with the overrides
	depth   int    // how many builds this one is part of

	cluster     func() (*Cluster, error) // for charts
	usesCluster bool
	pauses      *pauses

	mu       gosync.Mutex
	refused  error // why a read was refused, told instead of what kustomize makes of it
	schema   schemaUse
	admitted int                 // kustomizations
	warned   map[string][]string // by kustomization
	read     map[string][]byte   // what was read, to find the place of a mistake in it
	literals []string            // of Secrets: no message may repeat them
	links    map[string]string   // from where links lead to the kustomization that they are

	mounts      []*mount                 // the repository itself first
	remoteFiles map[string]remoteContent // by the path that kustomize has for them
	remoteCount int
}

// maxKustomizations bounds the work of kustomizations that refer to others which refer to others: kustomize renders one
// again for each way that leads to it.
const maxKustomizations = 1_000

type schemaUse int

const (
	schemaShared  schemaUse = iota // no kustomization seen so far brings its own OpenAPI schema
	schemaWanted                   // one does, and the build was stopped for it
	schemaAllowed                  // this build has the process-wide schema to itself
)

var errOwnSchema = errors.New("the kustomization brings its own OpenAPI schema")

func newKustomizeFS(ctx context.Context, tree *Tree, file string, k Kustomize, cluster func() (*Cluster, error)) (*kustomizeFS, error) {
	kfs := &kustomizeFS{ctx: ctx, tree: tree, warned: map[string][]string{}, read: map[string][]byte{}, links: map[string]string{},
		mounts: []*mount{{root: repositoryRoot, tree: tree}}, remoteFiles: map[string]remoteContent{}, cluster: cluster,
		pauses: &pauses{done: map[string]bool{}, charts: map[string]inflation{}}}
	var err error
	if kfs.dir, _, err = tree.resolve(path.Dir(file)); err != nil {
		return nil, err
	}
	if kfs.root, _, err = tree.resolve(file); err != nil {
		return nil, err
	}
	content, err := tree.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := manifest.CheckYAML(file, content); err != nil {
		return nil, err
	}
	kfs.warned[file] = deprecations(file, content)
	if k.IgnoreMissingComponents {
		if k.Components, err = presentFolders(tree, path.Dir(file), k.Components); err != nil {
			return nil, err
		}
	}
	kfs.content, err = editKustomization(content, k)
	return kfs, err
}

func presentFolders(tree *Tree, dir string, names []string) ([]string, error) {
	var present []string
	for _, name := range names {
		ok, err := tree.IsDir(path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if ok {
			present = append(present, name)
		}
	}
	return present, nil
}

func (k *kustomizeFS) ReadFile(name string) ([]byte, error) {
	if f, ok := k.remoteFile(name); ok {
		return k.checked(f.label, f.content)
	}
	at, err := k.locate(name)
	if err != nil {
		return nil, k.refuse(err)
	}
	content := k.content
	if at.tree != k.tree || at.rel != k.root {
		if content, err = at.tree.ReadFile(at.rel); err != nil {
			return nil, k.refuseUnlessMissing(err)
		}
		if content, err = k.checked(at.String(), content); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	k.read[at.String()] = content
	as, linked := k.links[at.String()]
	k.mu.Unlock()
	if !linked {
		as = at.rel
	}
	if !isKustomization(as) {
		return content, nil
	}
	at.rel = as
	if content, err = k.localize(at, content); err != nil {
		return nil, k.refuse(err)
	}
	if content, err = k.admit(at, content); err != nil {
		return nil, k.refuse(err)
	}
	return content, nil
}

// checked returns content unless it is YAML that expands to too much.
func (k *kustomizeFS) checked(file string, content []byte) ([]byte, error) {
	if err := manifest.CheckYAML(file, content); err != nil {
		return nil, k.refuse(err)
	}
	return content, nil
}

func isKustomization(name string) bool {
	return slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name))
}

// admit checks a kustomization before kustomize acts on it, and returns what kustomize gets to read.
func (k *kustomizeFS) admit(at place, content []byte) ([]byte, error) {
	file := at.String()
	var parsed types.Kustomization
	if parsed.Unmarshal(content) != nil {
		return content, nil // kustomize reports it
	}
	if err := k.count(file, content, &parsed); err != nil {
		return nil, err
	}
	if err := checkRemote(at, &parsed); err != nil {
		return nil, err
	}
	if err := k.checkPlugins(at, &parsed); err != nil {
		return nil, err
	}
	return k.inflate(at, content, &parsed)
}

func (k *kustomizeFS) count(file string, content []byte, parsed *types.Kustomization) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.admitted++; k.admitted > maxKustomizations {
		return fmt.Errorf("more than %d kustomizations are rendered for one", maxKustomizations)
	}
	if len(parsed.OpenAPI) > 0 && k.schema != schemaAllowed {
		k.schema = schemaWanted
		return errOwnSchema
	}
	if _, known := k.warned[file]; !known {
		k.warned[file] = deprecations(file, content)
	}
	for _, g := range parsed.SecretGenerator {
		for _, l := range g.LiteralSources {
			_, value, _ := strings.Cut(l, "=")
			k.literals = append(k.literals, l, value)
		}
	}
	//lint:ignore SA1019 people use the field all the same
	for _, p := range parsed.PatchesStrategicMerge {
		// A patch with a mistake in it is taken for a path.
		if strings.ContainsAny(string(p), ":{") {
			k.literals = append(k.literals, path.Clean(string(p)))
		}
	}
	return nil
}

func (k *kustomizeFS) refuse(err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refused == nil {
		k.refused = err
	}
	return err
}

func (k *kustomizeFS) refuseUnlessMissing(err error) error {
	if isMissing(err) {
		return err
	}
	return k.refuse(err)
}

func (k *kustomizeFS) ownSchema() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.schema == schemaWanted
}

func (k *kustomizeFS) allowOwnSchema() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.schema, k.refused = schemaAllowed, nil
}

func (k *kustomizeFS) warnings() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, w := range k.warned {
		out = append(out, w...)
	}
	slices.Sort(out)
	return out
}

func (k *kustomizeFS) IsDir(name string) bool {
	at, err := k.locate(name)
	if err != nil {
		return false
	}
	ok, err := at.tree.IsDir(at.rel)
	return err == nil && ok
}

func (k *kustomizeFS) Exists(name string) bool {
	if _, ok := k.remoteFile(name); ok {
		return true
	}
	at, err := k.locate(name)
	if err != nil {
		return false
	}
	kind, err := at.tree.stat(at.rel)
	return err == nil && kind != ""
}

func (k *kustomizeFS) ReadDir(name string) ([]string, error) {
	at, err := k.locate(name)
	if err != nil {
		return nil, k.refuse(err)
	}
	entries, err := at.tree.entries(at.rel)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	return names, err
}

func (k *kustomizeFS) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	if _, ok := k.remoteFile(name); ok {
		dir, base := path.Split(path.Clean(name))
		return filesys.ConfirmedDir(path.Clean(dir)), base, nil
	}
	at, err := k.locate(name)
	if err != nil {
		return "", "", k.refuse(err)
	}
	real, e, err := at.tree.resolve(at.rel)
	if err != nil {
		return "", "", k.refuseUnlessMissing(err)
	}
	if err := at.tree.rec.stat(real, e); err != nil {
		return "", "", k.refuse(err)
	}
	if e.kind == kindDir {
		return filesys.ConfirmedDir(path.Join(at.root, real)), "", nil
	}
	if isKustomization(at.rel) && real != at.rel {
		// It is read by its real name next, and is a kustomization all the same.
		k.mu.Lock()
		k.links[place{at.mount, real}.String()] = at.rel
		k.mu.Unlock()
	}
	return filesys.ConfirmedDir(path.Join(at.root, path.Dir(real))), path.Base(real), nil
}
