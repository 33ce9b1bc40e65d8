package health

import (
	"fmt"

	"github.com/trueup/trueup/health/internal/fields"
	"github.com/trueup/trueup/health/words"
)

// gateway judges a Gateway by its own conditions and those of its listeners.
func gateway(_ *Judge, o, status fields.Map) Result {
	worst, ok := byConditions(o, status)
	if !ok {
		return progressing("NotObserved", "waiting for a controller to accept it")
	}
	for _, v := range status.List("listeners") {
		listener := fields.Of(v)
		if r, says := byConditions(o, listener); says && r.Code.WorseThan(worst.Code) {
			worst = r
			worst.Message = fmt.Sprintf("listener %s: %s", listener.Str("name"), r.Message)
		}
	}
	if worst.Code == Healthy {
		return healthy("Programmed", "programmed with %s", words.Count(len(status.List("listeners")), "listener"))
	}
	return worst
}

// byParents judges what attaches to others and has conditions for each of them: a route's status.parents, a policy's
// status.ancestors. ok is false where status has neither.
func byParents(o, status fields.Map) (worst Result, ok bool) {
	list, ref, what := status.List("parents"), "parentRef", "parent"
	if len(list) == 0 {
		list, ref, what = status.List("ancestors"), "ancestorRef", "ancestor"
	}
	for _, v := range list[:min(len(list), fields.MaxParents)] {
		parent := fields.Of(v)
		r, says := byConditions(o, parent)
		if !says || ok && !r.Code.WorseThan(worst.Code) {
			continue
		}
		worst, ok = r, true
		worst.Message = fmt.Sprintf("%s %s: %s", what, parent.At(ref).Str("name"), r.Message)
	}
	worst.Rule = "conditions"
	return worst, ok
}

// route judges the Gateway API's routes: each parent that the spec names has to accept it.
func route(_ *Judge, o, status fields.Map) Result {
	wanted, answered := len(o.At("spec").List("parentRefs")), len(status.List("parents"))
	r, ok := byParents(o, status)
	switch {
	case wanted == 0:
		return healthy("NoParents", "attached to no parent")
	case !ok:
		return progressing("NotObserved", "waiting for %s to accept it", words.Count(wanted, "parent"))
	case r.Code == Healthy && answered < wanted:
		return progressing("ParentsPending", "%d of %d parents accepted it", answered, wanted)
	case r.Code == Healthy:
		return healthy("Accepted", "accepted by %d of %d parents", answered, wanted)
	}
	return r
}
