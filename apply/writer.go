package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Writer writes objects to one cluster. Safe for concurrent use.
type Writer struct {
	client  dynamic.Interface
	kinds   *Kinds
	manager string
	slots   chan struct{}
}

// NewWriter returns a Writer that applies as the field manager, with at most concurrency requests at once,
// however many callers it has.
func NewWriter(client dynamic.Interface, kinds *Kinds, manager string, concurrency int) *Writer {
	return &Writer{client: client, kinds: kinds, manager: manager, slots: make(chan struct{}, concurrency)}
}

// Object is one object to apply.
type Object struct {
	// Config is the configuration; Seal may write to its metadata, nothing else changes it.
	Config *unstructured.Unstructured
	// ResourceVersion is the version that the decisions below were made about: when the object has changed meanwhile
	// the API server answers with a conflict. It is required where Force or Fold is set.
	ResourceVersion string
	// Force takes fields from their owners.
	Force bool
	// Fold are managed fields to write first; see diff.Fold. Nil for none.
	Fold []metav1.ManagedFieldsEntry
	// First is a configuration to apply before Config: one without fields that Config declares empty. The API server makes
	// null of a list of which server-side apply removes the last item, also where the configuration has it as an empty
	// one, and a CustomResourceDefinition's schema does not take that. Nil for none.
	First *unstructured.Unstructured
	// Release are configurations to apply first under ReleaseManager, so that values which leave Config stay.
	Release        *unstructured.Unstructured
	ReleaseManager string
	// Seal writes into config what is only known from the answer to a dry-run, and again from the answer to the
	// apply itself; it reports whether config changed. Nil for nothing.
	Seal func(config, answer *unstructured.Unstructured) (changed bool)
	// Sealed says that Config is as it is to be stored, by a dry-run or by what is known of an earlier apply.
	Sealed bool
}

func (o *Object) String() string { return name(o.Config) }

func name(u *unstructured.Unstructured) string {
	if ns := u.GetNamespace(); ns != "" {
		return u.GetKind() + " " + ns + "/" + u.GetName()
	}
	return u.GetKind() + " " + u.GetName()
}

// DryRun applies o without effect, seals it, and returns the object as it would be stored, managed fields included.
// It blocks for one request. A fold or release is not part of it: those cannot be tried without writing.
func (w *Writer) DryRun(ctx context.Context, o *Object) (*unstructured.Unstructured, error) {
	answer, err := w.apply(ctx, o, o.Config, w.manager, metav1.DryRunAll)
	if err != nil {
		return nil, fmt.Errorf("checking %s: %w", o, err)
	}
	if o.Seal != nil {
		o.Seal(o.Config, answer)
	}
	o.Sealed = true
	return answer, nil
}

// Apply writes o: folds, releases, checks with a dry-run where it is not sealed, and applies. It returns the stored
// object. An object whose field set turns out other than the dry-run foretold is applied once more with the right
// digest, and so is a custom resource that has lost what Config declares empty. It blocks for the requests that this takes.
func (w *Writer) Apply(ctx context.Context, o *Object) (*unstructured.Unstructured, error) {
	prepared := *o
	if err := w.prepare(ctx, &prepared); err != nil {
		return nil, err
	}
	if !prepared.Sealed {
		if _, err := w.DryRun(ctx, &prepared); err != nil {
			return nil, err
		}
	}
	answer, err := w.apply(ctx, &prepared, o.Config, w.manager)
	if err == nil && (o.Seal != nil && o.Seal(o.Config, answer) || !IsBuiltin(o.Config.GroupVersionKind().Group) && lacksEmpty(answer.Object, o.Config.Object)) {
		if prepared.ResourceVersion = ""; o.Force {
			prepared.ResourceVersion = answer.GetResourceVersion()
		}
		answer, err = w.apply(ctx, &prepared, o.Config, w.manager)
	}
	if err != nil {
		return nil, fmt.Errorf("applying %s: %w", o, err)
	}
	return answer, nil
}

// lacksEmpty reports whether an empty map of config is not in the stored object: server-side apply makes null of a map from
// which it removes the last field, also where the configuration has it as an empty one. Built-in kinds keep no empty maps.
func lacksEmpty(stored, config map[string]any) bool {
	for name, v := range config {
		want, ok := v.(map[string]any)
		if !ok {
			continue
		}
		have, there := stored[name].(map[string]any)
		if len(want) == 0 && stored[name] == nil || there && lacksEmpty(have, want) {
			return true
		}
	}
	return false
}

// prepare does what must be written before the apply itself, and moves o's resource version along. What is folded are
// the managed fields as they were looked at: they come first, so that they do not undo the release.
func (w *Writer) prepare(ctx context.Context, o *Object) error {
	if o.Fold != nil {
		version, err := w.fold(ctx, o)
		if err != nil {
			return fmt.Errorf("taking over fields of %s: %w", o, err)
		}
		// What comes next takes nothing by force unless it says so, and then only from the version that was looked at.
		if o.ResourceVersion = ""; o.Force {
			o.ResourceVersion = version
		}
	}
	if o.Release != nil {
		release := &Object{Config: o.Release}
		answer, err := w.apply(ctx, release, o.Release, o.ReleaseManager)
		switch {
		case err == nil:
			o.moveTo(answer)
		case Classify(err) != Conflict: // a conflict says that somebody else has the field: just what is wanted
			return fmt.Errorf("handing over fields of %s: %w", o, err)
		}
	}
	if o.First != nil {
		answer, err := w.apply(ctx, o, o.First, w.manager)
		if err != nil {
			return fmt.Errorf("emptying fields of %s: %w", o, err)
		}
		o.moveTo(answer)
	}
	return nil
}

// moveTo goes on from the version that one of our own writes has made.
func (o *Object) moveTo(answer *unstructured.Unstructured) {
	if o.ResourceVersion != "" {
		o.ResourceVersion = answer.GetResourceVersion()
	}
}

// fold writes managed fields by a JSON patch that is a conflict when the object is not the one they were computed from.
func (w *Writer) fold(ctx context.Context, o *Object) (version string, err error) {
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": o.ResourceVersion},
		{"op": "replace", "path": "/metadata/managedFields", "value": o.Fold},
	})
	if err != nil {
		return "", err
	}
	answer, err := w.request(ctx, o.Config, func(ctx context.Context, r dynamic.ResourceInterface) (*unstructured.Unstructured, error) {
		return r.Patch(ctx, o.Config.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: w.manager})
	})
	if err != nil {
		return "", err
	}
	return answer.GetResourceVersion(), nil
}

// Try reports by a dry-run whether the API server would store next in place of live, both whole objects; nil where it
// would. Only what is beside their metadata is looked at. It blocks for one request.
func (w *Writer) Try(ctx context.Context, live, next *unstructured.Unstructured) error {
	patch := []map[string]any{{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()}}
	for field, value := range next.Object {
		switch field {
		case "apiVersion", "kind", "metadata", "status":
		default:
			patch = append(patch, map[string]any{"op": "add", "path": "/" + field, "value": value})
		}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = w.request(ctx, live, func(ctx context.Context, r dynamic.ResourceInterface) (*unstructured.Unstructured, error) {
		return r.Patch(ctx, live.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: w.manager, DryRun: []string{metav1.DryRunAll}})
	})
	if err != nil {
		return fmt.Errorf("trying %s: %w", name(live), brief(err))
	}
	return nil
}

func (w *Writer) apply(ctx context.Context, o *Object, config *unstructured.Unstructured, manager string, dryRun ...string) (*unstructured.Unstructured, error) {
	sent := config
	if o.ResourceVersion != "" {
		sent = &unstructured.Unstructured{Object: shallow(config.Object)}
		sent.SetResourceVersion(o.ResourceVersion)
	}
	body, err := json.Marshal(sent.Object)
	if err != nil {
		return nil, err
	}
	opts := metav1.PatchOptions{FieldManager: manager, Force: &o.Force, DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict}
	answer, err := w.request(ctx, config, func(ctx context.Context, r dynamic.ResourceInterface) (*unstructured.Unstructured, error) {
		return r.Patch(ctx, config.GetName(), types.ApplyPatchType, body, opts)
	})
	return answer, brief(err)
}

// shallow copies the top level and the metadata of an object, which is as deep as the caller writes.
func shallow(object map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for k, v := range object {
		out[k] = v
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		copied := make(map[string]any, len(metadata)+1)
		for k, v := range metadata {
			copied[k] = v
		}
		out["metadata"] = copied
	}
	return out
}

// Create makes an object that nobody has made yet; it is no error that somebody has. It blocks for one request.
func (w *Writer) Create(ctx context.Context, u *unstructured.Unstructured) error {
	_, err := w.CreateNew(ctx, u, false)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// CreateNew makes an object, or with dryRun only tries to, and returns it as stored. That it is there already is an error
// for which apierrors.IsAlreadyExists holds, also of a dry-run: then it is valid. It blocks for one request.
func (w *Writer) CreateNew(ctx context.Context, u *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	opts := metav1.CreateOptions{FieldManager: w.manager, FieldValidation: metav1.FieldValidationStrict}
	doing := "creating"
	if dryRun {
		opts.DryRun, doing = []string{metav1.DryRunAll}, "checking"
	}
	answer, err := w.request(ctx, u, func(ctx context.Context, r dynamic.ResourceInterface) (*unstructured.Unstructured, error) {
		return r.Create(ctx, u, opts)
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", doing, name(u), brief(err))
	}
	return answer, nil
}

// Get reads an object as it is stored.
func (w *Writer) Get(ctx context.Context, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live, err := w.request(ctx, u, func(ctx context.Context, r dynamic.ResourceInterface) (*unstructured.Unstructured, error) {
		return r.Get(ctx, u.GetName(), metav1.GetOptions{})
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name(u), err)
	}
	return live, nil
}

// Target is one object to delete: exactly the one with this UID at this version.
type Target struct {
	Kind            Kind
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
}

// Delete deletes the target; its dependents go in the background. It is no error when the object is gone already.
// A conflict means that it is another object by now, or has changed since it was looked at.
func (w *Writer) Delete(ctx context.Context, t Target) error {
	background := metav1.DeletePropagationBackground
	opts := metav1.DeleteOptions{
		PropagationPolicy: &background,
		Preconditions:     &metav1.Preconditions{UID: &t.UID, ResourceVersion: &t.ResourceVersion},
	}
	if err := w.take(ctx); err != nil {
		return err
	}
	defer w.give()
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return w.resource(t.Kind, t.Namespace).Delete(ctx, t.Name, opts)
}

// requestTime bounds one request, beyond what the API server itself allows (a minute, webhooks included), so that a
// connection on which nothing comes back does not hold a worker for ever.
const requestTime = 75 * time.Second

func (w *Writer) request(ctx context.Context, u *unstructured.Unstructured, send func(context.Context, dynamic.ResourceInterface) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	kind, err := w.kinds.Of(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := w.take(ctx); err != nil {
		return nil, err
	}
	defer w.give()
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return send(ctx, w.resource(kind, u.GetNamespace()))
}

func (w *Writer) resource(k Kind, namespace string) dynamic.ResourceInterface {
	if k.Namespaced {
		return w.client.Resource(k.Resource).Namespace(namespace)
	}
	return w.client.Resource(k.Resource)
}

func (w *Writer) take(ctx context.Context) error {
	select {
	case w.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Writer) give() { <-w.slots }
