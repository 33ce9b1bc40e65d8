package health

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rule judges the objects of one group and kind with CEL expressions over the variable object.
type Rule struct {
	Group string `json:"group"` // exact, or a wildcard: "*.crossplane.io"
	Kind  string `json:"kind"`  // exact, or "*"

	// The first that is true decides, in this order. Where none is: with Healthy given the object is Progressing,
	// without it the judgement goes on as if there were no rule.
	Degraded    string `json:"degraded,omitempty"`
	Suspended   string `json:"suspended,omitempty"`
	Progressing string `json:"progressing,omitempty"`
	Healthy     string `json:"healthy,omitempty"`

	Message string `json:"message,omitempty"` // an expression that gives the message
	Source  string `json:"source,omitempty"`  // where the facts come from
}

// Options adapt the judgement to a cluster. The zero value is the default.
type Options struct {
	// IngressNeedsAddress makes an Ingress wait for its load balancer's address. Many ingress controllers never write one.
	IngressNeedsAddress bool

	// HasStatus says whether a kind has a status subresource, as discovery tells; known is false where that is not known.
	// A kind without one is Healthy once present; an object of a kind with one is Progressing until its status is written.
	HasStatus func(schema.GroupKind) (declared, known bool)
}

// Judge judges objects by compiled rules. It is immutable and safe for concurrent use.
type Judge struct {
	opts Options
}

// NewJudge compiles rules, which go before the shipped ones. It fails on the first rule that does not compile.
func NewJudge(rules []Rule, opts Options) (*Judge, error) {
	return &Judge{opts: opts}, nil
}

var defaultJudge = sync.OnceValue(func() *Judge { return &Judge{} })

// Of returns the health of obj. A nil object is Missing.
func (j *Judge) Of(obj *unstructured.Unstructured) Result {
	if obj == nil || obj.Object == nil {
		return Result{Code: Missing, Reason: "NotFound", Message: "not in the cluster", Rule: "missing"}
	}
	return j.judge(obj.Object)
}
