package sync

import (
	"errors"
	"fmt"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// fieldPolicies turns spec.fieldPolicies and spec.ignoreDifferences into what diff decides by. The error names each
// path that cannot be read.
func fieldPolicies(spec *v1alpha1.ApplicationSpec) ([]diff.Policy, error) {
	var policies []diff.Policy
	var errs []error
	for i, p := range spec.FieldPolicies {
		source := fmt.Sprintf("spec.fieldPolicies[%d]", i)
		paths, err := patterns(source+".paths", p.Paths)
		errs = append(errs, err)
		policy := diff.Policy{
			Group: p.Group, Kind: p.Kind, Name: p.Name, Namespace: p.Namespace,
			Managers: p.Managers, Paths: paths, Verdict: diff.Verdict(p.Policy), Source: source,
		}
		if p.Policy == v1alpha1.PolicyCreateOnly {
			policy.Verdict = diff.Yield
		}
		policies = append(policies, policy)
	}
	for i, d := range spec.IgnoreDifferences {
		source := fmt.Sprintf("spec.ignoreDifferences[%d]", i)
		paths, err := patterns(source+".jsonPointers", d.JSONPointers)
		errs = append(errs, err)
		base := diff.Policy{Group: &d.Group, Kind: d.Kind, Name: d.Name, Namespace: d.Namespace, Verdict: diff.Yield, Source: source}
		if d.Group == "*" {
			base.Group = nil
		}
		if len(paths) > 0 {
			byPath := base
			byPath.Paths = paths
			policies = append(policies, byPath)
		}
		if len(d.ManagedFieldsManagers) > 0 {
			byManager := base
			byManager.Managers = d.ManagedFieldsManagers
			policies = append(policies, byManager)
		}
	}
	return policies, errors.Join(errs...)
}

// yieldPolicies are the policies that an object carries itself, in its annotation trueup.dev/yield.
func yieldPolicies(d *Desired) ([]diff.Policy, error) {
	if len(d.yields) == 0 {
		return nil, nil
	}
	source := "the annotation " + v1alpha1.AnnotationYield
	paths, err := patterns(source, d.yields)
	return []diff.Policy{{Paths: paths, Verdict: diff.Yield, Source: source}}, err
}

func patterns(source string, paths []string) ([]diff.PathPattern, error) {
	var out []diff.PathPattern
	var errs []error
	for i, p := range paths {
		pattern, err := diff.ParsePath(p)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s[%d]: %w", source, i, err))
			continue
		}
		out = append(out, pattern)
	}
	return out, errors.Join(errs...)
}
