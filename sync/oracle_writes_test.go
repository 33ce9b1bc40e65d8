package sync

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// fieldManagers are those who write besides us: people's tools, controllers and appliers.
var fieldManagers = []any{
	"kubectl-edit", "kubectl-edit", "kubectl-patch", "kubectl-client-side-apply", "k9s", "helm",
	"some-operator", "another-operator", "kube-controller-manager", "argocd-controller", "flux",
}

// foreignWrite is one way in which others write; it returns what it did.
type foreignWrite func(o *oracle, manager string) (string, error)

// foreignWrites are by how often they are chosen.
var foreignWrites = []struct {
	weight int
	write  foreignWrite
}{
	{6, (*oracle).update}, {6, (*oracle).mergePatch}, {4, (*oracle).strategicPatch}, {6, (*oracle).jsonPatch},
	{4, (*oracle).foreignApply}, {2, (*oracle).inAnotherVersion}, {3, (*oracle).scale}, {1, (*oracle).writeStatus},
	{1, (*oracle).deleteAndRecreate}, {1, (*oracle).remove}, {2, (*oracle).wipe}, {3, (*oracle).writeMetadata},
	{1, (*oracle).manyManagers}, {2, (*oracle).putBack},
}

// foreign makes one random write. Writes that the API server does not take are no harm.
func (o *oracle) foreign() {
	total := 0
	for _, f := range foreignWrites {
		total += f.weight
	}
	n := o.r.IntN(total)
	manager := pick(o.r, fieldManagers...)
	for _, f := range foreignWrites {
		if n -= f.weight; n >= 0 {
			continue
		}
		what, err := f.write(o, manager)
		if what == "" {
			return
		}
		o.foreignWrites++
		switch {
		case err == nil:
			o.note("%s: %s", manager, what)
			o.foreignTaken++
		case apierrors.IsInvalid(err), apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsBadRequest(err), apierrors.IsInternalError(err):
			o.note("%s: %s, refused: %.200s", manager, what, err)
		default:
			o.t.Fatalf("%s: %s: %v", manager, what, err)
		}
		return
	}
}

func pick(r *rand.Rand, from ...any) string { return from[r.IntN(len(from))].(string) }

func (o *oracle) body() map[string]any { return sample(o.r, o.subject.body).(map[string]any) }

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// drop takes some fields out of v at random, or sets them to null where nulls is set.
func drop(r *rand.Rand, v any, nulls bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			switch {
			case r.IntN(12) > 0:
				drop(r, v[k], nulls)
			case nulls:
				v[k] = nil
			default:
				delete(v, k)
			}
		}
	case []any:
		for _, x := range v {
			drop(r, x, nulls)
		}
	}
}

// mergeOver writes from over to, map by map.
func mergeOver(to, from map[string]any) {
	for k, v := range from {
		if m, ok := v.(map[string]any); ok {
			if child, ok := to[k].(map[string]any); ok {
				mergeOver(child, m)
				continue
			}
		}
		to[k] = v
	}
}

func (o *oracle) update(manager string) (string, error) {
	live, err := o.read()
	if err != nil {
		return "", err
	}
	if o.r.IntN(2) == 0 {
		body := o.body()
		mergeOver(live.Object, body)
	} else {
		for k := range o.subject.body {
			drop(o.r, live.Object[k], false)
		}
	}
	_, err = o.objects.Update(o.t.Context(), live, metav1.UpdateOptions{FieldManager: manager})
	return "update to " + string(o.bodyOf(live)), err
}

// bodyOf is what is written beside the metadata.
func (o *oracle) bodyOf(u *unstructured.Unstructured) []byte {
	body := map[string]any{}
	for k := range o.subject.body {
		body[k] = u.Object[k]
	}
	return asJSON(body)
}

func (o *oracle) patch(kind types.PatchType, manager string, body any, subresources ...string) error {
	opts := metav1.PatchOptions{FieldManager: manager}
	_, err := o.objects.Patch(o.t.Context(), o.name, kind, asJSON(body), opts, subresources...)
	return err
}

func (o *oracle) mergePatch(manager string) (string, error) {
	body := o.body()
	drop(o.r, body, true)
	return "merge patch " + string(asJSON(body)), o.patch(types.MergePatchType, manager, body)
}

func (o *oracle) strategicPatch(manager string) (string, error) {
	if o.subject.gvk.Kind == "Gadget" {
		return "", nil
	}
	body := o.body()
	drop(o.r, body, true)
	return "strategic patch " + string(asJSON(body)), o.patch(types.StrategicMergePatchType, manager, body)
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// places returns the JSON pointers of all fields below v.
func places(prefix string, v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			p := prefix + "/" + pointerEscapes.Replace(k)
			out = append(append(out, p), places(p, v[k])...)
		}
	case []any:
		for i, x := range v {
			p := fmt.Sprintf("%s/%d", prefix, i)
			out = append(append(out, p), places(p, x)...)
		}
	}
	return out
}

func (o *oracle) jsonPatch(manager string) (string, error) {
	live, err := o.read()
	if err != nil {
		return "", err
	}
	var all []string
	for _, k := range sortedKeys(o.subject.body) {
		all = append(all, places("/"+k, live.Object[k])...)
	}
	if len(all) == 0 {
		return "", nil
	}
	op := map[string]any{"op": "remove", "path": all[o.r.IntN(len(all))]}
	if o.r.IntN(2) == 0 {
		op["op"], op["value"] = "replace", []any{"1", "2", int64(1), int64(4), true, "x", map[string]any{}, []any{}, nil}[o.r.IntN(9)]
	}
	patch := []any{op}
	return "JSON patch " + string(asJSON(patch)), o.patch(types.JSONPatchType, manager, patch)
}

func (o *oracle) foreignApply(manager string) (string, error) {
	body := o.body()
	drop(o.r, body, false)
	// Who applies stringData owns that, and not the data that it becomes: nothing shows that the data has changed.
	delete(body, "stringData")
	maps.Copy(body, map[string]any{"apiVersion": o.subject.gvk.GroupVersion().String(), "kind": o.subject.gvk.Kind})
	force := o.r.IntN(2) == 0
	what := fmt.Sprintf("apply (force %v) %s", force, asJSON(body))
	_, err := o.objects.Patch(o.t.Context(), o.name, types.ApplyPatchType, asJSON(body), metav1.PatchOptions{FieldManager: manager, Force: &force})
	return what, err
}

func (o *oracle) inAnotherVersion(manager string) (string, error) {
	if o.subject.older == "" {
		return "", nil
	}
	body := o.body()
	if o.subject.gvk.Kind == "HorizontalPodAutoscaler" {
		body = sample(o.r, obj{"spec": obj{"minReplicas": some{oneOf{1, 2}}, "targetCPUUtilizationPercentage": oneOf{60, 70, nil}}}).(map[string]any)
	}
	_, err := o.older.Patch(o.t.Context(), o.name, types.MergePatchType, asJSON(body), metav1.PatchOptions{FieldManager: manager})
	return "merge patch in " + o.subject.older + " " + string(asJSON(body)), err
}

func (o *oracle) scale(manager string) (string, error) {
	if !o.subject.scaled {
		return "", nil
	}
	body := map[string]any{"spec": map[string]any{"replicas": int64(o.r.IntN(4))}}
	return "scale " + string(asJSON(body)), o.patch(types.MergePatchType, manager, body, "scale")
}

func (o *oracle) writeStatus(manager string) (string, error) {
	if o.subject.status == nil {
		return "", nil
	}
	body := map[string]any{"status": sample(o.r, o.subject.status)}
	return "status " + string(asJSON(body)), o.patch(types.MergePatchType, manager, body, "status")
}

func (o *oracle) remove(string) (string, error) {
	_ = o.patch(types.MergePatchType, "finalizer", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	background := metav1.DeletePropagationBackground
	return "delete", o.objects.Delete(o.t.Context(), o.name, metav1.DeleteOptions{PropagationPolicy: &background})
}

func (o *oracle) deleteAndRecreate(manager string) (string, error) {
	u := &unstructured.Unstructured{Object: o.body()}
	if live, err := o.read(); err == nil && o.r.IntN(2) == 0 { // as kubectl replace --force does
		u = live
		for _, field := range []string{"uid", "resourceVersion", "managedFields"} {
			unstructured.RemoveNestedField(u.Object, "metadata", field)
		}
	}
	u.SetGroupVersionKind(o.subject.gvk)
	u.SetName(o.name)
	if _, err := o.remove(manager); err != nil && !apierrors.IsNotFound(err) {
		return "delete", err
	}
	_, err := o.objects.Create(o.t.Context(), u, metav1.CreateOptions{FieldManager: manager})
	return "delete and create " + string(asJSON(u.Object)), err
}

func (o *oracle) wipe(manager string) (string, error) {
	body := map[string]any{}
	if o.r.IntN(2) == 0 {
		body = o.body()
	}
	body["metadata"] = map[string]any{"managedFields": []any{map[string]any{}}}
	return "wipe managed fields and " + string(asJSON(body)), o.patch(types.MergePatchType, manager, body)
}

func (o *oracle) writeMetadata(manager string) (string, error) {
	of := func(what, key string, value any) map[string]any {
		return map[string]any{"metadata": map[string]any{what: map[string]any{key: value}}}
	}
	all := []map[string]any{
		of("labels", v1alpha1.LabelApp, nil), of("labels", v1alpha1.LabelApp, "other"), of("annotations", v1alpha1.AnnotationTracking, nil),
		of("annotations", v1alpha1.AnnotationApplied, nil), of("annotations", v1alpha1.AnnotationApplied, "wrong"), of("labels", "team", pick(o.r, "blue", "red")),
		of("annotations", "note", "x"), {"metadata": map[string]any{"labels": nil, "annotations": nil}}, {"metadata": map[string]any{"finalizers": []any{"example.com/x"}}},
	}
	body := all[o.r.IntN(len(all))]
	return "merge patch " + string(asJSON(body)), o.patch(types.MergePatchType, manager, body)
}

// manyManagers makes more writers than the API server keeps apart.
func (o *oracle) manyManagers(string) (string, error) {
	for i := range 11 {
		body := o.body()
		body["metadata"] = map[string]any{"annotations": map[string]any{fmt.Sprintf("note-%d", i): fmt.Sprint(o.r.Int())}}
		if err := o.patch(types.MergePatchType, fmt.Sprintf("many-%d", i), body); err != nil {
			return "eleven managers", err
		}
	}
	return "eleven managers", nil
}

func (o *oracle) putBack(manager string) (string, error) {
	before, err := o.read()
	if err != nil {
		return "", err
	}
	what, err := o.jsonPatch(manager)
	if what == "" || err != nil {
		return what, err
	}
	now, err := o.read()
	if err != nil {
		return what, err
	}
	before.SetResourceVersion(now.GetResourceVersion())
	before.SetManagedFields(nil)
	_, err = o.objects.Update(o.t.Context(), before, metav1.UpdateOptions{FieldManager: manager})
	return what + " and back", err
}
