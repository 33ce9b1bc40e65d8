package source

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// deployment is an object of the size that people write.
func deployment(name string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
  labels: {app: %[1]s}
spec:
  replicas: 2
  selector:
    matchLabels: {app: %[1]s}
  template:
    metadata:
      labels: {app: %[1]s}
    spec:
      containers:
      - name: main
        image: registry.example.com/%[1]s:1.0
        ports:
        - {name: http, containerPort: 8080}
        env:
        - {name: A, value: "1"}
        - {name: B, valueFrom: {configMapKeyRef: {name: settings, key: b}}}
        resources:
          requests: {cpu: 100m, memory: 64Mi}
          limits: {memory: 128Mi}
`, name)
}

// thousand is an application of 1,001 objects as plain files, and as a kustomization of them.
func thousand() map[string]string {
	files := map[string]string{}
	var resources []string
	for i := range 100 {
		var docs []string
		for j := range 10 {
			docs = append(docs, deployment(fmt.Sprintf("web-%d-%d", i, j)))
		}
		name := fmt.Sprintf("part-%d.yaml", i)
		files["plain/"+name] = strings.Join(docs, "---\n")
		files["base/"+name] = files["plain/"+name]
		resources = append(resources, name)
	}
	files["plain/settings.yaml"] = configMap("settings", "1")
	files["base/settings.yaml"] = configMap("settings", "1")
	files["base/kustomization.yaml"] = "resources: [settings.yaml, " + strings.Join(resources, ", ") + "]\n"
	files["overlay/kustomization.yaml"] = "namespace: shop\nnamePrefix: eu-\nresources: [../base]\nimages: [{name: registry.example.com/web-1-1, newTag: \"2.0\"}]\n"
	return files
}

func BenchmarkRender(b *testing.B) {
	files := thousand()
	tree := commitTree(b, files)
	memory := filesys.MakeFsInMemory()
	for name, content := range files {
		if err := memory.WriteFile("/"+name, []byte(content)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			if got, err := Render(b.Context(), tree, "plain", Options{}); err != nil || len(got.Objects) != 1001 {
				b.Fatal(len(got.Objects), err)
			}
		}
	})
	for _, dir := range []string{"base", "overlay"} {
		b.Run(dir+" against krusty alone", func(b *testing.B) {
			ours := func() {
				if got, err := Render(b.Context(), tree, dir, Options{}); err != nil || len(got.Objects) != 1001 {
					b.Fatal(len(got.Objects), err)
				}
			}
			alone := func() { runKrusty(b, memory, dir) }
			var times, aloneTimes, ratios []float64
			for b.Loop() {
				// Side by side, each first in turn: what else the machine does falls on both.
				var took, tookAlone float64
				if len(ratios)%2 == 0 {
					took, tookAlone = seconds(ours), seconds(alone)
				} else {
					tookAlone, took = seconds(alone), seconds(ours)
				}
				times, aloneTimes, ratios = append(times, took), append(aloneTimes, tookAlone), append(ratios, took/tookAlone)
			}
			b.ReportMetric(median(times), "s")
			b.ReportMetric(median(aloneTimes), "s-krusty")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// runKrusty renders a folder with kustomize's own library as kubectl does, and prints nothing.
func runKrusty(b *testing.B, fs filesys.FileSystem, dir string) {
	opts := krusty.MakeDefaultOptions()
	opts.Reorder = krusty.ReorderOptionUnspecified
	if m, err := krusty.MakeKustomizer(opts).Run(fs, "/"+dir); err != nil || m.Size() != 1001 {
		b.Fatal(err)
	}
}

func seconds(f func()) float64 {
	runtime.GC() // what the other has left is not this one's work
	start := time.Now()
	f()
	return time.Since(start).Seconds()
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
