package source

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
)

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// remote matches, a little generously, what kustomize would clone with git or fetch with HTTP.
var remote = regexp.MustCompile(`(?i)^(git::)?([a-z][a-z0-9+.-]*://|[a-z][a-z0-9-]*@|github\.com[/:])`)

// checkRemote returns an error for the first thing in a kustomization that is not a file of the repository.
func checkRemote(file string, k *types.Kustomization) error {
	for field, paths := range pathFields(k) {
		for _, p := range paths {
			// key=path, as in the files of a generator
			if _, after, ok := strings.Cut(p, "="); ok && !remote.MatchString(p) {
				p = after
			}
			if remote.MatchString(strings.TrimSpace(p)) {
				return fmt.Errorf("%s: %s: %q is remote, and remote resources are not fetched: keep a copy of it in the repository", file, field, redact(p))
			}
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
