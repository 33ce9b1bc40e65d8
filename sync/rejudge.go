package sync

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// rejudge lists the kinds that affects says once more, since their objects are judged otherwise from now on.
func (l *live) rejudge(affects func(schema.GroupKind) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for gk, w := range l.watches {
		if affects(gk) {
			l.replace(w)
		}
	}
}

// replace puts a new watch in the place of w. The old one stands until the new list has arrived, so that no object is
// taken as gone meanwhile.
func (l *live) replace(w *kindWatch) {
	kind, err := l.kinds.Of(w.gvk)
	if err != nil {
		return // no longer served, or not to be known now: what is there stays
	}
	ctx, cancel := context.WithCancel(l.ctx)
	next := &kindWatch{gvk: w.gvk, stop: cancel}
	if next.informer, err = l.informer(w.gvk, kind); err != nil {
		cancel()
		return
	}
	if w.next != nil {
		w.next.stop()
	}
	w.next = next
	go next.informer.RunWithContext(ctx)
	go func() {
		if cache.WaitFor(ctx, "", next.informer.HasSyncedChecker()) {
			l.swap(w, next)
		}
	}()
}

func (l *live) swap(w, next *kindWatch) {
	gk := w.gvk.GroupKind()
	l.mu.Lock()
	current := l.watches[gk] == w && w.next == next
	if current {
		next.users = w.users
		l.watches[gk] = next
		w.stop()
	} else {
		next.stop()
	}
	l.mu.Unlock()
	if current {
		l.settled(gk)
	}
}

// healthRulesChanged has the objects that the rules of an Application are or were about judged anew.
func (c *Controller) healthRulesChanged(old, app *v1alpha1.Application) {
	var before []v1alpha1.HealthRule
	if old != nil {
		before = old.Spec.HealthRules
	}
	if slices.Equal(before, app.Spec.HealthRules) {
		return
	}
	rules := append(healthRules(before), healthRules(app.Spec.HealthRules)...)
	c.live.rejudge(func(gk schema.GroupKind) bool {
		for _, r := range rules {
			if r.Matches(gk) {
				return true
			}
		}
		return false
	})
}

// claimsChanged has all claims judged anew, since a storage class has come or gone.
func (c *Controller) claimsChanged() {
	c.live.rejudge(func(gk schema.GroupKind) bool { return gk == claimKind })
}
