package sync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/source/webhook"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// Of several agents only the leader looks at Git, but any of them may be called by a Git server. Whoever is not the
// leader asks it through the Applications' refresh annotation, the one thing that all of them see.

// relayedAtOnce is how many calls may wait to be told to the leader.
const relayedAtOnce = 64

// hooked looks at Git for the Applications of a repository that something was pushed to, or has the leader look.
func (c *Controller) hooked(e webhook.Event) bool {
	if !c.leading.Load() {
		select {
		case c.relayed <- e:
			return true
		default:
			return false
		}
	}
	now := c.clock.Now()
	n := 0
	for _, app := range c.applications() {
		if !concerns(e, app) {
			continue
		}
		key := types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
		c.states.of(key).askAnew(now, nil)
		c.fetches.Add(key)
		n++
	}
	c.log.Info("a webhook call: looking at Git", append(describe(e), "applications", n)...)
	return true
}

func concerns(e webhook.Event, app *v1alpha1.Application) bool {
	sources, _ := app.Spec.AllSources()
	return slices.ContainsFunc(sources, func(s v1alpha1.Source) bool { return s.Chart == "" && e.Matches(s.RepoURL) })
}

// relay tells the leader of the calls that came here, until ctx is done.
func (c *Controller) relay(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-c.relayed:
			if c.leading.Load() {
				c.hooked(e)
				continue
			}
			n, err := c.tellLeader(ctx, e)
			if err != nil && ctx.Err() == nil {
				c.log.Warn("telling the leader of a webhook call", append(describe(e), "applications", n, "error", err)...)
				continue
			}
			c.log.Info("a webhook call: told the leader", append(describe(e), "applications", n)...)
		}
	}
}

func (c *Controller) tellLeader(ctx context.Context, e webhook.Event) (n int, err error) {
	list, err := c.clients.Applications(c.config.ApplicationNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		v1alpha1.AnnotationRefresh: "webhook " + c.clock.Now().UTC().Format(time.RFC3339Nano),
	}}})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		app := &list.Items[i]
		if c.config.ApplicationName != "" && app.Name != c.config.ApplicationName || !concerns(e, app) {
			continue
		}
		// One that is refused, or gone by now, keeps none of the others.
		if _, refused := c.clients.Applications(app.Namespace).Patch(ctx, app.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: v1alpha1.FieldManager}); refused != nil {
			err = errors.Join(err, fmt.Errorf("telling of Application %s/%s: %w", app.Namespace, app.Name, refused))
			continue
		}
		n++
	}
	return n, err
}
