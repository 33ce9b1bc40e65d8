package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Application keeps the objects true in the cluster that its sources declare: folders of Git repositories, and charts from
// chart repositories and OCI registries.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=applications,scope=Namespaced,shortName=app;apps,categories=trueup
// +kubebuilder:printcolumn:name="Sync",type=string,JSONPath=`.status.sync.status`
// +kubebuilder:printcolumn:name="Health",type=string,JSONPath=`.status.health.status`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.sync.shortRevision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="an Application's name must fit into a label: at most 63 characters"
type Application struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ApplicationSpec   `json:"spec"`
	Status ApplicationStatus `json:"status,omitempty"`
}

// ApplicationList is a list of Applications.
//
// +kubebuilder:object:root=true
type ApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Application `json:"items"`
}

// ApplicationSpec is what a person declares.
//
// +kubebuilder:validation:XValidation:rule="has(self.source) != has(self.sources)",message="set exactly one of source and sources"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.source.ref)",message="ref is for one of several sources: use it in sources"
type ApplicationSpec struct {
	// Source is where the desired manifests are.
	// +optional
	Source Source `json:"source,omitzero"`
	// Sources are several places that the desired manifests come from together, in place of source. All of them are read
	// before anything of them is used.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(s, !has(s.ref) || self.exists_one(o, has(o.ref) && o.ref == s.ref))",message="each ref must be there once only"
	// +kubebuilder:validation:XValidation:rule="self.exists(s, !has(s.ref) || has(s.path))",message="at least one source must be rendered: one with a path or without a ref"
	Sources []Source `json:"sources,omitempty"`
	// Destination is where they go.
	// +optional
	Destination Destination `json:"destination,omitempty"`
	// SyncPolicy says what happens without a person asking. Without it the agent compares and reports only.
	// +optional
	SyncPolicy *SyncPolicy `json:"syncPolicy,omitempty"`
	// FieldPolicies say what to do about single fields that somebody else owns; the first that matches decides.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	FieldPolicies []FieldPolicy `json:"fieldPolicies,omitempty"`
	// IgnoreDifferences are Argo CD's: each of them means a field policy Yield.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	IgnoreDifferences []IgnoreDifference `json:"ignoreDifferences,omitempty"`
	// HealthRules judge objects of this Application by CEL expressions, before the agent's rules and the shipped ones.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	HealthRules []HealthRule `json:"healthRules,omitempty"`
	// ProgressDeadlineSeconds is how long the Application may be Progressing before its health message says that this
	// takes too long; 600 by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// HealthRule judges the objects of a group and kind by CEL expressions over the variable object. The first of degraded,
// suspended, progressing and healthy that is true decides. Where none is, an object is Progressing if healthy is given;
// else it is judged as if there were no rule.
//
// +kubebuilder:validation:XValidation:rule="has(self.degraded) || has(self.suspended) || has(self.progressing) || has(self.healthy)",message="a health rule needs at least one of degraded, suspended, progressing and healthy"
type HealthRule struct {
	// Group is an API group, "" for the core one; a * at its start stands for anything.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// Kind is one kind, or several separated by commas; a * at its start stands for anything.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Kind string `json:"kind"`
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Degraded string `json:"degraded,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Suspended string `json:"suspended,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Progressing string `json:"progressing,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Healthy string `json:"healthy,omitempty"`
	// Message is an expression that gives the message; without it the object's own status speaks.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// Source is one path at one revision of a Git repository, or one chart of a chart repository or OCI registry.
//
// +kubebuilder:validation:XValidation:rule="has(self.chart) || self.repoURL.matches('^(https?|ssh|git\\\\+ssh|file)://.+') || self.repoURL.matches('^[^:/]+@[^:/]+:.+')",message="repoURL must be an https, http, ssh or file URL, or user@host:path; that of a chart repository or registry needs chart"
// +kubebuilder:validation:XValidation:rule="!has(self.chart) || self.repoURL.matches('^(https?|oci)://.+') || self.repoURL.matches('^[^:/@]+(:[0-9]+)?(/[^:@]*)?$')",message="repoURL must be an https, http or oci URL, or registry/path, where there is a chart"
// +kubebuilder:validation:XValidation:rule="!has(self.chart) || ![has(self.path) && size(self.path) > 0, has(self.ref), has(self.directory), has(self.kustomize), has(self.verify), has(self.submodules)].exists(x, x)",message="a chart is not in Git: path, ref, directory, kustomize, verify and submodules do not go with it"
// +kubebuilder:validation:XValidation:rule="[has(self.directory), has(self.kustomize), has(self.helm)].filter(x, x).size() <= 1",message="a source is a directory, a kustomization or a chart: set only one of directory, kustomize and helm"
type Source struct {
	// RepoURL is the repository: an https, http, ssh or file URL, or user@host:path; for a chart, the https or http URL of a
	// chart repository, or oci://registry/path, or registry/path for the same.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	RepoURL string `json:"repoURL"`
	// Chart is the name of a chart in a chart repository or registry, in place of a path in Git.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`
	Chart string `json:"chart,omitempty"`
	// Path is the folder in the repository, relative to its root; "." or empty is the root.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/')",message="must be relative to the repository's root"
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '..')",message="must not contain '..'"
	Path string `json:"path,omitempty"`
	// TargetRevision is a branch, a tag, a commit, a semver range of tags, or HEAD (the default). For a chart it is a
	// version, a semver range (the highest version that is no prerelease by default) or version@sha256:digest, in a registry
	// also a tag or sha256:digest.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	TargetRevision string `json:"targetRevision,omitempty"`
	// SecretRef names a Secret beside the Application with the repository's credentials: username and password,
	// bearerToken, identity and known_hosts, a GitHub App's githubAppID, githubAppInstallationID and githubAppPrivateKey,
	// ca.crt, proxy or insecureOCIForceHttp. Without it the agent's credential templates are asked: Secrets in its namespace with the label
	// trueup.dev/secret-type: repo-creds, whose key url is a prefix of the repository's.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
	// Directory has options for a folder of plain manifests.
	// +optional
	Directory *Directory `json:"directory,omitempty"`
	// Kustomize has overrides for a kustomization.
	// +optional
	Kustomize *Kustomize `json:"kustomize,omitempty"`
	// Helm has options for a chart.
	// +optional
	Helm *Helm `json:"helm,omitempty"`
	// Ref is the name by which others of the sources refer to files of this one, as in $values/prod.yaml. A source with a
	// ref is rendered only if it has a path too.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	Ref string `json:"ref,omitempty"`
	// Verify refuses commits and tags that nobody signed who may; the last good revision runs on.
	// +optional
	Verify *Verify `json:"verify,omitempty"`
	// Submodules says whether submodules are fetched; they are by default. Their servers must be that of the repository,
	// one that credentials are for, or one that the agent's setting submodule-hosts allows.
	// +optional
	Submodules *bool `json:"submodules,omitempty"`
	// PostBuild replaces variables in what was rendered, as Flux does.
	// +optional
	PostBuild *PostBuild `json:"postBuild,omitempty"`
	// Decryption opens the files of the repository that are encrypted with SOPS. Without it such a file is an error.
	// +optional
	Decryption *Decryption `json:"decryption,omitempty"`
}

// DecryptionProvider says by what files are encrypted.
//
// +kubebuilder:validation:Enum=sops
type DecryptionProvider string

// Decryption says how encrypted files are opened.
type Decryption struct {
	Provider DecryptionProvider `json:"provider"`
	// SecretRef names a Secret beside the Application with the private keys: age identities in keys that end with .agekey,
	// PGP keys in keys that end with .asc.
	SecretRef SecretReference `json:"secretRef"`
}

// VerifyMode says what must be signed.
//
// +kubebuilder:validation:Enum=HEAD;Tag;TagAndHEAD
type VerifyMode string

// Verify says what must be signed, and by whom.
type Verify struct {
	// Mode is HEAD (the commit), Tag (the annotated tag that targetRevision names) or TagAndHEAD (both).
	// +optional
	// +kubebuilder:default=HEAD
	Mode VerifyMode `json:"mode,omitempty"`
	// SecretRef names a Secret beside the Application with the public keys of those who may sign: SSH keys in the key
	// allowed_signers, as ssh-keygen reads it; armored PGP keys in all other keys.
	SecretRef SecretReference `json:"secretRef"`
}

// PostBuild replaces variables, ${name}, in what was rendered. A variable that is not set and has no default is an error;
// $${ stands for ${. Objects with the annotation kustomize.toolkit.fluxcd.io/substitute: disabled are left as they are.
//
// +kubebuilder:validation:XValidation:rule="has(self.substitute) || has(self.substituteFrom)",message="set substitute or substituteFrom"
type PostBuild struct {
	// Substitute are variables and their values; they win over those of substituteFrom.
	// +optional
	// +kubebuilder:validation:MaxProperties=500
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",message="a variable's name has letters, digits and _ only, and does not begin with a digit"
	Substitute map[string]string `json:"substitute,omitempty"`
	// SubstituteFrom are ConfigMaps and Secrets beside the Application with further variables; later ones win. They are
	// read anew with each look at the repository.
	// +optional
	// +kubebuilder:validation:MaxItems=20
	SubstituteFrom []SubstituteReference `json:"substituteFrom,omitempty"`
}

// SubstituteReference names a ConfigMap or Secret whose keys are variables.
type SubstituteReference struct {
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Optional takes one that is not there for empty.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// SecretReference names a Secret in the Application's namespace.
type SecretReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Directory has options for a folder of plain manifests.
type Directory struct {
	// Recurse also reads the folders below.
	// +optional
	Recurse bool `json:"recurse,omitempty"`
	// Include reads only files that match this glob; {a,b} gives alternatives.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Include string `json:"include,omitempty"`
	// Exclude leaves out files that match this glob; it wins over Include.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Exclude string `json:"exclude,omitempty"`
	// Jsonnet has options for the Jsonnet files in the folder.
	// +optional
	Jsonnet *Jsonnet `json:"jsonnet,omitempty"`
}

// Jsonnet has options for Jsonnet files. Each evaluates to an object or a list of objects.
type Jsonnet struct {
	// ExtVars are the variables of std.extVar.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ExtVars []JsonnetVar `json:"extVars,omitempty"`
	// TLAs are top-level arguments: what a file that is a function is called with.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	TLAs []JsonnetVar `json:"tlas,omitempty"`
	// Libs are folders in which imports are looked for, relative to the repository's root.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Libs []string `json:"libs,omitempty"`
}

// JsonnetVar is a variable of Jsonnet files.
type JsonnetVar struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=65536
	Value string `json:"value"`
	// Code says that the value is Jsonnet; else it is a string.
	// +optional
	Code bool `json:"code,omitempty"`
}

// Kustomize has overrides that are put on top of the kustomization in the repository.
type Kustomize struct {
	// Images override image names, tags and digests, as [OLD=]NEW[:TAG|@DIGEST].
	// +optional
	// +kubebuilder:validation:MaxItems=200
	Images []string `json:"images,omitempty"`
	// +optional
	NamePrefix string `json:"namePrefix,omitempty"`
	// +optional
	NameSuffix string `json:"nameSuffix,omitempty"`
	// +optional
	CommonLabels map[string]string `json:"commonLabels,omitempty"`
	// LabelWithoutSelector puts CommonLabels on objects only, not into selectors.
	// +optional
	LabelWithoutSelector bool `json:"labelWithoutSelector,omitempty"`
	// LabelIncludeTemplates also puts them into pod templates when LabelWithoutSelector is set.
	// +optional
	LabelIncludeTemplates bool `json:"labelIncludeTemplates,omitempty"`
	// +optional
	CommonAnnotations map[string]string `json:"commonAnnotations,omitempty"`
	// Namespace is set on every namespaced object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=200
	Replicas []KustomizeReplica `json:"replicas,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=200
	Patches []KustomizePatch `json:"patches,omitempty"`
	// Components are folders with a kustomize Component, relative to the source's path.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Components []string `json:"components,omitempty"`
}

// KustomizeReplica overrides the replica count of a workload.
type KustomizeReplica struct {
	Name string `json:"name"`
	// +kubebuilder:validation:XIntOrString
	Count intstr.IntOrString `json:"count"`
}

// KustomizePatch is one patch, inline or in a file of the repository.
type KustomizePatch struct {
	// +optional
	Path string `json:"path,omitempty"`
	// +optional
	Patch string `json:"patch,omitempty"`
	// +optional
	Target *KustomizeSelector `json:"target,omitempty"`
	// +optional
	Options map[string]bool `json:"options,omitempty"`
}

// KustomizeSelector selects the objects that a patch is for.
type KustomizeSelector struct {
	// +optional
	Group string `json:"group,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
	// +optional
	AnnotationSelector string `json:"annotationSelector,omitempty"`
}

// Destination is where objects go; the cluster is always the one the agent runs against.
type Destination struct {
	// Namespace is for namespaced objects that name none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// SyncPolicy says what happens without a person asking.
type SyncPolicy struct {
	// Automated syncs each new revision. Without it a sync must be asked for.
	// +optional
	Automated *Automated `json:"automated,omitempty"`
	// SyncOptions are CreateNamespace=true (make the destination namespace) and Adopt=true (take over objects that
	// another tool or Application claims).
	// +optional
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:Enum=CreateNamespace=true;CreateNamespace=false;Adopt=true;Adopt=false;ServerSideApply=true
	SyncOptions []string `json:"syncOptions,omitempty"`
	// Retry bounds how a failed sync is tried again; by default without end, from 5 seconds up to 3 minutes apart.
	// +optional
	Retry *Retry `json:"retry,omitempty"`
}

// Automated says what is done without a person asking.
type Automated struct {
	// Enabled switches all of it off when false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// Prune deletes objects that are no longer in Git.
	// +optional
	Prune bool `json:"prune,omitempty"`
	// SelfHeal puts back what others change in the cluster.
	// +optional
	SelfHeal bool `json:"selfHeal,omitempty"`
	// AllowEmpty lets a revision without any object prune everything.
	// +optional
	AllowEmpty bool `json:"allowEmpty,omitempty"`
}

// Retry bounds how a failed sync is tried again.
type Retry struct {
	// Limit is how often; negative is without end, 0 never.
	// +optional
	Limit *int64 `json:"limit,omitempty"`
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`
}

// Backoff is the wait between two tries.
type Backoff struct {
	// Duration is the first wait.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Duration string `json:"duration,omitempty"`
	// Factor multiplies each next wait.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Factor *int64 `json:"factor,omitempty"`
	// MaxDuration is the longest wait.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	MaxDuration string `json:"maxDuration,omitempty"`
}

// Policy is what to do about a declared field that somebody else owns.
//
// +kubebuilder:validation:Enum=Enforce;Yield;Hold;CreateOnly
type Policy string

const (
	// PolicyEnforce puts Git's value back.
	PolicyEnforce Policy = "Enforce"
	// PolicyYield leaves the field to its owner and counts as in sync.
	PolicyYield Policy = "Yield"
	// PolicyHold touches nothing and shows the Application OutOfSync.
	PolicyHold Policy = "Hold"
	// PolicyCreateOnly sets the field when the object is created and never again.
	PolicyCreateOnly Policy = "CreateOnly"
)

// FieldPolicy selects fields of objects by globs; an empty selector matches everything.
type FieldPolicy struct {
	// +optional
	Group *string `json:"group,omitempty"`
	// +optional
	Kind string `json:"kind,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Paths are field paths as managed fields write them (.spec.replicas, .spec.containers[name="web"].image) or JSON
	// pointers (/spec/replicas); a path covers all below it, * stands for one element.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Paths []string `json:"paths,omitempty"`
	// Managers are globs of field managers.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Managers []string `json:"managers,omitempty"`
	// Policy is what to do about them.
	Policy Policy `json:"policy"`
}

// IgnoreDifference is Argo CD's way to say that a field is somebody else's.
type IgnoreDifference struct {
	// +optional
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=100
	JSONPointers []string `json:"jsonPointers,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=100
	JQPathExpressions []string `json:"jqPathExpressions,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ManagedFieldsManagers []string `json:"managedFieldsManagers,omitempty"`
}
