package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/internal/fields"
)

// claims returns the names of the claims that a pod mounts.
func claims(p *object) []string {
	var names []string
	for _, v := range p.spec.List("volumes") {
		volume := fields.Of(v)
		if name := volume.At("persistentVolumeClaim").Str("claimName"); name != "" {
			names = append(names, name)
		}
		if volume.Has("ephemeral") {
			names = append(names, p.Name+"-"+volume.Str("name"))
		}
	}
	return names
}

// unbound is a pod that cannot be scheduled because of a claim. said are the scheduler's words: a claim that waits for its
// first consumer is no reason while the pod has others.
func (w *walk) unbound(p *object, said string) (finding, bool) {
	blames := strings.Contains(strings.ToLower(said), "persistentvolumeclaim") || strings.Contains(said, "volume")
	for _, name := range claims(p) {
		ref := Ref{Kind: "PersistentVolumeClaim", Namespace: p.Namespace, Name: name}
		claim := w.byRef[ref]
		if claim == nil {
			if !blames {
				continue
			}
			cause := fmt.Sprintf("waits for %s, which is not there", ref)
			return finding{state: "volumes: no claim " + name, cause: cause, since: transition(p.status, "PodScheduled"), next: get(ref)}, true
		}
		if claim.status.Str("phase") == "Bound" {
			continue
		}
		why, next, told := w.whyUnbound(claim)
		if !blames && !told && claim.health.Code != health.Degraded {
			continue
		}
		return finding{
			state: "volumes: claim " + name, cause: fmt.Sprintf("waits for %s: %s", ref, why), since: transition(p.status, "PodScheduled"), next: next,
			below: []Link{{Ref: ref, Condition: why, Since: claim.created()}},
		}, true
	}
	return finding{}, false
}

// whyUnbound returns why a claim has no volume and what to type next; told is false where nobody has said so.
func (w *walk) whyUnbound(claim *object) (why, next string, told bool) {
	class := claim.spec.Str("storageClassName")
	if e, ok := w.latest(claim.Ref, "", "ProvisioningFailed", "FailedBinding"); ok {
		next = describe(claim.Ref)
		if strings.Contains(e.Message, "storageclass") && strings.Contains(e.Message, "not found") {
			next = "kubectl get storageclass"
		}
		return wrapping.ReplaceAllString(e.Message, ""), next, true
	}
	if claim.status.Str("phase") == "Lost" {
		return claim.health.Message, describe(claim.Ref), true
	}
	if class == "" {
		return "it names no storage class, and no volume fits", "kubectl get storageclass", false
	}
	return claim.health.Message, describe(claim.Ref), false
}

// claim ends at a claim that is managed itself.
func (w *walk) claim(o *object) {
	why, next, _ := w.whyUnbound(o)
	if o.status.Str("phase") == "Bound" {
		why, next = o.health.Message, describe(o.Ref)
	}
	w.link(o.Ref, o.created(), "%s", why)
	w.stuck(next, "%s: %s", o.Ref, why)
}

// unmounted is a pod with a node whose volumes cannot be attached or mounted.
func (w *walk) unmounted(p *object) (finding, bool) {
	if started(p) {
		return finding{}, false
	}
	e, ok := w.latest(p.Ref, "", "FailedMount", "FailedAttachVolume", "FailedMapVolume")
	if !ok || e.Time.Before(scheduledAt(p)) {
		return finding{}, false
	}
	return finding{
		state: "volumes: " + e.Reason, cause: "cannot mount its volumes: " + e.Message, since: scheduledAt(p), next: describe(p.Ref),
	}, true
}

func scheduledAt(p *object) time.Time { return transition(p.status, "PodScheduled") }
