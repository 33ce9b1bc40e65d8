package v1alpha1

import "k8s.io/apimachinery/pkg/runtime"

// Helm has options for a chart, as Argo CD names them. Of what sets the same value, the later of valueFiles, values,
// valuesObject, parameters and fileParameters wins.
type Helm struct {
	// ValueFiles are relative to the chart, or to the repository's root if they begin with a slash, or $ref/path in another
	// of the sources; globs are allowed.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ValueFiles []string `json:"valueFiles,omitempty"`
	// IgnoreMissingValueFiles leaves out those that are not there.
	// +optional
	IgnoreMissingValueFiles bool `json:"ignoreMissingValueFiles,omitempty"`
	// Values is YAML.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	Values string `json:"values,omitempty"`
	// ValuesObject are values in place of Values.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	ValuesObject *runtime.RawExtension `json:"valuesObject,omitempty"`
	// Parameters set single values, as --set does.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	Parameters []HelmParameter `json:"parameters,omitempty"`
	// FileParameters set single values to the content of files, as --set-file does.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	FileParameters []HelmFileParameter `json:"fileParameters,omitempty"`
	// ReleaseName is the Application's name by default.
	// +optional
	// +kubebuilder:validation:MaxLength=53
	ReleaseName string `json:"releaseName,omitempty"`
	// Namespace is what templates find in .Release.Namespace; the destination's by default.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// KubeVersion is what templates find in .Capabilities.KubeVersion; the cluster's by default.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	KubeVersion string `json:"kubeVersion,omitempty"`
	// APIVersions are what templates find in .Capabilities.APIVersions besides Helm's own list; by default there is what the
	// cluster serves and nothing else.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	APIVersions []string `json:"apiVersions,omitempty"`
	// SkipCrds leaves out what is in the folders crds.
	// +optional
	SkipCrds bool `json:"skipCrds,omitempty"`
	// SkipSchemaValidation does not check values against values.schema.json.
	// +optional
	SkipSchemaValidation bool `json:"skipSchemaValidation,omitempty"`
	// SkipTests is understood and changes nothing: tests are always left out.
	// +optional
	SkipTests bool `json:"skipTests,omitempty"`
	// PassCredentials sends the credentials of a chart repository to other hosts too, where its index says that charts are
	// there.
	// +optional
	PassCredentials bool `json:"passCredentials,omitempty"`
}

// HelmParameter sets one value.
type HelmParameter struct {
	// Name is a path, as in --set: image.tag, hosts[0].
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +optional
	Value string `json:"value,omitempty"`
	// ForceString makes it a string also where it looks like a number or boolean.
	// +optional
	ForceString bool `json:"forceString,omitempty"`
}

// HelmFileParameter sets one value to the content of a file.
type HelmFileParameter struct {
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Path is relative to the chart, as in valueFiles.
	// +kubebuilder:validation:MinLength=1
	Path string `json:"path"`
}
