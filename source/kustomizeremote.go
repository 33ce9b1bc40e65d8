package source

//lint:file-ignore SA1019 people use the fields that kustomize has deprecated all the same

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/trueup/trueup/source/internal/manifest"
)

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// remote matches, a little generously, what kustomize would clone with git or fetch with HTTP.
var remote = regexp.MustCompile(`(?i)^(git::)?([a-z][a-z0-9+.-]*://|[a-z][a-z0-9-]*@|github\.com[/:])`)

// remoteAnywhere finds it in a whole file, quickly, and finds more.
var remoteAnywhere = regexp.MustCompile(`(?i)://|@|github\.com[/:]`)

// checkRemote returns an error for the first thing in a kustomization that is not a file of the repository.
func checkRemote(at place, k *types.Kustomization) error {
	file := at.String()
	for field, paths := range pathFields(k) {
		for _, p := range paths {
			if err := checkPath(at, file, field, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPath returns an error for a path that leads out of the repository that a kustomization is in. file is where it is
// written.
func checkPath(at place, file, field, p string) error {
	// key=path, as in the files of a generator
	if _, after, ok := strings.Cut(p, "="); ok && !remote.MatchString(p) {
		p = after
	}
	if remote.MatchString(strings.TrimSpace(p)) {
		return fmt.Errorf("%s: %s: %q is remote, and %s: keep a copy of it in the repository", file, field, redact(p), at.whyNotFetched(p))
	}
	abs := path.Join(path.Dir(at.root+at.rel), p)
	if at.label != "" && !strings.HasPrefix(abs+"/", at.root) && !mountPath.MatchString(abs) {
		return fmt.Errorf("%s: %s: %q leaves the repository", file, field, p)
	}
	return nil
}

func (p place) whyNotFetched(reference string) string {
	ref, err := parseRemoteRef(reference)
	switch {
	case p.tree.remotes == nil || len(p.tree.remotes.allowed.prefixes) == 0:
		return "remote resources are not fetched, as the agent's setting kustomize-allowed-remotes is empty"
	case err == nil:
		err = p.tree.remotes.check(ref)
	}
	if err == nil {
		return "is not fetched for this field"
	}
	if errors.Is(err, errNotAllowed) {
		return "is in none of the agent's kustomize-allowed-remotes"
	}
	return "cannot be fetched: " + err.Error()
}

// maxPluginDepth bounds configurations of plugins that are kustomizations with plugins.
const maxPluginDepth = 4

// checkPlugins checks the configurations of a kustomization's generators, transformers and validators, which name files
// too. They may themselves be what a kustomization renders to; then that is rendered to see.
func (k *kustomizeFS) checkPlugins(at place, parsed *types.Kustomization) error {
	for _, entries := range [][]string{parsed.Generators, parsed.Transformers, parsed.Validators} {
		for _, entry := range entries {
			if err := k.checkPlugin(at, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *kustomizeFS) checkPlugin(at place, entry string) error {
	file := at.String()
	// An entry is a configuration itself, or else a path.
	if err := checkPluginConfig(at, file, []byte(entry)); err != nil || strings.Contains(entry, "\n") {
		return err
	}
	name := path.Join(path.Dir(at.rel), entry)
	switch kind, err := at.tree.stat(name); {
	case err != nil:
		return err
	case kind == kindFile:
		content, err := at.tree.ReadFile(name)
		if err != nil {
			return err
		}
		return checkPluginConfig(at, at.label+name, content)
	case kind != kindDir:
		return nil // kustomize says that it is not there
	}
	if k.depth == maxPluginDepth {
		return fmt.Errorf("%s: %q: plugins are configured by plugins more than %d levels deep", file, entry, maxPluginDepth)
	}
	kustomization, err := kustomizationFile(at.tree, name)
	if err != nil || kustomization == "" {
		return err
	}
	inner, err := newKustomizeFS(k.ctx, at.tree, kustomization, Kustomize{}, k.cluster)
	if err != nil {
		return err
	}
	inner.depth, inner.pauses = k.depth+1, k.pauses
	inner.mounts[0].label = at.label // what has waited for a path of this repository is not that of another
	m, err := inner.build()
	if err != nil {
		return fmt.Errorf("%s: %w", kustomization, inner.explain(err))
	}
	k.mu.Lock()
	k.usesCluster = k.usesCluster || inner.usesCluster
	k.mu.Unlock()
	in := place{at.mount, kustomization}
	for name, content := range inner.read {
		if err := checkPluginConfig(in, name, content); err != nil {
			return err
		}
	}
	content, err := m.AsYaml()
	if err != nil {
		return err
	}
	return checkPluginConfig(in, kustomization, content)
}

// checkPluginConfig checks the fields by which the built-in plugins name files. Text that cannot be read is left to
// kustomize, which does not get further with it either.
func checkPluginConfig(at place, file string, content []byte) error {
	if err := manifest.CheckYAML(file, content); err != nil {
		return err
	}
	for dec := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var doc yaml.Node
		if dec.Decode(&doc) != nil {
			return nil
		}
		if err := checkPluginNode(at, file, "", &doc, 0); err != nil {
			return err
		}
	}
}

func checkPluginNode(at place, file, field string, n *yaml.Node, depth int) error {
	if depth > 100 {
		return fmt.Errorf("%s:%d: nested more than 100 levels deep", file, n.Line)
	}
	if n.Kind == yaml.AliasNode {
		return checkPluginNode(at, file, field, n.Alias, depth+1)
	}
	switch strings.ToLower(field) {
	case "path", "paths", "files", "envs", "env":
		if n.Kind == yaml.ScalarNode {
			// PatchStrategicMergeTransformer takes several paths in one text.
			for _, p := range strings.Fields(n.Value) {
				if err := checkPath(at, file, field, p); err != nil {
					return err
				}
			}
		}
	}
	for i, child := range n.Content {
		name := field
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				continue
			}
			name = n.Content[i-1].Value
		}
		if err := checkPluginNode(at, file, name, child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// pathFields returns the fields of a kustomization that name files or folders.
func pathFields(k *types.Kustomization) map[string][]string {
	fields := map[string][]string{
		"resources":      append(append([]string{}, k.Resources...), k.Bases...),
		"components":     k.Components,
		"crds":           k.Crds,
		"configurations": k.Configurations,
		"generators":     k.Generators,
		"transformers":   k.Transformers,
		"validators":     k.Validators,
		"openapi":        {k.OpenAPI["path"]},
	}
	for _, p := range k.Patches {
		fields["patches"] = append(fields["patches"], p.Path)
	}
	for _, p := range k.PatchesJson6902 {
		fields["patchesJson6902"] = append(fields["patchesJson6902"], p.Path)
	}
	for _, p := range k.PatchesStrategicMerge {
		fields["patchesStrategicMerge"] = append(fields["patchesStrategicMerge"], string(p))
	}
	for _, r := range k.Replacements {
		fields["replacements"] = append(fields["replacements"], r.Path)
	}
	for _, g := range k.ConfigMapGenerator {
		fields["configMapGenerator"] = append(fields["configMapGenerator"], kvPaths(g.KvPairSources)...)
	}
	for _, g := range k.SecretGenerator {
		fields["secretGenerator"] = append(fields["secretGenerator"], kvPaths(g.KvPairSources)...)
	}
	return fields
}

func kvPaths(kv types.KvPairSources) []string {
	paths := append([]string{kv.EnvSource}, kv.EnvSources...)
	return append(paths, kv.FileSources...)
}
