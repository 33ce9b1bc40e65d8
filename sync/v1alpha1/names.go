package v1alpha1

// Names that Trueup writes into a cluster.
const (
	// FieldManager is the server-side apply field manager of everything that Trueup applies.
	FieldManager = "trueup"
	// ReleasedManager takes over a field whose value must outlive its line in Git, such as spec.replicas.
	ReleasedManager = "trueup-released"

	// LabelApp is on every managed object: the name of its Application.
	LabelApp = "trueup.dev/app"
	// AnnotationTracking names the Application and the object itself, so that a copy is not taken for the original.
	AnnotationTracking = "trueup.dev/tracking"
	// AnnotationApplied holds digests of the configuration last applied and of the field set it gave us.
	AnnotationApplied = "trueup.dev/applied"

	// AnnotationHookRun, on the object of a hook, says in which run and phase it was made. Such an object is neither
	// compared with Git nor pruned.
	AnnotationHookRun = "trueup.dev/hook-run"

	// AnnotationPrune, on a managed object, says "confirm" (a person allows to prune an object of a kind that holds
	// data) or "disabled" (never prune it).
	AnnotationPrune = "trueup.dev/prune"
	PruneConfirm    = "confirm"
	PruneDisabled   = "disabled"

	// AnnotationYield, on an object in Git, lists field paths that are left to whoever owns them, separated by commas.
	AnnotationYield = "trueup.dev/yield"

	// AnnotationSync, on an Application, asks for one sync: a SyncRequest as JSON.
	AnnotationSync = "trueup.dev/sync"
	// AnnotationRefresh, on an Application, asks to look at Git now; any new value counts as a new request.
	AnnotationRefresh = "trueup.dev/refresh"

	// LabelSecretType, with the value SecretTypeRepoCreds, makes a Secret in the agent's namespace a credential template:
	// its credentials are for all repositories whose URL begins with its key url.
	LabelSecretType     = "trueup.dev/secret-type"
	SecretTypeRepoCreds = "repo-creds"

	// FinalizerCascade, on an Application, prunes its objects before the Application itself goes away.
	FinalizerCascade = "trueup.dev/cascade"
)

// SyncRequest is the value of AnnotationSync.
type SyncRequest struct {
	// ID tells one request from the next; the agent answers with status.operationState.id.
	ID string `json:"id"`
	// By says who asked, for the history.
	By string `json:"by,omitempty"`
	// Prune also prunes what is no longer in Git, whatever syncPolicy says, and lifts the prune budget.
	Prune bool `json:"prune,omitempty"`
}
