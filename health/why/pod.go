package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trueup/trueup/health/internal/fields"
)

// A finding is what one pod is stuck in.
type finding struct {
	state string    // what the chain says of the pod: "image pull: ErrImagePull"
	cause string    // what the sentence says, after the pod's name: "cannot pull image …"
	key   string    // what alike pods have in common; the cause where it is empty
	since time.Time // since when, where that is known
	next  string    // the command to type next
	below []Link    // what is further down: a claim, a node
	notes []string  // what else there is to say of it
}

// podChecks are the loops that a pod goes through, in their order; the first that has something to say is where it is stuck.
var podChecks = []func(w *walk, p *object) (finding, bool){
	(*walk).leaving,
	(*walk).failed,
	(*walk).unscheduled,
	(*walk).lostNode,
	(*walk).unmounted,
	(*walk).noSandbox,
	(*walk).noImage,
	(*walk).notCreated,
	(*walk).crashing,
	(*walk).initializing,
	(*walk).probing,
	(*walk).gated,
}

func (w *walk) finding(p *object) finding {
	for _, check := range podChecks {
		if f, ok := check(w, p); ok {
			return f
		}
	}
	return finding{state: p.health.Message, cause: "waits: " + p.health.Message, next: describe(p.Ref)}
}

// pods ends at the pods of owner that are not healthy; those that are stuck alike are said once. total is how many there
// should be.
func (w *walk) pods(owner *object, sick []*object, total int) {
	groups := make(map[string][]*object)
	findings := make(map[string]finding)
	var order []string
	for _, p := range sick {
		f := w.finding(p)
		key := strings.ReplaceAll(cmp.Or(f.key, f.cause), p.Name, "POD")
		if ip := p.status.Str("podIP"); ip != "" {
			key = strings.ReplaceAll(key, ip, "IP")
		}
		if groups[key] == nil {
			order = append(order, key)
			findings[key] = f
		}
		groups[key] = append(groups[key], p)
	}
	biggest := slices.MaxFunc(order, func(a, b string) int { return len(groups[a]) - len(groups[b]) })
	alike, f := groups[biggest], findings[biggest]
	link := w.link(alike[0].Ref, f.since, "%s", f.state)
	link.Notes = f.notes
	subject := alike[0].Ref.String()
	if len(alike) > 1 {
		for _, p := range alike {
			link.Alike = append(link.Alike, p.Name)
		}
		subject = fmt.Sprintf("%d of %d pods of %s", len(alike), total, owner.Ref)
	}
	w.report.Chain = append(w.report.Chain, f.below...)
	w.stuck(f.next, "%s %s%s", subject, plural(f.cause, len(alike)), otherwise(len(sick)-len(alike)))
}

// plural makes a predicate in the singular fit several pods.
func plural(predicate string, n int) string {
	if n > 1 {
		for _, w := range [][2]string{{"is ", "are "}, {"has ", "have "}, {"waits", "wait"}, {"crashes ", "crash "}} {
			if rest, ok := strings.CutPrefix(predicate, w[0]); ok {
				return w[1] + rest
			}
		}
	}
	return predicate
}

func otherwise(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " (1 more pod is not healthy for another reason)"
	}
	return fmt.Sprintf(" (%d more pods are not healthy for other reasons)", n)
}

// leaving is a pod past the time it was given to stop.
func (w *walk) leaving(p *object) (finding, bool) {
	due := p.deleted()
	if due.IsZero() {
		return finding{}, false
	}
	f := finding{state: "being deleted", cause: "is being deleted", since: due, next: describe(p.Ref)}
	if finalizers := join(p.metadata.List("finalizers")); finalizers != "" {
		f.state = "being deleted, finalizers: " + finalizers
		f.cause = "is being deleted and waits for the controllers of its finalizers: " + finalizers
	} else if w.now.After(due.Add(time.Minute)) {
		f.cause = fmt.Sprintf("is being deleted, and its kubelet on node %s has not confirmed it", p.spec.Str("nodeName"))
	}
	return f, true
}

// failed is a pod that has ended and is not started again.
func (w *walk) failed(p *object) (finding, bool) {
	if p.status.Str("phase") != "Failed" {
		return finding{}, false
	}
	for _, c := range containers(p) {
		if t := c.status.At("state", "terminated"); t.Num("exitCode") != 0 {
			f := w.exited(p, c, t)
			f.state = "failed: " + f.state
			return f, true
		}
	}
	said := "failed"
	if reason := p.status.Str("reason"); reason != "" {
		said += " (" + reason + ")"
	}
	if message := p.status.Str("message"); message != "" {
		said += ": " + message
	}
	return finding{state: said, cause: said, next: describe(p.Ref)}, true
}

// lostNode is a pod whose node does not report.
func (w *walk) lostNode(p *object) (finding, bool) {
	node := w.byRef[Ref{Kind: "Node", Name: p.spec.Str("nodeName")}]
	if node == nil || p.spec.Str("nodeName") == "" {
		return finding{}, false
	}
	ready := node.status.Condition("Ready")
	if ready.Status == "" || ready.IsTrue() {
		return finding{}, false
	}
	return finding{
		state: "on a node that is not ready", cause: fmt.Sprintf("is on %s, which is not ready: %s", node.Ref, ready.Text()),
		since: transition(node.status, "Ready"), next: describe(node.Ref),
		below: []Link{{Ref: node.Ref, Condition: ready.Text(), Since: transition(node.status, "Ready")}},
	}, true
}

// noSandbox is a pod whose network could not be set up.
func (w *walk) noSandbox(p *object) (finding, bool) {
	e, ok := w.latest(p.Ref, "", "FailedCreatePodSandBox")
	if !ok || started(p) {
		return finding{}, false
	}
	return finding{
		state: "sandbox: " + e.Reason, cause: "cannot get a sandbox (its network): " + e.Message, since: e.Time, next: describe(p.Ref),
	}, true
}

// gated is a pod whose containers are ready and whose readiness gates are not.
func (w *walk) gated(p *object) (finding, bool) {
	for _, v := range p.spec.List("readinessGates") {
		gate := fields.Of(v).Str("conditionType")
		c := p.status.Condition(gate)
		if c.IsTrue() {
			continue
		}
		said := "nobody has set it"
		if c.Status != "" {
			said = c.Text()
		}
		return finding{
			state: "readiness gate " + gate, cause: fmt.Sprintf("has ready containers and waits for its readiness gate %s: %s", gate, said),
			since: transition(p.status, "Ready"), next: describe(p.Ref),
		}, true
	}
	return finding{}, false
}

// started reports whether any container of the pod runs or has run.
func started(p *object) bool {
	for _, c := range containers(p) {
		if c.status.At("state", "running") != nil || c.status.At("state", "terminated") != nil || c.status.Num("restartCount") > 0 {
			return true
		}
	}
	return false
}
