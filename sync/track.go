package sync

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trueup/trueup/diff"
)

// tracking is the value of the annotation by which an object names its Application and itself.
func tracking(app types.NamespacedName, id diff.ID) string {
	return app.String() + ":" + id.Group + "/" + id.Kind + ":" + id.Namespace + "/" + id.Name
}

// parseTracking reads what tracking wrote; ok is false for anything else.
func parseTracking(s string) (app types.NamespacedName, id diff.ID, ok bool) {
	parts := strings.Split(s, ":")
	// Names of RBAC objects may have colons in them: what is left over belongs to the name.
	if len(parts) < 3 {
		return app, id, false
	}
	var ok1, ok2, ok3 bool
	app.Namespace, app.Name, ok1 = strings.Cut(parts[0], "/")
	id.Group, id.Kind, ok2 = strings.Cut(parts[1], "/")
	id.Namespace, id.Name, ok3 = strings.Cut(strings.Join(parts[2:], ":"), "/")
	return app, id, ok1 && ok2 && ok3
}

// claimant returns which other tool says that an object is its own, and "" where none does.
func claimant(meta metav1.Object) string {
	labels, annotations := meta.GetLabels(), meta.GetAnnotations()
	switch {
	case annotations["argocd.argoproj.io/tracking-id"] != "":
		app, _, _ := strings.Cut(annotations["argocd.argoproj.io/tracking-id"], ":")
		return "the Argo CD Application " + app
	case labels["argocd.argoproj.io/instance"] != "":
		return "the Argo CD Application " + labels["argocd.argoproj.io/instance"]
	case labels["kustomize.toolkit.fluxcd.io/name"] != "":
		return "the Flux Kustomization " + labels["kustomize.toolkit.fluxcd.io/namespace"] + "/" + labels["kustomize.toolkit.fluxcd.io/name"]
	case labels["helm.toolkit.fluxcd.io/name"] != "":
		return "the Flux HelmRelease " + labels["helm.toolkit.fluxcd.io/namespace"] + "/" + labels["helm.toolkit.fluxcd.io/name"]
	case annotations["meta.helm.sh/release-name"] != "":
		return "the Helm release " + annotations["meta.helm.sh/release-namespace"] + "/" + annotations["meta.helm.sh/release-name"]
	case annotations["configsync.gke.io/resource-id"] != "":
		return "Config Sync"
	}
	return ""
}
