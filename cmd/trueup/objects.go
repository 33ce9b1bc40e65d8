package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/trueup/trueup/deploy"
	"github.com/trueup/trueup/health"
)

// Field managers of what the command line writes itself.
const (
	installManager = "trueup-install"
	agentManager   = "trueup-agent" // of what `trueup agent --repo` sets up for itself
)

// pollInterval is the time between two looks at an object that is about to change.
const pollInterval = 200 * time.Millisecond

// client returns where obj is read and written.
func (cl *cluster) client(obj *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := obj.GroupVersionKind()
	mapping, err := cl.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("looking up the kind %s: %w", gvk.Kind, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return cl.Dynamic.Resource(mapping.Resource).Namespace(obj.GetNamespace()), nil
	}
	return cl.Dynamic.Resource(mapping.Resource), nil
}

// applyObject applies obj, and returns "created", "changed" or "unchanged".
func (cl *cluster) applyObject(ctx context.Context, obj *unstructured.Unstructured, how metav1.ApplyOptions) (string, error) {
	client, err := cl.client(obj)
	if err != nil {
		return "", err
	}
	before, err := client.Get(ctx, obj.GetName(), metav1.GetOptions{})
	created := apierrors.IsNotFound(err)
	if err != nil && !created {
		return "", fmt.Errorf("reading %s: %w", describeObject(obj), err)
	}
	after, err := client.Apply(ctx, obj.GetName(), obj, how)
	switch {
	case err != nil:
		return "", fmt.Errorf("applying %s: %w", describeObject(obj), err)
	case created:
		return "created", nil
	case before.GetResourceVersion() == after.GetResourceVersion():
		return "unchanged", nil
	}
	return "changed", nil
}

// waitEstablished waits until the API server serves the kind of a CustomResourceDefinition.
func (cl *cluster) waitEstablished(ctx context.Context, name string) error {
	crd, err := deploy.CRD()
	if err != nil {
		return err
	}
	crd.SetName(name)
	err = cl.poll(ctx, crd, func(now *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
				return true
			}
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("waiting for CustomResourceDefinition %s to be established: %w", name, err)
	}
	cl.mapper.Reset() // what was learned before does not have the new kind
	return nil
}

// waitReady waits until a Deployment is healthy; the error says what its Pods wait for.
func (cl *cluster) waitReady(ctx context.Context, deployment *unstructured.Unstructured) error {
	last := health.Result{Message: "it has no status yet"}
	err := cl.poll(ctx, deployment, func(now *unstructured.Unstructured) bool {
		last = cl.judge.Of(now)
		return last.Code == health.Healthy
	})
	if err == nil {
		return nil
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("waiting for %s: %w", describeObject(deployment), err)
	}
	return fmt.Errorf("waiting for %s: the time is over: %s%s", describeObject(deployment), last.Message,
		cl.whatPodsWaitFor(context.WithoutCancel(ctx), deployment))
}

// whatPodsWaitFor has one line for each Pod of a Deployment that is not healthy; empty where that cannot be read.
func (cl *cluster) whatPodsWaitFor(ctx context.Context, deployment *unstructured.Unstructured) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	labels, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	pod.SetNamespace(deployment.GetNamespace())
	client, err := cl.client(pod)
	if err != nil {
		return ""
	}
	pods, err := client.List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})})
	if err != nil {
		return ""
	}
	text := ""
	for i := range pods.Items {
		if r := cl.judge.Of(&pods.Items[i]); r.Code != health.Healthy {
			text += fmt.Sprintf("\n  %s: %s: %s", describeObject(&pods.Items[i]), r.Code, r.Message)
		}
	}
	return text
}

// poll reads obj until done says so, or ctx ends. An object that is not there is not done.
func (cl *cluster) poll(ctx context.Context, obj *unstructured.Unstructured, done func(*unstructured.Unstructured) bool) error {
	client, err := cl.client(obj)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		now, err := client.Get(ctx, obj.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && done(now), err
	})
}
