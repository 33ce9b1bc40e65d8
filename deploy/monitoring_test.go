package deploy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// metricName is a metric of Trueup in an expression.
var metricName = regexp.MustCompile(`\btrueup_[a-z_]+`)

func TestMonitoringAsksOnlyForMetricsThatThereAre(t *testing.T) {
	registered, err := os.ReadFile("../sync/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range []string{"monitoring/alerts.yaml", "monitoring/dashboard.json"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(data), -1) {
			seen++
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				name = strings.TrimSuffix(name, suffix)
			}
			if !strings.Contains(string(registered), `"`+name+`"`) {
				t.Errorf("%s asks for %s, which the agent does not have", file, name)
			}
		}
	}
	if seen == 0 {
		t.Error("no metric was found in any expression")
	}
}

func TestMonitoringRenders(t *testing.T) {
	objects, err := build(filesys.MakeFsOnDisk(), "monitoring")
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string]bool)
	for _, o := range objects {
		kinds[o.GetKind()] = true
		if o.GetNamespace() != Namespace {
			t.Errorf("%s is in namespace %q", o.GetKind(), o.GetNamespace())
		}
	}
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule", "ConfigMap"} {
		if !kinds[kind] {
			t.Errorf("no %s", kind)
		}
	}
}
