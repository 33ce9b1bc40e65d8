package main

import (
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// sourceOptions are the options of an Application's source as package source takes them.
func sourceOptions(src v1alpha1.Source) source.Options {
	var opts source.Options
	if d := src.Directory; d != nil {
		opts.Directory = source.Directory{Recurse: d.Recurse, Include: d.Include, Exclude: d.Exclude}
	}
	k := src.Kustomize
	if k == nil {
		return opts
	}
	opts.Kustomize = source.Kustomize{
		Images: k.Images, NamePrefix: k.NamePrefix, NameSuffix: k.NameSuffix, Namespace: k.Namespace,
		CommonLabels: k.CommonLabels, LabelWithoutSelector: k.LabelWithoutSelector, LabelIncludeTemplates: k.LabelIncludeTemplates,
		CommonAnnotations: k.CommonAnnotations, Components: k.Components,
	}
	for _, r := range k.Replicas {
		opts.Kustomize.Replicas = append(opts.Kustomize.Replicas, source.Replicas{Name: r.Name, Count: int64(r.Count.IntValue())})
	}
	for _, p := range k.Patches {
		patch := source.Patch{Patch: p.Patch, Path: p.Path, Options: p.Options}
		if t := p.Target; t != nil {
			patch.Target = &source.PatchTarget{
				Group: t.Group, Version: t.Version, Kind: t.Kind, Name: t.Name, Namespace: t.Namespace,
				AnnotationSelector: t.AnnotationSelector, LabelSelector: t.LabelSelector,
			}
		}
		opts.Kustomize.Patches = append(opts.Kustomize.Patches, patch)
	}
	return opts
}
