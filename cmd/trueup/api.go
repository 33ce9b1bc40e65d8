package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/deploy"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// ensureAPI installs the CustomResourceDefinition of Applications, or brings the one that is there up to this version.
func (cl *cluster) ensureAPI(ctx context.Context) error {
	crd, err := deploy.CRD()
	if err != nil {
		return err
	}
	unknown, err := cl.ensureDefinition(ctx, crd)
	if len(unknown) > 0 {
		slog.Warn(`the API of Applications in this cluster is older than this agent and cannot be upgraded: what it does not know is lost from every Application and its status; let an administrator run "trueup install" with this version`,
			"unknown", strings.Join(unknown, ", "), "reason", err)
		return nil
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsConflict(err) {
		return err
	}
	gvk := v1alpha1.ApplicationKind
	if _, mappingErr := cl.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); mappingErr != nil {
		return fmt.Errorf(`the API of Applications is missing, and may not be installed: let an administrator run "trueup install": %w`, err)
	}
	slog.Info("using the API of Applications that is there", "reason", err)
	return nil
}

// ensureDefinition applies crd where it is missing or is not newer than crd. Beside the error that kept it from that it
// returns the fields that the definition which is there lacks: the API server drops these from every object that it is
// sent, without a word.
func (cl *cluster) ensureDefinition(ctx context.Context, crd *unstructured.Unstructured) (unknown []string, err error) {
	client, err := cl.client(crd)
	if err != nil {
		return nil, err
	}
	live, err := client.Get(ctx, crd.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", describeObject(crd), err)
	}
	missing := missingFields(crd, live)
	if live != nil && len(missing) == 0 && len(missingFields(live, crd)) > 0 {
		return nil, nil // newer than this program
	}
	if err := cl.applyAPI(ctx, crd, live); err != nil {
		if live == nil {
			missing = nil
		}
		return missing, err
	}
	return nil, cl.waitEstablished(ctx, crd.GetName())
}

// applyAPI applies crd as whoever of Trueup's own managers has applied live, and takes fields by force from these
// managers only.
func (cl *cluster) applyAPI(ctx context.Context, crd, live *unstructured.Unstructured) error {
	how := metav1.ApplyOptions{FieldManager: agentManager}
	if live != nil && slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == installManager }) {
		how.FieldManager = installManager
	}
	_, err := cl.applyObject(ctx, crd, how)
	conflicts := apply.FieldConflicts(err)
	if len(conflicts) == 0 || slices.ContainsFunc(conflicts, func(c apply.FieldConflict) bool { return c.Manager != agentManager && c.Manager != installManager }) {
		return err
	}
	how.Force = true
	_, err = cl.applyObject(ctx, crd, how)
	return err
}

// missingFields returns the fields that the schema of one definition has and that of another lacks, sorted; of a field
// that is missing as a whole only its own name. A definition that is nil has none.
func missingFields(has, lacks *unstructured.Unstructured) []string {
	var missing []string
	var compare func(path string, a, b map[string]any)
	compare = func(path string, a, b map[string]any) {
		below, _, _ := unstructured.NestedMap(a, "properties")
		other, _, _ := unstructured.NestedMap(b, "properties")
		for name, schema := range below {
			s, _ := schema.(map[string]any)
			if o, ok := other[name].(map[string]any); ok {
				compare(path+"."+name, s, o)
			} else {
				missing = append(missing, path+"."+name)
			}
		}
		for _, list := range []string{"items", "additionalProperties"} {
			s, ok := a[list].(map[string]any)
			if o, both := b[list].(map[string]any); ok && both {
				compare(path+"[]", s, o)
			}
		}
	}
	for version, schema := range schemas(has) {
		compare("", schema, schemas(lacks)[version])
	}
	slices.Sort(missing)
	return missing
}

// schemas are the schemas of a CustomResourceDefinition by version.
func schemas(crd *unstructured.Unstructured) map[string]map[string]any {
	all := map[string]map[string]any{}
	if crd == nil {
		return all
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _, _ := unstructured.NestedString(version, "name")
		all[name], _, _ = unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	}
	return all
}
