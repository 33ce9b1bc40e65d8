package why

import (
	"time"

	"github.com/trueup/trueup/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Ref names an object. Beside kinds of the API, a chain may name a Repository or a Revision.
type Ref struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns "Deployment shop/web".
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Snapshot is all that an explanation is made of. Whoever gathers it has to list, in each namespace of the Application:
// Pods, ReplicaSets, Jobs, PersistentVolumeClaims, ResourceQuotas and Events; and to add the managed objects themselves,
// whole. Nodes, APIServices and what managed custom resources own make the answer better where they are there.
type Snapshot struct {
	Application Application

	// Subject is the object to explain; the zero Ref means the worst of the managed ones.
	Subject Ref

	// Objects are of any kind and in any order; they belong together by owner references and names. They are not changed.
	Objects []*unstructured.Unstructured

	// Judge is the health of an object; nil means health.Of.
	Judge func(*unstructured.Unstructured) health.Result
}

// Application is what the agent knows of the Application whose objects are explained.
type Application struct {
	Namespace, Name string
	RepoURL         string // without credentials
	Chart           string // in RepoURL; "" for Git
	Revision        string
	Fetch           Step
	Verify          Step // of a signature
	Render          Step
	// OutOfSync says what is not as Git declares though nothing keeps it from that but a decision or a policy; "" where
	// nothing is.
	OutOfSync string
	Managed   []Managed // in the order in which they are applied
}

// Step is one step before anything is applied. Without an Error it is done.
type Step struct {
	Error string
	Since time.Time // when it began to fail
}

// Managed is the state of one declared object.
type Managed struct {
	Ref
	Error  string // why it could not be applied, in the API server's words; "" where it was
	Reason string // the API server's reason: Forbidden, Invalid, Conflict …
	Since  time.Time
	Health health.Result
	// Hook is the phase of the sync in which it runs, for a hook that is not done or failed.
	Hook string
}

// Report is the answer.
type Report struct {
	Application string      `json:"application"` // "namespace/name"
	Subject     Ref         `json:"subject,omitzero"`
	Code        health.Code `json:"code"`
	Cause       string      `json:"cause"`            // one sentence: the first loop that is stuck, and why
	Next        string      `json:"next,omitempty"`   // the command to type next
	Chain       []Link      `json:"chain"`            // from the Application down to what is stuck
	Events      []Event     `json:"events"`           // those that matter, oldest first
	Others      []Link      `json:"others,omitempty"` // more managed objects that are not healthy, some of them for the same cause
	Now         time.Time   `json:"now"`
}

// Link is one loop of the chain, or several that are alike.
type Link struct {
	Ref
	Alike     []string  `json:"alike,omitempty"` // the names of all that are in the same state, where there are several
	Condition string    `json:"condition"`
	Notes     []string  `json:"notes,omitempty"` // details: which nodes refuse a pod, and why
	Since     time.Time `json:"since,omitzero"`
	Stuck     bool      `json:"stuck,omitempty"`
}

// Event is a Kubernetes event, or several that say the same of alike objects.
type Event struct {
	Time    time.Time `json:"time"` // when it was seen last
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	About   Ref       `json:"about"`
	Count   int64     `json:"count"`
}
