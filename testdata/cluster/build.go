package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// kubernetesLinks are the names that the binary kubernetes answers to.
var kubernetesLinks = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}

// build compiles the two programs into dir, links the components' names to them and copies kwok's stages.
func build(ctx context.Context, out io.Writer, source, dir string, v versions) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for the binaries: %w", err)
	}
	number := strings.SplitN(strings.TrimPrefix(v.kubernetes, "v"), ".", 3)
	if len(number) != 3 {
		return fmt.Errorf("reading go.mod: %s is no version of Kubernetes", v.kubernetes)
	}
	ldflags := "-s -w" // and the version of the servers and of the clients, which are in their user agents
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		ldflags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s -X %[1]s.gitCommit=release",
			pkg, v.kubernetes, number[0], number[1])
	}
	fmt.Fprintf(out, "Building Kubernetes %s and kwok %s from source, once: many minutes with an empty Go build cache, one with a full one.\n", v.kubernetes, v.kwok)
	for _, program := range []goBuild{
		{name: "kubernetes", pkg: "./kubernetes", ldflags: ldflags},
		{name: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", ldflags: "-s -w"},
	} {
		if err := program.run(ctx, out, source, filepath.Join(dir, program.name)); err != nil {
			return err
		}
	}
	for _, name := range kubernetesLinks {
		if err := os.Symlink("kubernetes", filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	kwok, err := runGo(ctx, source, func(string) {}, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok")
	if err != nil {
		return err
	}
	return copyStages(filepath.Join(strings.TrimSpace(kwok), "kustomize", "stage"), filepath.Join(dir, "stages"))
}

// stageFolders are the parts of kwok's own stages that are played. pod/chaos fails those pods that ask
// for it with a label.
var stageFolders = []string{"node/fast", "node/heartbeat", "pod/general", "pod/chaos", "volume/fast"}

func copyStages(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("making a folder for kwok's stages: %w", err)
	}
	for _, folder := range stageFolders {
		files, err := filepath.Glob(filepath.Join(from, filepath.FromSlash(folder), "*.yaml"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("copying kwok's stages: %s is not in %s", folder, from)
		}
		for _, file := range files {
			if slices.Contains([]string{"kustomization.yaml", "storage-class.yaml"}, filepath.Base(file)) {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("copying kwok's stages: %w", err)
			}
			if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), quicken(data), 0o644); err != nil {
				return fmt.Errorf("copying kwok's stages: %w", err)
			}
		}
	}
	return nil
}

// quicken shortens the delays of kwok's pods, so that one is ready within a second instead of ten. The
// annotations that set a pod's own delays work as they do in kwok.
func quicken(stage []byte) []byte {
	stage = regexp.MustCompile(`\bdurationMilliseconds: 1000\b`).ReplaceAll(stage, []byte("durationMilliseconds: 100"))
	stage = regexp.MustCompile(`\bjitterDurationMilliseconds: \d{4}\b`).ReplaceAll(stage, []byte("jitterDurationMilliseconds: 400"))
	// A kubelet stops a container that obeys SIGTERM at once; kwok waits for a part of the grace period.
	return regexp.MustCompile(`(?m)^ *jitterDurationFrom:\n *expressionFrom: '\.metadata\.deletionTimestamp'\n`).ReplaceAll(stage, nil)
}
