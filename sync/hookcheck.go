package sync

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/source"
)

// checksRun reports whether the pass is the one that checks a run of hooks before anything of it is done.
func (l *look) checksRun() bool {
	return l.run != nil && !l.run.over && l.hold == "" && !l.calledOff() && l.st.checkedRun != l.run.status.Run
}

// checkHooks tries by a dry-run whether the hooks of a run can be made, once before anything of it is done.
func (c *Controller) checkHooks(ctx context.Context, l *look) (refused []error) {
	if !l.checksRun() {
		return nil
	}
	for _, h := range l.hooks {
		if item := l.run.item(h); item != nil && item.UID != "" {
			continue
		}
		if err := c.checkHook(ctx, l, h); err != nil {
			refused = append(refused, l.snap.mask.Error(fmt.Errorf("%s: the %s: %w", h.Origin, h.name(), err)))
		}
	}
	return refused
}

func (c *Controller) checkHook(ctx context.Context, l *look, h *Hook) error {
	if err := l.snap.set.Unknown[h.GVK]; meta.IsNoMatchError(err) {
		return fmt.Errorf("the cluster serves no %s %s: apply its CustomResourceDefinition, or correct the manifest", h.GVK.GroupVersion(), h.GVK.Kind)
	} else if err != nil {
		return err
	}
	if _, err := c.kinds.Of(h.GVK); err != nil && h.Phase != source.PreSync {
		return nil // it comes with this sync
	}
	if err, ok := l.unknown[h.ID.GroupKind()]; ok && err != nil {
		return err
	}
	o := c.live.get(h.ID)
	if o != nil && !l.mayReplace(h, o) {
		return inTheWay(h, o, l.key)
	}
	u, err := h.config(l.run.status.Run)
	if err != nil {
		return err
	}
	_, err = c.writer.CreateNew(ctx, u, true)
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err) && o != nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		if o, err = c.readHook(ctx, h); err == nil && (o.App != l.key || o.HookRun == "") {
			return inTheWay(h, o, l.key)
		}
		return err
	case apierrors.IsNotFound(err) && h.ID.Namespace != "":
		return c.hookNamespace(l, h, err)
	}
	if advice := apply.Advice(apply.Classify(err)); advice != "" {
		err = fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

// mayReplace reports whether an object is none that keeps a hook from running. What this run has made in an earlier phase
// has its time until this one, also where a restart has it checked again.
func (l *look) mayReplace(h *Hook, o *Observed) bool {
	return o.App == l.key && o.HookRun != "" && (keptHook(o) || mayClear(h, o) || strings.HasPrefix(o.HookRun, l.run.status.Run+":"))
}

// hookNamespace decides about a hook whose namespace is not there.
func (c *Controller) hookNamespace(l *look, h *Hook, err error) error {
	declared := l.snap.set.byID[diff.ID{Kind: "Namespace", Name: h.ID.Namespace}] != nil
	switch {
	case l.input.Policy.CreateNamespace:
		l.createNamespaces = append(l.createNamespaces, h.ID.Namespace)
		return nil
	case declared && h.Phase != source.PreSync:
		return nil
	case declared:
		return fmt.Errorf("%w: the namespace comes with this sync, and a PreSync hook runs before it: use syncOptions [CreateNamespace=true], or a later phase", err)
	}
	return namespaceMissing(err)
}
