package health

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/trueup/trueup/health/internal/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// phaseWords is what the words in status.phase and status.state mean, in lower case without blanks and punctuation.
var phaseWords = func() map[string]Code {
	words := make(map[string]Code)
	for code, list := range map[Code]string{
		Healthy: "accepted active applied available bound complete completed connected created deployed done enabled " +
			"established finished green healthy installed live ok online processed provisioned ready released running succeeded " +
			"success successful synced up uptodate valid",
		Progressing: "deploying inprogress new notready pending progressing queued scheduled setup yellow",
		Degraded: "aborted broken canceled cancelled crashed degraded denied down error errored expired failed failure " +
			"faulted faulty invalid lost offline red rejected timeout timedout unavailable unhealthy unreachable",
		Suspended: "disabled hibernated inactive paused stopped suspended",
		Unknown:   "unknown",
	} {
		for _, w := range strings.Fields(list) {
			words[w] = code
		}
	}
	return words
}()

// byPhase judges by a word in status.phase, status.state or status.status; ok is false where there is none.
func byPhase(status fields.Map) (Result, bool) {
	for _, key := range []string{"phase", "state", "status"} {
		if word := fields.Clip(status.Str(key), fields.MaxWord); word != "" {
			return Result{
				Code: phaseCode(word), Reason: camel(word),
				Message: fmt.Sprintf("status.%s is %s", key, word), Rule: "phase",
			}, true
		}
	}
	return Result{}, false
}

func phaseCode(word string) Code {
	plain := strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' || r == '_' {
			return -1
		}
		return r
	}, strings.ToLower(word))
	if code, ok := phaseWords[plain]; ok {
		return code
	}
	switch {
	case strings.Contains(plain, "fail") || strings.Contains(plain, "error"):
		return Degraded
	case strings.Contains(plain, "ing"): // Creating, ScalingUp, waiting for leader
		return Progressing
	}
	return Unknown
}

// camel makes one CamelCase word of a phase: "Creation failed" is CreationFailed.
func camel(word string) string {
	var b strings.Builder
	start := true
	for _, r := range word {
		if r == ' ' || r == '-' || r == '_' {
			start = true
			continue
		}
		if start {
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		start = false
	}
	return b.String()
}

// byPresence judges an object whose status says nothing that is understood.
func (j *Judge) byPresence(gk schema.GroupKind, status fields.Map) Result {
	if len(status) > 0 {
		return Result{Code: Healthy, Reason: "StatusWritten", Message: "its status names no condition or phase that is known", Rule: "status"}
	}
	declared, known := false, false
	if j.opts.HasStatus != nil {
		declared, known = j.opts.HasStatus(gk)
	}
	r := Result{Code: Unknown, Reason: "NoStatus", Message: "no status, and whether its kind has one is not known", Rule: "no-status"}
	switch {
	case known && declared:
		r.Code, r.Message = Progressing, "waiting for its controller to write a status"
	case known:
		r.Code, r.Message = Healthy, "present; its kind has no status"
	}
	return r
}

// behind is the result for a status that is about an older generation of the object.
func behind(observed, generation int64) Result {
	return Result{
		Code: Progressing, Reason: "GenerationNotObserved", Rule: "observedGeneration",
		Message: fmt.Sprintf("its controller has seen generation %d of %d", observed, generation),
	}
}

// stale returns a result where the status is about an older generation. Some controllers (Flux) raise
// status.observedGeneration only when they are done: a condition that is about the newest generation and says that it
// failed goes first.
func stale(metadata, status fields.Map) (Result, bool) {
	observed, known := fields.Int(status["observedGeneration"])
	generation := metadata.Num("generation")
	if !known || observed >= generation {
		return Result{}, false
	}
	for _, v := range status.Conditions() {
		raw := fields.Of(v)
		if c, valid := fields.ConditionOf(raw); valid && raw.Num("observedGeneration") == generation {
			p, _ := polarityOf(c.Kind)
			if r, says := judgeCondition(c, p, raw, generation); says && r.Code == Degraded {
				r.Rule = "conditions"
				return r, true
			}
		}
	}
	return behind(observed, generation), true
}

// terminating is the result for an object that is being deleted.
func terminating(gk schema.GroupKind, metadata, status fields.Map) Result {
	if gk == (schema.GroupKind{Kind: "Namespace"}) {
		r := namespaceTerminating(status)
		r.Rule = "builtin/Namespace"
		return r
	}
	r := progressing("Terminating", "being deleted")
	if names := joinStrings(metadata.List("finalizers")); names != "" {
		r.Message += ", waiting for finalizers: " + names
	}
	r.Rule = "deletion"
	return r
}

func joinStrings(list []any) string {
	var names []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			names = append(names, s)
		}
	}
	return strings.Join(names, ", ")
}
