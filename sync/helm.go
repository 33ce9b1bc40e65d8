package sync

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// helmOptions returns how to render a chart of an Application; h may be nil.
func helmOptions(app *v1alpha1.Application, h *v1alpha1.Helm) (source.Helm, error) {
	if h == nil {
		h = &v1alpha1.Helm{}
	}
	opts := source.Helm{
		ValueFiles: h.ValueFiles, IgnoreMissingValueFiles: h.IgnoreMissingValueFiles, Values: h.Values,
		ReleaseName: cmp.Or(h.ReleaseName, app.Name), Namespace: cmp.Or(h.Namespace, app.Spec.Destination.Namespace),
		KubeVersion: h.KubeVersion, APIVersions: h.APIVersions, SkipCRDs: h.SkipCrds, SkipSchemaValidation: h.SkipSchemaValidation,
	}
	for _, p := range h.Parameters {
		opts.Parameters = append(opts.Parameters, source.HelmParameter(p))
	}
	for _, p := range h.FileParameters {
		opts.FileParameters = append(opts.FileParameters, source.HelmParameter{Name: p.Name, Value: p.Path})
	}
	if h.ValuesObject != nil {
		if err := json.Unmarshal(h.ValuesObject.Raw, &opts.ValuesObject); err != nil {
			return opts, fmt.Errorf("reading helm.valuesObject: %w", err)
		}
	}
	return opts, nil
}

// isCluster reports whether the cluster still is what it was when a chart that asks for it was rendered; digest is "" for
// a chart that does not ask. A cluster that does not answer is taken for what it was.
func (r *reader) isCluster(digest string) bool {
	if digest == "" {
		return true
	}
	served, err := r.kinds.Served()
	return err != nil || served.Digest == digest
}
