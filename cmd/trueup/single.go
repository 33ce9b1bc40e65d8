package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// setUpSingle makes the Application of `trueup agent --repo`, and its API where that is missing.
func (cl *cluster) setUpSingle(ctx context.Context, cfg agentConfig) (*unstructured.Unstructured, error) {
	app, err := cfg.Single.application(cfg.ApplicationNamespace)
	if err != nil {
		return nil, err
	}
	if err := cl.ensureAPI(ctx); err != nil {
		return nil, err
	}
	// Without force: an Application of this name that somebody else has made is theirs.
	_, err = cl.applyObject(ctx, app, metav1.ApplyOptions{FieldManager: agentManager})
	if apierrors.IsConflict(err) {
		return nil, fmt.Errorf("%s is somebody else's: choose another name with --name (%w)", describeObject(app), err)
	}
	return app, err
}

// application is the Application as it is applied.
func (s *singleConfig) application(namespace string) (*unstructured.Unstructured, error) {
	name, err := s.findApplicationName()
	if err != nil {
		return nil, err
	}
	source := map[string]any{"repoURL": s.Repo}
	if s.Path != "" {
		source["path"] = s.Path
	}
	if s.Chart != "" {
		source["chart"] = s.Chart
	}
	if s.Revision != "" {
		source["targetRevision"] = s.Revision
	}
	if s.Secret != "" {
		source["secretRef"] = map[string]any{"name": s.Secret}
	}
	spec := map[string]any{
		"source": source,
		"syncPolicy": map[string]any{
			"automated":   map[string]any{"prune": s.Prune, "selfHeal": s.SelfHeal},
			"syncOptions": []any{"CreateNamespace=true"},
		},
	}
	if s.Namespace != "" {
		spec["destination"] = map[string]any{"namespace": s.Namespace}
	}
	app := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	app.SetGroupVersionKind(v1alpha1.ApplicationKind)
	app.SetNamespace(namespace)
	app.SetName(name)
	return app, nil
}
