package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// look returns an error as long as something is not so, and then a detail for people, or "".
type look func(context.Context, *stage) (string, error)

func all(looks ...look) look {
	return func(ctx context.Context, s *stage) (string, error) {
		for _, look := range looks {
			if _, err := look(ctx, s); err != nil {
				return "", err
			}
		}
		return "", nil
	}
}

// syncedAndHealthy looks for the newest commit, whole, with everything in it healthy.
func syncedAndHealthy(ctx context.Context, s *stage) (string, error) {
	head, err := s.head(ctx)
	if err != nil {
		return "", err
	}
	app, err := s.application(ctx, "shop")
	if err != nil {
		return "", err
	}
	st := app.Status
	if st.Sync.Revision != head || st.Sync.SyncedRevision != head || st.Sync.Status != "Synced" || st.Health.Status != "Healthy" || st.ObservedGeneration != app.Generation {
		return "", fmt.Errorf("it is %s and %s at %.7s, not at %.7s: %s", st.Sync.Status, st.Health.Status, st.Sync.Revision, head, st.Health.Message)
	}
	return fmt.Sprintf(": %d objects at %s", st.Objects.Total, st.Sync.ShortRevision), nil
}

// runs looks for a Deployment that has rolled out an image.
func runs(deployment, image string) look {
	return func(ctx context.Context, s *stage) (string, error) {
		d, err := s.Kube.AppsV1().Deployments("shop").Get(ctx, deployment, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		st, got := d.Status, d.Spec.Template.Spec.Containers[0].Image
		if got != registry+image || st.ObservedGeneration != d.Generation || st.UpdatedReplicas != *d.Spec.Replicas || st.ReadyReplicas != st.UpdatedReplicas || st.Replicas != st.UpdatedReplicas {
			return "", fmt.Errorf("%s is to run %s in %d pods; %d are updated and %d ready", deployment, got, *d.Spec.Replicas, st.UpdatedReplicas, st.ReadyReplicas)
		}
		return "", nil
	}
}

func configMaps(prefix string, want int) look {
	return func(ctx context.Context, s *stage) (string, error) {
		list, err := s.Kube.CoreV1().ConfigMaps("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		var names []string
		for _, c := range list.Items {
			if strings.HasPrefix(c.Name, prefix) {
				names = append(names, c.Name)
			}
		}
		if len(names) != want {
			return "", fmt.Errorf("there are %v", names)
		}
		return "", nil
	}
}

// drifts looks for a field in the status that a manager has taken; decision "" is any.
func drifts(deployment, field, manager, decision string) look {
	return func(ctx context.Context, s *stage) (string, error) {
		app, err := s.application(ctx, "shop")
		if err != nil {
			return "", err
		}
		for _, d := range app.Status.Drift {
			if d.Name == deployment && strings.Contains(d.Path, field) && d.Manager == manager && (decision == "" || d.Decision == decision) && d.Time != nil {
				return "", nil
			}
		}
		return "", fmt.Errorf("the status has these fields: %v", app.Status.Drift)
	}
}

// told looks for an Event of a reason for each of the words.
func told(reason string, words ...string) look {
	return func(ctx context.Context, s *stage) (string, error) {
		events, err := s.Kube.CoreV1().Events("trueup").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return "", err
		}
		var messages []string
		for _, e := range events.Items {
			messages = append(messages, e.Message)
		}
		for _, word := range words {
			if !strings.Contains(strings.Join(messages, "\n"), word) {
				return "", fmt.Errorf("no Event %s speaks of %s: %q", reason, word, messages)
			}
		}
		return "", nil
	}
}

// scaled looks for an HPA that has the pods that it wants.
func scaled(name string, want int32) look {
	return func(ctx context.Context, s *stage) (string, error) {
		hpa, err := s.Kube.AutoscalingV2().HorizontalPodAutoscalers("shop").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if got := hpa.Status; got.CurrentReplicas != want || got.DesiredReplicas != want {
			return "", fmt.Errorf("it has %d pods, and wants %d", got.CurrentReplicas, got.DesiredReplicas)
		}
		return "", nil
	}
}

// neverBelow looks at the film: whatever was once below stays so, and so the story fails.
func neverBelow(least int) look {
	return func(_ context.Context, s *stage) (string, error) {
		for _, frame := range s.film.seen() {
			if n, err := strconv.Atoi(frame.value); err != nil || n < least {
				return "", fmt.Errorf("it went through %v", s.film.seen())
			}
		}
		return "", nil
	}
}

// there looks for a Service.
func there(service string) look {
	return func(ctx context.Context, s *stage) (string, error) {
		_, err := s.Kube.CoreV1().Services("shop").Get(ctx, service, metav1.GetOptions{})
		return "", err
	}
}

// gone looks for the absence of a Deployment and a Service.
func gone(name string) look {
	return func(ctx context.Context, s *stage) (string, error) {
		_, deployment := s.Kube.AppsV1().Deployments("shop").Get(ctx, name, metav1.GetOptions{})
		_, service := s.Kube.CoreV1().Services("shop").Get(ctx, name, metav1.GetOptions{})
		for _, err := range []error{deployment, service} {
			if !apierrors.IsNotFound(err) {
				return "", fmt.Errorf("it is still there (%v)", err)
			}
		}
		return "", nil
	}
}

// refused looks for a status that refuses the newest commit, because of a place in it.
func refused(place string) look {
	return func(ctx context.Context, s *stage) (string, error) {
		head, err := s.head(ctx)
		if err != nil {
			return "", err
		}
		app, err := s.application(ctx, "shop")
		if err != nil {
			return "", err
		}
		for _, c := range app.Status.Conditions {
			if c.Type == "Rendered" && c.Status == "False" && strings.Contains(c.Message, place) && app.Status.Sync.FailedRevision == head {
				return "", nil
			}
		}
		return "", fmt.Errorf("the conditions are %v", app.Status.Conditions)
	}
}
