package sync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/itchyny/gojq"

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
		if len(d.JQPathExpressions) > 0 {
			byQuery := base
			byQuery.Select, err = queries(source+".jqPathExpressions", d.JQPathExpressions)
			errs = append(errs, err)
			policies = append(policies, byQuery)
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

// queries compiles jq path expressions; what it returns tells the paths that they select in a configuration.
func queries(source string, expressions []string) (func(map[string]any) []diff.PathPattern, error) {
	var compiled []*gojq.Code
	var errs []error
	for i, e := range expressions {
		query, err := gojq.Parse("[path(" + e + ")]")
		if err == nil {
			var code *gojq.Code
			if code, err = gojq.Compile(query); err == nil {
				compiled = append(compiled, code)
				continue
			}
		}
		errs = append(errs, fmt.Errorf("%s[%d]: %q: %w", source, i, e, err))
	}
	return func(config map[string]any) []diff.PathPattern {
		var out []diff.PathPattern
		for _, code := range compiled {
			out = append(out, selectedPaths(code, config)...)
		}
		return out
	}, errors.Join(errs...)
}

// queryTime bounds one jq expression: it is a program that a person wrote.
const queryTime = time.Second

// selectedPaths runs a query. One that fails, as on an object without the field, selects nothing.
func selectedPaths(code *gojq.Code, config map[string]any) []diff.PathPattern {
	ctx, cancel := context.WithTimeout(context.Background(), queryTime)
	defer cancel()
	result, ok := code.RunWithContext(ctx, jqValue(config)).Next()
	paths, isList := result.([]any)
	if !ok || !isList {
		return nil
	}
	var out []diff.PathPattern
	for _, p := range paths {
		parts := []string{}
		elements, _ := p.([]any)
		for _, element := range elements {
			parts = append(parts, fmt.Sprint(element))
		}
		out = append(out, diff.PointerPattern(parts...))
	}
	return out
}

// jqValue copies a value with the numbers as gojq wants them.
func jqValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = jqValue(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = jqValue(x)
		}
		return out
	case int64:
		return int(v)
	}
	return v
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
