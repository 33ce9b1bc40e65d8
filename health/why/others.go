package why

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/internal/fields"
)

// generic goes on at what an object owns, where that is not healthy, and otherwise ends at the object with its own words.
func (w *walk) generic(o *object) {
	w.link(o.Ref, lastTransition(o.status), "%s", o.health.Message)
	var worst *object
	for _, child := range w.children[o.uid] {
		if o.uid == "" || w.seen[child.Ref] || child.health.Code == health.Healthy {
			continue
		}
		if worst == nil || child.health.Code.WorseThan(worst.health.Code) {
			worst = child
		}
	}
	if worst != nil {
		w.object(worst)
	}
	if w.report.Cause != "" {
		return
	}
	why := o.health.Message
	if e, ok := w.warning(o.Ref); ok && !strings.Contains(why, e.Message) {
		why += " (last warning: " + e.Reason + ": " + e.Message + ")"
	}
	w.stuck(describe(o.Ref), "%s is %s: %s", o.Ref, o.health.Code, why)
}

// warning returns the newest warning about ref.
func (w *walk) warning(ref Ref) (newest Event, ok bool) {
	for _, e := range w.events[ref] {
		if e.Type == "Warning" && (!ok || e.Time.After(newest.Time)) {
			newest, ok = e, true
		}
	}
	return newest, ok
}

// autoscaler names the metric that cannot be read, or the target that cannot be scaled.
func (w *walk) autoscaler(o *object) {
	since := transition(o.status, "ScalingActive")
	w.link(o.Ref, since, "%s", o.health.Message)
	target := o.spec.At("scaleTargetRef")
	what := target.Str("kind") + " " + target.Str("name")
	if c := o.status.Condition("AbleToScale"); c.IsFalse() {
		w.stuck(describe(o.Ref), "%s cannot scale %s: %s", o.Ref, what, c.Text())
		return
	}
	if o.health.Code == health.Suspended {
		w.stuck(describe(o.Ref), "%s does nothing while %s has no replicas: %s", o.Ref, what, o.health.Message)
		return
	}
	kind, metric := o.failingMetric()
	if api := w.metricsAPI(kind); api != nil {
		w.link(api.Ref, transition(api.status, "Available"), "%s", api.health.Message)
		w.stuck(describe(api.Ref), "%s cannot read %s, because %s is %s", o.Ref, metric, api.Ref, api.health.Message)
		return
	}
	w.stuck(describe(o.Ref), "%s cannot read %s: %s", o.Ref, metric, o.health.Message)
}

// failingMetric returns the kind of metric that the reason of ScalingActive names, and a description of it from the spec.
func (o *object) failingMetric() (kind, metric string) {
	for reason, k := range map[string]string{
		"FailedGetResourceMetric": "Resource", "FailedGetContainerResourceMetric": "ContainerResource",
		"FailedGetPodsMetric": "Pods", "FailedGetObjectMetric": "Object", "FailedGetExternalMetric": "External",
	} {
		if o.health.Reason == reason {
			kind = k
		}
	}
	for _, v := range o.spec.List("metrics") {
		m := fields.Of(v)
		key := strings.ToLower(kind[:min(1, len(kind))]) + kind[min(1, len(kind)):]
		part := m.At(key)
		if m.Str("type") != kind || part == nil {
			continue
		}
		if name := part.Str("name"); name != "" {
			return kind, "the " + strings.ToLower(kind) + " metric " + name
		}
		return kind, "the " + strings.ToLower(kind) + " metric " + part.At("metric").Str("name")
	}
	if o.spec.Has("targetCPUUtilizationPercentage") {
		return "Resource", "the resource metric cpu"
	}
	return kind, "its metrics"
}

// metricsAPI returns the APIService that serves metrics of a kind, where it is in the snapshot and not available.
func (w *walk) metricsAPI(kind string) *object {
	prefix := map[string]string{
		"Resource": ".metrics.k8s.io", "ContainerResource": ".metrics.k8s.io",
		"Pods": ".custom.metrics.k8s.io", "Object": ".custom.metrics.k8s.io", "External": ".external.metrics.k8s.io",
	}[kind]
	for _, api := range w.byKind["APIService"] {
		_, group, _ := strings.Cut(api.Name, ".")
		if prefix != "" && "."+group == prefix && api.health.Code != health.Healthy {
			return api
		}
	}
	return nil
}

var remaining = regexp.MustCompile(`([a-z0-9.-]+) has \d+ resource instances`)

// namespace names what a Namespace that is being deleted waits for.
func (w *walk) namespace(o *object) {
	w.link(o.Ref, o.deleted(), "%s", o.health.Message)
	next := describe(o.Ref)
	if m := remaining.FindStringSubmatch(o.status.Condition("NamespaceContentRemaining").Message); m != nil {
		next = fmt.Sprintf("kubectl get -n %s %s -o custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers", o.Name, strings.TrimSuffix(m[1], "."))
	}
	var left []*object // the first of those with finalizers, and all that are of its kind
	for _, other := range w.all {
		stays := other.Namespace == o.Name && !other.deleted().IsZero() && len(other.metadata.List("finalizers")) > 0
		if stays && (left == nil || other.Kind == left[0].Kind && other.Group == left[0].Group) {
			left = append(left, other)
		}
	}
	if left == nil {
		w.stuck(next, "%s cannot go: %s", o.Ref, o.health.Message)
		return
	}
	finalizers := join(left[0].metadata.List("finalizers"))
	link := w.link(left[0].Ref, left[0].deleted(), "being deleted, finalizers: %s", finalizers)
	subject := left[0].Ref.String()
	if len(left) > 1 {
		for _, l := range left {
			link.Alike = append(link.Alike, l.Name)
		}
		subject = fmt.Sprintf("%d objects of kind %s", len(left), left[0].Kind)
	}
	w.stuck(next, "%s cannot go: %s in it %s for the controllers of finalizers: %s", o.Ref, subject, plural("waits", len(left)), finalizers)
}

// lastTransition returns when the conditions changed last; zero where they do not say.
func lastTransition(status fields.Map) (last time.Time) {
	for _, v := range status.Conditions() {
		if at := parseTime(fields.Of(v).Str("lastTransitionTime")); at.After(last) {
			last = at
		}
	}
	return last
}
