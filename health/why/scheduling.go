package why

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trueup/trueup/health/internal/fields"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxNodes is how many nodes that refuse a pod are named.
const maxNodes = 5

// unscheduled is a pod without a node.
func (w *walk) unscheduled(p *object) (finding, bool) {
	c := p.status.Condition("PodScheduled")
	if p.spec.Str("nodeName") != "" || c.IsTrue() {
		return finding{}, false
	}
	since := transition(p.status, "PodScheduled")
	if gates := p.spec.List("schedulingGates"); len(gates) > 0 {
		var names []string
		for _, g := range gates {
			names = append(names, fields.Of(g).Str("name"))
		}
		list := strings.Join(names, ", ")
		return finding{state: "scheduling: gates: " + list, cause: "waits for its scheduling gates to be removed: " + list, since: since, next: describe(p.Ref)}, true
	}
	if c.Status == "" {
		scheduler := p.spec.Str("schedulerName")
		cause := "has not been looked at by a scheduler"
		if scheduler != "" && scheduler != "default-scheduler" {
			cause += ", it asks for the one called " + scheduler
		}
		return finding{state: "scheduling: not looked at", cause: cause, since: p.created(), next: describe(p.Ref)}, true
	}
	if f, ok := w.unbound(p, c.Message); ok {
		return f, true
	}
	said, _, _ := strings.Cut(c.Text(), " preemption: ") // that no pod can make room says nothing new
	f := finding{state: "scheduling: " + said, cause: "cannot be scheduled: " + said, since: since, next: describe(p.Ref)}
	for _, node := range w.byKind["Node"] {
		reasons := refusals(p, node)
		if len(reasons) > 0 && len(f.notes) < maxNodes {
			f.notes = append(f.notes, node.Ref.String()+" refuses it: "+strings.Join(reasons, ", "))
		}
	}
	return f, true
}

// refusals returns why a node cannot take a pod, as far as the two say it themselves: what other pods have taken is known
// to the scheduler only.
func refusals(p, node *object) []string {
	var reasons []string
	if c := node.status.Condition("Ready"); c.Status != "" && !c.IsTrue() {
		reasons = append(reasons, "not ready")
	}
	if node.spec.Bool("unschedulable") {
		reasons = append(reasons, "cordoned")
	}
	for _, v := range node.spec.List("taints") {
		t := fields.Of(v)
		ofItsState := strings.HasPrefix(t.Str("key"), "node.kubernetes.io/") // said above already
		if t.Str("effect") != "PreferNoSchedule" && !ofItsState && !tolerates(p, t) {
			reasons = append(reasons, fmt.Sprintf("taint %s", taint(t)))
		}
	}
	labels := node.metadata.At("labels")
	for key, v := range p.spec.At("nodeSelector") {
		if want, _ := v.(string); labels.Str(key) != want {
			reasons = append(reasons, fmt.Sprintf("no label %s=%s", key, want))
		}
	}
	for _, name := range []string{"cpu", "memory"} {
		wants, has := requests(p, name), quantity(node.status.At("allocatable")[name])
		if !has.IsZero() && wants.Cmp(has) > 0 {
			reasons = append(reasons, fmt.Sprintf("%s %s wanted, the whole node has %s", name, wants.String(), has.String()))
		}
	}
	slices.Sort(reasons)
	return reasons
}

func taint(t fields.Map) string {
	if t.Str("value") == "" {
		return t.Str("key") + ":" + t.Str("effect")
	}
	return t.Str("key") + "=" + t.Str("value") + ":" + t.Str("effect")
}

func tolerates(p *object, taint fields.Map) bool {
	for _, v := range p.spec.List("tolerations") {
		t := fields.Of(v)
		effect := t.Str("effect") == "" || t.Str("effect") == taint.Str("effect")
		key := t.Str("key") == taint.Str("key") || t.Str("key") == "" && t.Str("operator") == "Exists"
		value := t.Str("operator") == "Exists" || t.Str("value") == taint.Str("value")
		if effect && key && value {
			return true
		}
	}
	return false
}

// requests returns what the pod's containers ask for together.
func requests(p *object, name string) resource.Quantity {
	var sum resource.Quantity
	for _, v := range p.spec.List("containers") {
		sum.Add(quantity(fields.Of(v).At("resources", "requests")[name]))
	}
	return sum
}

// quantity reads a quantity as YAML may leave it; what is none reads as zero.
func quantity(v any) resource.Quantity {
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return resource.Quantity{}
	}
	return q
}
