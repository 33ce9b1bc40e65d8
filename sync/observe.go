package sync

import (
	"strings"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// Observed is what the live cache keeps of one object: what a verdict needs and nothing else. It is never changed once
// it is made, so that it can be shared.
type Observed struct {
	metav1.ObjectMeta // name, namespace, UID, versions, deletion; nothing else

	ID diff.ID
	// App is the Application that the object says it belongs to, if it is the object that it says it is.
	App types.NamespacedName
	// Owned says that we have applied it: our entry is among the managed fields.
	Owned bool
	// Claimant is another tool that says the object is its own.
	Claimant string
	// Controlled says that the object has a controller that made it.
	Controlled bool
	// Prune is the value of the annotation trueup.dev/prune.
	Prune string
	// HookRun is in which run and phase of hooks the object was made; "" for an object that is kept.
	HookRun  string
	hookTime time.Duration // how long it may take
	// State is what the managed fields say.
	State diff.Observed
	// Health is the object's health.
	Health health.Result
}

// present is the health of a kind that has none: there is nothing to wait for once the object is there.
var present = health.Result{Code: health.Healthy, Reason: "Present"}

// judgeFunc returns the health of an object of an Application.
type judgeFunc func(app types.NamespacedName, u *unstructured.Unstructured) health.Result

// observe reduces an object, or the metadata of one, to an Observed. judge is nil where only metadata is there.
func observe(gk diff.ID, obj metav1.Object, judge judgeFunc) *Observed {
	annotations := obj.GetAnnotations()
	entries := obj.GetManagedFields()
	o := &Observed{
		ObjectMeta: metav1.ObjectMeta{
			Name:              obj.GetName(),
			Namespace:         unique.Make(obj.GetNamespace()).Value(),
			UID:               obj.GetUID(),
			ResourceVersion:   obj.GetResourceVersion(),
			Generation:        obj.GetGeneration(),
			DeletionTimestamp: obj.GetDeletionTimestamp(),
		},
		ID:         diff.ID{Group: gk.Group, Kind: gk.Kind},
		Claimant:   claimant(obj),
		Controlled: metav1.GetControllerOfNoCopy(obj) != nil,
		Prune:      annotations[v1alpha1.AnnotationPrune],
		Health:     present,
	}
	o.ID.Namespace, o.ID.Name = o.Namespace, o.Name
	if o.DeletionTimestamp != nil {
		o.Finalizers = obj.GetFinalizers()
	}
	if app, tracked, ok := parseTracking(annotations[v1alpha1.AnnotationTracking]); ok && tracked == o.ID {
		o.App = types.NamespacedName{Namespace: unique.Make(app.Namespace).Value(), Name: unique.Make(app.Name).Value()}
	}
	o.State = diff.Observed{
		Exists:  true,
		Applied: diff.ParseApplied(strings.Clone(annotations[v1alpha1.AnnotationApplied])),
		Fields:  diff.OwnFields(entries, v1alpha1.FieldManager),
		Touched: diff.Touched(entries),
	}
	if !o.State.Whole() {
		o.State.Managed = entries
	}
	o.Owned = o.State.Fields != "" || o.State.Unmanaged()
	if u, ok := obj.(*unstructured.Unstructured); ok && judge != nil {
		o.Health = judge(o.App, u)
	}
	if o.State.Fields == "" { // else it was a hook, and Git declares it as an object since
		o.observeHook(obj)
	}
	return o
}

// observeWhole is observe for an object that was read to be written: all its managed fields are kept.
func observeWhole(id diff.ID, obj metav1.Object, judge judgeFunc) *Observed {
	o := observe(diff.ID{Group: id.Group, Kind: id.Kind}, obj, judge)
	o.State.Managed = obj.GetManagedFields()
	return o
}

// sameVerdict reports whether two observations of one object can only lead to the same verdict: then the event between
// them is no work. Status that changes without changing health is the common case.
func (o *Observed) sameVerdict(p *Observed) bool {
	if o.State.Unmanaged() && o.ResourceVersion != p.ResourceVersion {
		return false // only its values can tell
	}
	return o.UID == p.UID && o.App == p.App && o.Owned == p.Owned && o.Claimant == p.Claimant && o.Prune == p.Prune && o.HookRun == p.HookRun &&
		o.Controlled == p.Controlled && o.Health == p.Health &&
		(o.DeletionTimestamp == nil) == (p.DeletionTimestamp == nil) && len(o.Finalizers) == len(p.Finalizers) &&
		o.State.Applied == p.State.Applied && o.State.Fields == p.State.Fields && o.State.Touched == p.State.Touched &&
		sameEntries(o.State.Managed, p.State.Managed)
}

// sameEntries compares managed fields but for those of a status: its owner and time change with each heartbeat.
func sameEntries(a, b []metav1.ManagedFieldsEntry) bool {
	next := func(s []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
		for len(s) > 0 && s[0].Subresource == "status" {
			s = s[1:]
		}
		return s
	}
	for {
		a, b = next(a), next(b)
		if len(a) == 0 || len(b) == 0 {
			return len(a) == len(b)
		}
		x, y := a[0], b[0]
		if x.Manager != y.Manager || x.Operation != y.Operation || x.Subresource != y.Subresource || !x.Time.Equal(y.Time) ||
			(x.FieldsV1 == nil) != (y.FieldsV1 == nil) || x.FieldsV1 != nil && !x.FieldsV1.Equal(*y.FieldsV1) {
			return false
		}
		a, b = a[1:], b[1:]
	}
}

// newer reports whether o was observed at or after p.
func (o *Observed) newer(p *Observed) bool {
	c, err := resourceversion.CompareResourceVersion(o.ResourceVersion, p.ResourceVersion)
	return err != nil || c >= 0
}
