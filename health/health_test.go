package health

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWorst(t *testing.T) {
	order := []Code{Healthy, Suspended, Progressing, Missing, Degraded, Unknown}
	for i, better := range order {
		for _, worse := range order[i+1:] {
			if got := Worst(better, worse, better); got != worse {
				t.Errorf("want the worst of %s and %s to be %s, got %s", better, worse, worse, got)
			}
			if !worse.WorseThan(better) || better.WorseThan(worse) {
				t.Errorf("want %s to be worse than %s and not the other way", worse, better)
			}
		}
		if better.WorseThan(better) {
			t.Errorf("want %s not to be worse than itself", better)
		}
	}
	if got := Worst(); got != Healthy {
		t.Errorf("want nothing to be Healthy, got %s", got)
	}
	if !Code("Purple").WorseThan(Degraded) {
		t.Error("want a code that nobody knows to be as bad as Unknown")
	}
}

func TestMissing(t *testing.T) {
	want := Result{Missing, "NotFound", "not in the cluster", "missing"}
	for sentence, obj := range map[string]*unstructured.Unstructured{"nil": nil, "an empty object": {}} {
		if diff := cmp.Diff(want, Of(obj)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

func TestAbsent(t *testing.T) {
	missing := Result{Missing, "NotFound", "not in the cluster", "missing"}
	const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: migrate}, spec: {ttlSecondsAfterFinished: 60}}`
	for sentence, test := range map[string]struct {
		manifest string
		last     Code
		want     Result
	}{
		"a Job that its TTL deleted after success is Healthy": {
			job, Healthy, Result{Healthy, "DeletedAfterFinished", "completed, and deleted 60s later by its TTL", "builtin/Job"},
		},
		"a Job that its TTL deleted after failure is Degraded": {
			job, Degraded, Result{Degraded, "DeletedAfterFinished", "failed, and was deleted 60s later by its TTL", "builtin/Job"},
		},
		"a Job with a TTL of zero has a TTL": {
			`{apiVersion: batch/v1, kind: Job, spec: {ttlSecondsAfterFinished: 0}}`, Healthy,
			Result{Healthy, "DeletedAfterFinished", "completed, and deleted 0s later by its TTL", "builtin/Job"},
		},
		"a Job that was never seen is Missing":             {job, "", missing},
		"a Job that was running is Missing":                {job, Progressing, missing},
		"a Job without a TTL is Missing":                   {`{apiVersion: batch/v1, kind: Job, spec: {}}`, Healthy, missing},
		"a Deployment is Missing, however healthy it was":  {`{apiVersion: apps/v1, kind: Deployment}`, Healthy, missing},
		"a Job of another group is Missing, TTL or not":    {`{apiVersion: example.com/v1, kind: Job, spec: {ttlSecondsAfterFinished: 60}}`, Healthy, missing},
		"a Job whose spec is no object is simply Missing":  {`{apiVersion: batch/v1, kind: Job, spec: [1]}`, Healthy, missing},
		"a Job whose deletion was seen before it finished": {job, Suspended, missing},
	} {
		if diff := cmp.Diff(test.want, Absent(object(t, test.manifest), test.last)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

func TestJudged(t *testing.T) {
	for gk, want := range map[schema.GroupKind]bool{
		{Kind: "ConfigMap"}:      false,
		{Kind: "Secret"}:         false,
		{Kind: "ServiceAccount"}: false,
		{Kind: "ResourceQuota"}:  false,
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}: false,
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:       false,
		{Group: "storage.k8s.io", Kind: "StorageClass"}:           false,
		{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:       false,
		{Group: "apps", Kind: "Deployment"}:                       true,
		{Kind: "Pod"}:                                             true,
		{Kind: "PersistentVolumeClaim"}:                           true,
		{Group: "example.com", Kind: "Widget"}:                    true,
		{Group: "example.com", Kind: "ConfigMap"}:                 true,
	} {
		if got := Judged(gk); got != want {
			t.Errorf("want Judged(%s) %v, got %v", gk, want, got)
		}
	}
	for gk := range builtins {
		if !Judged(gk) {
			t.Errorf("%s has a function, so it has to be judged", gk)
		}
	}
}
