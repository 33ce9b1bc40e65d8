package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SyncCode says whether the cluster is what Git declares.
type SyncCode string

const (
	Synced      SyncCode = "Synced"
	OutOfSync   SyncCode = "OutOfSync"
	SyncUnknown SyncCode = "Unknown"
)

// Condition types of an Application.
const (
	// ConditionReady sums up: the Application is Synced and Healthy.
	ConditionReady = "Ready"
	// ConditionFetched says whether the repository can be read.
	ConditionFetched = "Fetched"
	// ConditionRendered says whether the newest revision gives a list of objects.
	ConditionRendered = "Rendered"
	// ConditionApplied says whether the last sync went through.
	ConditionApplied = "Applied"
	// ConditionVerified says whether the newest revision is signed by somebody who may; it is there while a source has
	// verify. The name is Flux's.
	ConditionVerified = "SourceVerified"
	// ConditionHealthRules says whether spec.healthRules can be used; it is there while there are some.
	ConditionHealthRules = "HealthRules"
)

// ReasonDeleting is the reason of ConditionReady while an Application waits for its objects to be pruned before it goes away.
const ReasonDeleting = "Deleting"

// Reasons of ConditionApplied that hooks give it.
const (
	// ReasonHookFailed says that a hook has made the sync fail, and that only a change or a person brings the next try.
	ReasonHookFailed = "HookFailed"
	// ReasonWaitingForHooks says that the sync waits for a hook, or a hook for the sync.
	ReasonWaitingForHooks = "WaitingForHooks"
)

// Bounds of the lists in a status, so that an Application stays small however many objects it has.
const (
	MaxResources = 50
	MaxDrift     = 20
	MaxHistory   = 10
	MaxHooks     = 50
)

// ApplicationStatus is what the agent reports; it is written only when it changes.
type ApplicationStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +optional
	Sync SyncStatus `json:"sync,omitempty"`
	// +optional
	Health HealthStatus `json:"health,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Objects counts the objects of the Application by state.
	// +optional
	Objects ObjectCounts `json:"objects,omitempty"`
	// Resources are the objects that are not Synced and Healthy, the worst first, at most 50.
	// +optional
	Resources []ResourceStatus `json:"resources,omitempty"`
	// ResourcesOmitted counts what Resources leaves out.
	// +optional
	ResourcesOmitted int `json:"resourcesOmitted,omitempty"`
	// Drift are declared fields that somebody else owns, at most 20.
	// +optional
	Drift []FieldDrift `json:"drift,omitempty"`
	// DriftOmitted counts what Drift leaves out.
	// +optional
	DriftOmitted int `json:"driftOmitted,omitempty"`
	// Kinds are the kinds of the objects of this Application: where to look for what is no longer in Git.
	// +optional
	Kinds []KindReference `json:"kinds,omitempty"`
	// OperationState is the sync that runs or ran last.
	// +optional
	OperationState *OperationState `json:"operationState,omitempty"`
	// History are the last syncs that changed something, the newest first, at most 10.
	// +optional
	History []SyncRecord `json:"history,omitempty"`
	// Hooks are the hooks of the sync that runs, or of the last that had any: what has run is not run again for the same sync.
	// +optional
	Hooks *HooksStatus `json:"hooks,omitempty"`
	// LastRequest is how the last sync that a person asked for ended.
	// +optional
	LastRequest *RequestStatus `json:"lastRequest,omitempty"`
	// ObservedRefresh is the last refresh request that was answered.
	// +optional
	ObservedRefresh string `json:"observedRefresh,omitempty"`
}

// SyncStatus says whether the cluster is what Git declares.
type SyncStatus struct {
	// +optional
	Status SyncCode `json:"status,omitempty"`
	// Revision is the commit compared with; of a chart it is version@sha256:digest; of several sources that of the first.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Revisions are the commits of several sources, in the order of spec.sources.
	// +optional
	Revisions []string `json:"revisions,omitempty"`
	// ShortRevision is its first seven characters; of a chart it is the version.
	// +optional
	ShortRevision string `json:"shortRevision,omitempty"`
	// SyncedRevision is the commit of the last sync that went through whole.
	// +optional
	SyncedRevision string `json:"syncedRevision,omitempty"`
	// SyncedRevisions are the commits of several sources at that sync.
	// +optional
	SyncedRevisions []string `json:"syncedRevisions,omitempty"`
	// SyncedSource is a digest of the source options of that sync, and of the versions of what its variables are from.
	// +optional
	SyncedSource string `json:"syncedSource,omitempty"`
	// SyncedState is a digest of what that sync brought, hooks included. Hooks run for a revision that brings another.
	// +optional
	SyncedState string `json:"syncedState,omitempty"`
	// SyncedObjects is the number of objects after that sync, if no prune was held back then: the prune budget is a part of it.
	// +optional
	SyncedObjects int `json:"syncedObjects,omitempty"`
	// FailedRevision is a newer commit that could not be verified, rendered or applied; Revision runs on.
	// +optional
	FailedRevision string `json:"failedRevision,omitempty"`
	// Signatures say who signed the revision compared with, for each source that has verify.
	// +optional
	Signatures []SignatureStatus `json:"signatures,omitempty"`
}

// SignatureStatus says who signed the revision of a source.
type SignatureStatus struct {
	// Source is which of several sources it is, as sources[1].
	// +optional
	Source string `json:"source,omitempty"`
	// Mode is what was verified: HEAD, Tag or TagAndHEAD.
	Mode VerifyMode `json:"mode"`
	// Signer is who signed it, and with which key.
	Signer string `json:"signer"`
}

// HealthStatus is the worst health among the objects.
type HealthStatus struct {
	// Status is Healthy, Progressing, Degraded, Suspended, Missing or Unknown.
	// +optional
	Status string `json:"status,omitempty"`
	// Message names the object that decided it and why.
	// +optional
	Message string `json:"message,omitempty"`
	// LastTransitionTime is when Status last changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// ObjectCounts counts objects by state.
type ObjectCounts struct {
	Total       int `json:"total,omitempty"`
	Synced      int `json:"synced,omitempty"`
	OutOfSync   int `json:"outOfSync,omitempty"`
	Missing     int `json:"missing,omitempty"`
	Extra       int `json:"extra,omitempty"`
	Unknown     int `json:"unknown,omitempty"`
	Healthy     int `json:"healthy,omitempty"`
	Progressing int `json:"progressing,omitempty"`
	Degraded    int `json:"degraded,omitempty"`
	Suspended   int `json:"suspended,omitempty"`
}

// ObjectReference names one object.
type ObjectReference struct {
	// +optional
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// KindReference names one kind by the version it is applied in.
type KindReference struct {
	// +optional
	Group   string `json:"group,omitempty"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// ResourceStatus is the state of one object.
type ResourceStatus struct {
	ObjectReference `json:",inline"`
	// Sync is Synced, OutOfSync or Unknown.
	Sync SyncCode `json:"sync"`
	// +optional
	Health string `json:"health,omitempty"`
	// Reason is one CamelCase word: Missing, Changed, Drifted, Extra, Refused, Rejected, Terminating …
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// FieldDrift is one declared field that somebody else owns, or one extra field that a person's tool added.
type FieldDrift struct {
	ObjectReference `json:",inline"`
	// Path is the field, as managed fields write it.
	Path string `json:"path"`
	// Manager is the field manager that took it; empty when the field was removed, or the manager is not known.
	// +optional
	Manager string `json:"manager,omitempty"`
	// +optional
	Operation string `json:"operation,omitempty"`
	// +optional
	Subresource string `json:"subresource,omitempty"`
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// Decision is Enforce, Yield or Hold.
	Decision string `json:"decision"`
	// Reason is a sentence for a person.
	// +optional
	Reason string `json:"reason,omitempty"`
	// HeldUntil says until when a contested field is left alone.
	// +optional
	HeldUntil *metav1.Time `json:"heldUntil,omitempty"`
	// Times counts how often a contested field was put back.
	// +optional
	Times int `json:"times,omitempty"`
}

// HooksStatus is one run of hooks, which belongs to one sync.
type HooksStatus struct {
	// Run tells one run from the next; the annotation trueup.dev/hook-run of the objects made in it begins with it.
	Run string `json:"run"`
	// State is a digest of what the sync brings, hooks included.
	State string `json:"state"`
	// Input is a digest of the revisions, the source and the variables. What comes of the same input is the same sync, also
	// where a chart renders to something else since the cluster serves other kinds.
	Input string `json:"input"`
	// Request is the ID of the SyncRequest that it answers.
	// +optional
	Request string `json:"request,omitempty"`
	// Phase is Running, Succeeded or Failed. One that Failed runs again when Git, the source or the variables change, or
	// when a person asks for a sync.
	Phase Phase `json:"phase"`
	// +optional
	Message   string      `json:"message,omitempty"`
	StartedAt metav1.Time `json:"startedAt"`
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// Hooks are those that have begun, in that order, at most 50.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	Hooks []HookStatus `json:"hooks,omitempty"`
}

// HookStatus is how one hook of a run stands. It is written before the hook's object is made.
type HookStatus struct {
	ObjectReference `json:",inline"`
	// Phase is PreSync, Sync, PostSync or SyncFail.
	Phase string `json:"phase"`
	// State is Running, Succeeded or Failed.
	State Phase `json:"state"`
	// UID is that of the object, once it was made.
	// +optional
	UID string `json:"uid,omitempty"`
	// +optional
	Message   string      `json:"message,omitempty"`
	StartedAt metav1.Time `json:"startedAt"`
	// Deadline is when the hook counts as failed if it is not done by then.
	Deadline metav1.Time `json:"deadline"`
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// Phase of a sync.
type Phase string

const (
	PhaseRunning   Phase = "Running"
	PhaseSucceeded Phase = "Succeeded"
	PhaseFailed    Phase = "Failed"
)

// OperationState is the sync that runs or ran last.
type OperationState struct {
	Phase Phase `json:"phase"`
	// ID is the SyncRequest's, when a person asked for it.
	// +optional
	ID string `json:"id,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	Revision  string      `json:"revision,omitempty"`
	StartedAt metav1.Time `json:"startedAt"`
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// Retries counts the tries of the same revision that failed before this one.
	// +optional
	Retries int64 `json:"retries,omitempty"`
}

// RequestStatus is how a sync that a person asked for ended.
type RequestStatus struct {
	// ID is the SyncRequest's.
	ID    string `json:"id"`
	Phase Phase  `json:"phase"`
	// +optional
	Message    string      `json:"message,omitempty"`
	FinishedAt metav1.Time `json:"finishedAt"`
}

// SyncRecord is one sync that changed something.
type SyncRecord struct {
	Revision string `json:"revision"`
	// Revisions are the commits of several sources.
	// +optional
	Revisions  []string    `json:"revisions,omitempty"`
	StartedAt  metav1.Time `json:"startedAt"`
	FinishedAt metav1.Time `json:"finishedAt"`
	// InitiatedBy is "automated", "self-heal" or who asked.
	InitiatedBy string `json:"initiatedBy"`
	// Result is Succeeded or Failed.
	Result  Phase `json:"result"`
	Created int   `json:"created,omitempty"`
	Updated int   `json:"updated,omitempty"`
	Healed  int   `json:"healed,omitempty"`
	Pruned  int   `json:"pruned,omitempty"`
	Failed  int   `json:"failed,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}
