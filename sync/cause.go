package sync

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/why"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// cause is in which loop an object is stuck that makes its Application Degraded. It is looked for when the health of the
// object changes, and then ever more seldom, since the loop may be another one without that showing in the object.
type cause struct {
	id     diff.ID
	health health.Result
	text   string
	wait   time.Duration // from one look to the next
	next   time.Time
}

// Bounds of looking for causes, over all Applications.
const (
	causesPerSecond = 1
	causesAtOnce    = 10
	causeTimeout    = 5 * time.Second
	causeRetry      = 2 * time.Second
	causeFirstWait  = 30 * time.Second
	causeLongest    = 10 * time.Minute
)

// explain adds to the health message of a Degraded Application in which loop the object that decided it is stuck. It
// asks the API server seldom, and not for too many Applications at once.
func (c *Controller) explain(ctx context.Context, l *look, s *v1alpha1.ApplicationStatus) {
	l.st.causeDue = time.Time{}
	if s.Health.Status != string(health.Degraded) || l.deciding == nil {
		l.st.cause = cause{}
		return
	}
	known := l.st.cause
	if changed := known.id != l.deciding.ID || known.health != l.deciding.Health; changed || !l.now.Before(known.next) {
		if !c.causes.Allow() {
			l.st.causeDue = l.now.Add(causeRetry)
			if last := l.app.Status.Health.Message; strings.HasPrefix(last, s.Health.Message+": ") || l.says(last) {
				s.Health.Message = last // as an agent before this one has found it
			}
			return
		}
		next := cause{id: l.deciding.ID, health: l.deciding.Health, text: c.findCause(ctx, l), wait: causeFirstWait}
		if !changed {
			next.wait, next.text = min(2*known.wait, causeLongest), cmp.Or(next.text, known.text)
		}
		next.next = l.now.Add(next.wait)
		l.st.cause = next
	}
	l.st.causeDue = l.st.cause.next
	switch text := l.st.cause.text; {
	case text == fmt.Sprintf("%s is %s: %s", l.deciding.ID, l.deciding.Health.Code, l.snap.mask.Text(l.deciding.Health.Message)):
		// which says no more
	case l.says(text):
		s.Health.Message = text
	case text != "":
		s.Health.Message += ": " + text
	}
}

// says reports whether a cause has in it all that the object which decided the health says, so that this need not be said
// twice.
func (l *look) says(cause string) bool {
	own := l.snap.mask.Text(l.deciding.Health.Message)
	return own != "" && strings.Contains(cause, own) && strings.Contains(cause, l.deciding.ID.String())
}

// findCause returns one sentence; "" where none is found, or not in time. That is no reason to stop.
func (c *Controller) findCause(ctx context.Context, l *look) string {
	ctx, cancel := context.WithTimeout(ctx, causeTimeout)
	defer cancel()
	d := l.deciding
	object, err := c.writer.Get(ctx, d.Desired.reference())
	if err != nil {
		c.log.Debug("looking for the cause", "object", d.ID.String(), "error", err)
		return ""
	}
	judge, _ := c.judges.of(l.key) // the status has the error
	g := &gathering{clients: c.clients, kinds: c.kinds, judge: judge, app: l.app, objects: []*unstructured.Unstructured{object}}
	if err := g.beside(ctx, object); err != nil {
		c.log.Debug("looking for the cause", "object", d.ID.String(), "error", err)
	}
	report := why.Explain(why.Snapshot{
		Application: why.Application{
			Namespace: l.key.Namespace, Name: l.key.Name, Managed: []why.Managed{{Ref: ref(d.ID), Health: judge.Of(object)}},
		},
		Objects: g.objects, Judge: judge.Of,
	}, l.now)
	if !slices.ContainsFunc(report.Chain, func(link why.Link) bool { return link.Stuck }) {
		return ""
	}
	return l.snap.mask.Text(report.Cause)
}

// beside lists what is around one object: its pods and what makes them where it selects some, and the warnings of its
// namespace; one page of each.
func (g *gathering) beside(ctx context.Context, object *unstructured.Unstructured) error {
	namespace := object.GetNamespace()
	if namespace == "" {
		return nil
	}
	selected := metav1.ListOptions{Limit: pageSize}
	labels, _, _ := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
	if len(labels) > 0 {
		selected.LabelSelector = metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})
	}
	for _, list := range []struct {
		resource schema.GroupVersionResource
		opts     metav1.ListOptions
	}{
		{podResource, selected},
		{replicaSetResource, selected},
		{jobResource, metav1.ListOptions{Limit: pageSize}},
		{claimResource, metav1.ListOptions{Limit: pageSize}},
		{quotaResource, metav1.ListOptions{Limit: pageSize}},
		{eventResource, metav1.ListOptions{Limit: pageSize, FieldSelector: "type=Warning"}},
	} {
		found, err := g.clients.Dynamic.Resource(list.resource).Namespace(namespace).List(ctx, list.opts)
		if err := g.noted(err, list.resource.Resource, namespace); err != nil {
			return err
		}
		for i := 0; found != nil && i < len(found.Items); i++ {
			g.objects = append(g.objects, &found.Items[i])
		}
	}
	return nil
}
