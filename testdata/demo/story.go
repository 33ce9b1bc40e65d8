package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

const (
	production = "overlays/production/kustomization.yaml"
	registry   = "registry.example.com/shop/"

	next = `  make demo KEEP=1               the same, and it stays up for you: commit, edit, break things
  make demo REPO=URL DIR=path    a repository of yours in a cluster of its own
  make cluster                   only the Kubernetes control plane
  README.md                      how to install Trueup, and how it decides`

	application = `apiVersion: trueup.dev/v1alpha1
kind: Application
metadata:
  name: shop
  namespace: trueup
spec:
  source:
    repoURL: %s
    path: overlays/production
    targetRevision: main
  destination:
    namespace: shop
  syncPolicy:
    automated: {prune: true, selfHeal: true}
    syncOptions: [CreateNamespace=true]
`
)

// story is what the demo tells, in order.
// story is what the demo tells, in order.
func story() []step {
	return []step{
		{
			title: "The shop comes up",
			tell: `The agent runs as the ServiceAccount of deploy/, with the permissions that an installation gives it.
kwok simulates nodes and pods, so the agent's own Deployment has no replicas: it runs beside it.`,
			do: openShop,
			see: []sight{
				{"the Application is Synced and Healthy", syncedAndHealthy},
				{"all Deployments have their pods ready", all(runs("web", "web:1.4.0"), runs("checkout", "checkout:2.0.3"), runs("search", "search:0.9.1"))},
			},
			show: []command{{line: "trueup status shop"}, {line: "kubectl -n shop get deployments,hpa,promotions"}},
		},
		{
			title: "A commit arrives",
			tell:  "A new image, and a setting in a ConfigMap that kustomize generates: a new one replaces the old one.",
			do: func(ctx context.Context, s *stage) error {
				return s.commit(ctx, "web 1.5.0 and winter", edit{production, "newTag: 1.4.0", "newTag: 1.5.0"}, edit{production, "Autumn sale", "Winter sale"})
			},
			see: []sight{
				{"web runs 1.5.0 in every pod", runs("web", "web:1.5.0")},
				{"the Application is Synced and Healthy", syncedAndHealthy},
				{"the ConfigMap with the old setting is gone", configMaps("web-settings-", 1)},
			},
			show: []command{{line: "trueup status"}, {line: "trueup status shop", only: "^Last syncs|Succeeded  automated"}},
		},
		{
			title: "A hand in the cluster is seen",
			tell:  "Self-heal is off for a moment, so that there is something to look at.",
			do: func(ctx context.Context, s *stage) error {
				if err := selfHeal(ctx, s, false); err != nil {
					return err
				}
				return s.run(ctx, "kubectl -n shop set image deployment/web web="+registry+"web:debug")
			},
			see: []sight{{"the status says which field, who and when", drifts("web", ".image", "kubectl-set", "")}},
			show: []command{
				{line: "trueup status shop", only: "^Sync|^Fields|←"},
				{line: `trueup diff shop; echo "The exit code is $?."`},
			},
		},
		{
			title: "It is put back",
			tell:  "Self-heal is on again. From here on an edit lives for as long as a watch event and one request take.",
			do: func(ctx context.Context, s *stage) (err error) {
				if err := selfHeal(ctx, s, true); err != nil {
					return err
				}
				if _, err := s.until(ctx, runs("web", "web:1.5.0")); err != nil {
					return err
				}
				if s.film, err = s.shoot(ctx, "checkout", replicas); err != nil {
					return err
				}
				return s.run(ctx, "kubectl -n shop scale deployment/checkout --replicas=7")
			},
			see: []sight{
				{"checkout has its replicas back", func(_ context.Context, s *stage) (string, error) { return s.film.healed() }},
				{"web runs 1.5.0 again", runs("web", "web:1.5.0")},
				{"an Event tells of each", told("Healed", "kubectl-set", "(scale)")},
			},
			show: []command{{line: "kubectl -n trueup get events", only: "Healed"}},
		},
		{
			title: "The autoscaler takes over replicas",
			tell:  "Customers come: the HPA sees the load of the pods of web and scales it up. Git says replicas: 2.",
			do: func(ctx context.Context, s *stage) error {
				s.metrics.load.Store(600)
				return nil
			},
			see: []sight{
				{"the HPA has scaled web to 5", scaled("web", 5)},
				{"the status says whose the field is now", drifts("web", ".spec.replicas", "kube-controller-manager", "Yield")},
				{"and the Application is still Synced and Healthy", syncedAndHealthy},
			},
			show: []command{{line: "kubectl -n shop get hpa web"}, {line: "trueup status shop", only: "^Sync|^Fields|←"}},
		},
		{
			title: "The next commit leaves it in peace",
			tell:  "Git still says replicas: 2 for the Deployment that changes now.",
			do: func(ctx context.Context, s *stage) (err error) {
				if s.film, err = s.shoot(ctx, "web", replicas); err != nil {
					return err
				}
				return s.commit(ctx, "web 1.6.0", edit{production, "newTag: 1.5.0", "newTag: 1.6.0"})
			},
			see: []sight{
				{"web runs 1.6.0 in every pod", runs("web", "web:1.6.0")},
				{"the Application is Synced and Healthy", syncedAndHealthy},
				{"replicas was never below 5", neverBelow(5)},
			},
			show: []command{{line: "kubectl -n shop get deployment web"}},
		},
		{
			title: "What leaves Git leaves the cluster",
			tell:  "The search service is given up.",
			do: func(ctx context.Context, s *stage) error {
				return s.commit(ctx, "No more search", edit{path: "base/search.yaml"}, edit{"base/kustomization.yaml", "  - search.yaml\n", ""})
			},
			see: []sight{
				{"its Deployment and its Service are gone", gone("search")},
				{"the Application is Synced and Healthy", syncedAndHealthy},
			},
			show: []command{{line: "trueup status shop", only: "^Last syncs|Succeeded  automated"}},
		},
		{
			title: "A broken commit is refused",
			tell:  "One file is indented wrongly, and the same commit has a new image. All of it stays out.",
			do: func(ctx context.Context, s *stage) error {
				return s.commit(ctx, "web 1.7.0 and a slip", edit{production, "newTag: 1.6.0", "newTag: 1.7.0"}, edit{"base/checkout.yaml", "          ports:", "         ports:"})
			},
			see: []sight{
				{"the status names the commit, the file and the line", refused("base/checkout.yaml:")},
				{"web runs 1.6.0 as before", runs("web", "web:1.6.0")},
			},
			show: []command{{line: "trueup status shop", only: "^Sync|^  Rendered"}},
		},
		{
			title: "And the last good state is kept",
			tell:  "Nobody has mended it yet. Somebody deletes a Service.",
			do: func(ctx context.Context, s *stage) error {
				return s.run(ctx, "kubectl -n shop delete service checkout")
			},
			see: []sight{
				{"the Service is there again", there("checkout")},
				{"the commit is still refused", refused("base/checkout.yaml:")},
			},
		},
		{
			title: "It is mended",
			tell:  "One more commit, and all that waited goes in.",
			do: func(ctx context.Context, s *stage) error {
				return s.commit(ctx, "Mend the indentation", edit{"base/checkout.yaml", "         ports:", "          ports:"})
			},
			see: []sight{
				{"web runs 1.7.0 in every pod", runs("web", "web:1.7.0")},
				{"the Application is Synced and Healthy", syncedAndHealthy},
			},
			show: []command{{line: "trueup status shop"}},
		},
	}
}

func openShop(ctx context.Context, s *stage) error {
	if err := s.install(ctx, "--allow 'example.com/*'"); err != nil {
		return err
	}
	if err := s.startAgent(ctx, "--poll-interval", "1s"); err != nil {
		return err
	}
	if err := os.WriteFile(s.path("application.yaml"), fmt.Appendf(nil, application, s.git.URL()), 0o644); err != nil {
		return err
	}
	return errors.Join(s.run(ctx, "cat ../application.yaml"), s.run(ctx, "kubectl apply -f ../application.yaml"))
}

// selfHeal switches the self-heal of the Application on or off, and waits until the agent knows.
func selfHeal(ctx context.Context, s *stage, on bool) error {
	if err := s.run(ctx, fmt.Sprintf(`kubectl -n trueup patch application shop --type merge -p '{"spec":{"syncPolicy":{"automated":{"selfHeal":%t}}}}'`, on)); err != nil {
		return err
	}
	_, err := s.until(ctx, func(ctx context.Context, s *stage) (string, error) {
		app, err := s.application(ctx, "shop")
		if err == nil && app.Status.ObservedGeneration != app.Generation {
			err = errors.New("the agent has not seen the Application's new spec")
		}
		return "", err
	})
	return err
}

func replicas(d *appsv1.Deployment) string { return strconv.Itoa(int(*d.Spec.Replicas)) }
