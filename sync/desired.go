package sync

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/apply"
	"github.com/trueup/trueup/diff"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// Desired is one object as Git declares it, ready to be applied. The configuration is kept as JSON: a tenth of what it
// takes as maps, and it is seldom needed.
type Desired struct {
	ID     diff.ID
	GVK    schema.GroupVersionKind
	Origin string // file:line
	digest string
	json   []byte
	yields []string   // from the annotation trueup.dev/yield
	random [][]string // paths of what a chart made up: see keepRandom
}

// Config returns the configuration, a new copy each time.
func (d *Desired) Config() (map[string]any, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(d.json); err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", d.ID, err)
	}
	return u.Object, nil
}

// reference returns an object that only names d.
func (d *Desired) reference() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(d.GVK)
	u.SetNamespace(d.ID.Namespace)
	u.SetName(d.ID.Name)
	return u
}

func (d *Desired) forDiff() diff.Desired {
	return diff.Desired{Digest: d.digest, Config: d.Config}
}

// DesiredSet are all objects that one revision declares.
type DesiredSet struct {
	Objects []*Desired // in the order in which they are applied
	Hooks   []*Hook    // in the order in which they run
	state   string     // digest of both
	app     types.NamespacedName
	byID    map[diff.ID]*Desired
	leftOut map[diff.ID]bool // declared, but nothing to apply
	// Unknown are kinds that neither the API server serves nor this revision defines, or whose API server does not
	// answer now: the error says which.
	Unknown map[schema.GroupVersionKind]error
	// Autoscaled are the workloads that an autoscaler of this revision targets.
	Autoscaled map[diff.ID]string
}

// leaveOut notes objects that are declared but nothing to apply, so that what is there of them is not pruned. Of a kind
// that has no namespace and one that has, both are noted: the name decides.
func (s *DesiredSet) leaveOut(objects []source.Object, namespace string) {
	s.leftOut = make(map[diff.ID]bool, len(objects))
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		for _, ns := range []string{"", cmp.Or(o.GetNamespace(), namespace)} {
			s.leftOut[diff.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: ns, Name: o.GetName()}] = true
		}
	}
}

// declares reports whether an object is in the set: as one to keep, as a hook, or as one that is left out.
func (s *DesiredSet) declares(id diff.ID) bool {
	return s.byID[id] != nil || s.leftOut[id] || slices.ContainsFunc(s.Hooks, func(h *Hook) bool { return h.ID == id })
}

// Kinds returns the kinds of the objects and hooks.
func (s *DesiredSet) Kinds() []schema.GroupVersionKind {
	seen := map[schema.GroupVersionKind]bool{}
	var kinds []schema.GroupVersionKind
	add := func(d *Desired) {
		if !seen[d.GVK] {
			seen[d.GVK] = true
			kinds = append(kinds, d.GVK)
		}
	}
	for _, d := range s.Objects {
		add(d)
	}
	for _, h := range s.Hooks {
		add(h.Desired)
	}
	return kinds
}

// scopes answers whether a kind is namespaced and has a status subresource.
type scopes interface {
	Of(schema.GroupVersionKind) (apply.Kind, error)
}

// newDesiredSet makes rendered objects ready to be applied: scope and namespace, no status, Secrets as the API server
// stores them, our label and annotation. The error names each object that cannot be, with its file.
// Kinds that are not known are no error here, since their definition may come from elsewhere, or their API server back.
func newDesiredSet(objects []source.Object, app types.NamespacedName, namespace string, kinds scopes) (*DesiredSet, error) {
	set := &DesiredSet{byID: make(map[diff.ID]*Desired, len(objects)), Unknown: map[schema.GroupVersionKind]error{}, Autoscaled: map[diff.ID]string{}}
	own := definedKinds(objects)
	hooks := hookMaker{app: app, namespace: namespace}
	var errs []error
	for _, o := range objects {
		kind, err := kindOf(o.GroupVersionKind(), kinds, own)
		if err != nil {
			set.Unknown[o.GroupVersionKind()] = err
			kind.Namespaced = o.GetNamespace() != "" // a guess, until the kind is known
		}
		if o.Hook != nil {
			hooks.add(o, kind, err == nil)
			continue
		}
		d, err := newDesired(o, app, namespace, kind, err == nil)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.Place(), err))
			continue
		}
		if first, ok := set.byID[d.ID]; ok {
			errs = append(errs, fmt.Errorf("%s is declared twice: in %s and in %s; keep one of them", d.ID, first.Origin, d.Origin))
			continue
		}
		set.byID[d.ID] = d
		set.Objects = append(set.Objects, d)
		noteAutoscaler(set.Autoscaled, d.ID, o.Object)
	}
	slices.SortStableFunc(set.Objects, func(a, b *Desired) int {
		return cmp.Or(apply.Rank(a.ID.GroupKind())-apply.Rank(b.ID.GroupKind()), a.ID.Compare(b.ID))
	})
	return set, errors.Join(append(errs, hooks.finish(set))...)
}

func newDesired(o source.Object, app types.NamespacedName, namespace string, kind apply.Kind, known bool) (*Desired, error) {
	u := o.DeepCopy()
	switch {
	case !kind.Namespaced && known:
		u.SetNamespace("")
	case kind.Namespaced && u.GetNamespace() == "":
		if namespace == "" {
			return nil, fmt.Errorf("%s %s names no namespace: set metadata.namespace in Git or spec.destination.namespace in the Application", u.GetKind(), u.GetName())
		}
		u.SetNamespace(namespace)
	}
	gvk := u.GroupVersionKind()
	id := diff.ID{Group: gvk.Group, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()}
	if err := normalize(u, kind); err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	d := &Desired{ID: id, GVK: gvk, Origin: o.Place(), yields: yields(u)}
	_, err := yieldPolicies(d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	setOwn(u, app, id)
	if d.json, err = json.Marshal(u.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	d.digest = diff.Digest(d.json)
	if d.random = randomPaths(o); len(d.random) > 0 {
		stable, err := json.Marshal(withoutRandom(u.Object, d.random))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		d.digest = diff.Digest(stable)
	}
	return d, nil
}

func setOwn(u *unstructured.Unstructured, app types.NamespacedName, id diff.ID) {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[v1alpha1.LabelApp] = app.Name
	annotations[v1alpha1.AnnotationTracking] = tracking(app, id)
	delete(annotations, v1alpha1.AnnotationApplied)
	delete(annotations, v1alpha1.AnnotationHookRun)
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
}

func yields(u *unstructured.Unstructured) []string {
	var paths []string
	for p := range strings.SplitSeq(u.GetAnnotations()[v1alpha1.AnnotationYield], ",") {
		if p = strings.TrimSpace(p); p != "" {
			paths = append(paths, p)
		}
	}
	return paths
}

// normalize takes out what a manifest cannot declare, so that it is neither applied nor missed.
func normalize(u *unstructured.Unstructured, kind apply.Kind) error {
	if kind.HasStatus {
		delete(u.Object, "status")
	}
	metadata, ok := u.Object["metadata"].(map[string]any)
	if !ok {
		return errors.New("metadata is not an object")
	}
	for _, field := range []string{"creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"} {
		delete(metadata, field)
	}
	dropNulls(metadata)
	if apply.IsBuiltin(u.GroupVersionKind().Group) {
		dropNulls(u.Object)
	}
	if u.GetKind() == "Secret" && u.GroupVersionKind().Group == "" {
		return foldStringData(u.Object)
	}
	return nil
}

// dropNulls removes null fields: for a built-in kind null declares nothing, but server-side apply would own it.
func dropNulls(v any) {
	switch at := v.(type) {
	case map[string]any:
		for k, child := range at {
			if child == nil {
				delete(at, k)
				continue
			}
			dropNulls(child)
		}
	case []any:
		for _, child := range at {
			dropNulls(child)
		}
	}
}

// foldStringData writes stringData as data, as the API server stores it: so that a key which leaves Git leaves the
// Secret too. (stringData is write-only: whoever applies it does not own what it turns into.)
//
// It also finds values that the API server would refuse with a message that has the value in it.
func foldStringData(secret map[string]any) error {
	for _, field := range []string{"data", "stringData"} {
		if _, ok := secret[field].(map[string]any); !ok && secret[field] != nil {
			return fmt.Errorf("%s must be a map from keys to strings", field)
		}
	}
	data, ok := secret["data"].(map[string]any)
	if !ok {
		data = map[string]any{}
	}
	for k, v := range data {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("data.%s must be a string of base64: put it in quotes", k)
		}
		if _, err := base64.StdEncoding.DecodeString(s); err != nil {
			return fmt.Errorf("data.%s is no base64: encode it, or move it to stringData", k)
		}
	}
	stringData, ok := secret["stringData"].(map[string]any)
	if !ok {
		return nil
	}
	for k, v := range stringData {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("stringData.%s must be a string: put it in quotes", k)
		}
		data[k] = base64.StdEncoding.EncodeToString([]byte(s))
	}
	delete(secret, "stringData")
	if len(data) > 0 {
		secret["data"] = data
	}
	return nil
}

// definedKinds are the kinds that the CustomResourceDefinitions among the objects define.
func definedKinds(objects []source.Object) map[schema.GroupVersionKind]apply.Kind {
	kinds := map[schema.GroupVersionKind]apply.Kind{}
	for _, o := range objects {
		if o.GroupVersionKind().GroupKind() != crdKind {
			continue
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
		scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		for _, v := range versions {
			version, _ := v.(map[string]any)
			name, _ := version["name"].(string)
			subresources, _ := version["subresources"].(map[string]any)
			_, hasStatus := subresources["status"]
			gvk := schema.GroupVersionKind{Group: group, Version: name, Kind: kind}
			kinds[gvk] = apply.Kind{
				Resource:   gvk.GroupVersion().WithResource(plural),
				Namespaced: scope == "Namespaced",
				HasStatus:  hasStatus,
			}
		}
	}
	return kinds
}

var crdKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

func kindOf(gvk schema.GroupVersionKind, kinds scopes, own map[schema.GroupVersionKind]apply.Kind) (apply.Kind, error) {
	if kind, ok := own[gvk]; ok {
		return kind, nil
	}
	return kinds.Of(gvk)
}
