package health

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Code is the health of an object or of an Application, in Argo CD's words.
type Code string

const (
	Healthy     Code = "Healthy"     // it does what it was declared to do
	Progressing Code = "Progressing" // not yet, and nothing says that it will not
	Degraded    Code = "Degraded"    // it failed, or will not get there without help
	Suspended   Code = "Suspended"   // somebody paused it on purpose
	Missing     Code = "Missing"     // it is not in the cluster
	Unknown     Code = "Unknown"     // nothing that could be judged, or the rule itself failed
)

// rank orders the codes from best to worst, as Argo CD does.
func (c Code) rank() int {
	switch c {
	case Healthy:
		return 0
	case Suspended:
		return 1
	case Progressing:
		return 2
	case Missing:
		return 3
	case Degraded:
		return 4
	}
	return 5
}

// WorseThan reports whether c is worse than other. A code that this package does not know is as bad as Unknown.
func (c Code) WorseThan(other Code) bool { return c.rank() > other.rank() }

// Worst returns the worst of the codes, and Healthy where there is none:
// Healthy < Suspended < Progressing < Missing < Degraded < Unknown.
func Worst(codes ...Code) Code {
	worst := Healthy
	for _, c := range codes {
		if c.WorseThan(worst) {
			worst = c
		}
	}
	return worst
}

// Result is the health of one object and how it was found.
type Result struct {
	Code    Code   `json:"code"`
	Reason  string `json:"reason"`            // one CamelCase word for programs
	Message string `json:"message,omitempty"` // one sentence for people, with numbers: "1 of 3 replicas ready"
	Rule    string `json:"rule"`              // what decided: "builtin/Deployment", "conditions", "cel/argoproj.io/Rollout"
}

// Of returns the health of obj, judged by the rules that ship with Trueup. A nil object is Missing.
// It neither changes nor keeps obj, never blocks and is safe for concurrent use.
func Of(obj *unstructured.Unstructured) Result { return defaultJudge().Of(obj) }
