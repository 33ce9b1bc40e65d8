package diff

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/value"
	"sigs.k8s.io/yaml"
)

// config reads a configuration. Its numbers are as a client decodes them.
func config(t testing.TB, manifest string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u.Object
}

// times are those of the entries, in their order.
var times = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// managed reads managed fields, a line each: manager, operation, with a subresource after a slash, and fields as JSON
// or YAML in flow style. Each line is a minute younger than the one before. The version is v1 unless one follows an @.
func managed(t testing.TB, lines string) []metav1.ManagedFieldsEntry {
	t.Helper()
	var entries []metav1.ManagedFieldsEntry
	for i, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		parts := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(parts) < 3 {
			continue
		}
		name, version, ok := strings.Cut(parts[0], "@")
		if !ok {
			version = "v1"
		}
		operation, subresource, _ := strings.Cut(parts[1], "/")
		at := metav1.NewTime(times.Add(time.Duration(i) * time.Minute))
		e := metav1.ManagedFieldsEntry{
			Manager: name, Operation: metav1.ManagedFieldsOperationType(operation), Subresource: subresource,
			APIVersion: version, Time: &at, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{},
		}
		raw, err := yaml.YAMLToJSON([]byte(parts[2]))
		if err != nil {
			t.Fatal(err)
		}
		e.FieldsV1.SetRawBytes(raw)
		entries = append(entries, e)
	}
	return entries
}

func fields(t testing.TB, lines string) Fields {
	t.Helper()
	f, err := ParseFields(managed(t, lines), manager)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// show writes managed fields back as managed reads them.
func show(t testing.TB, entries []metav1.ManagedFieldsEntry) []string {
	t.Helper()
	var lines []string
	for _, e := range entries {
		set := ""
		if e.FieldsV1 != nil {
			set = string(e.FieldsV1.GetRawBytes())
		}
		operation := string(e.Operation)
		if e.Subresource != "" {
			operation += "/" + e.Subresource
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", e.Manager, operation, set))
	}
	return lines
}

func smdString(s string) value.Value { return value.NewValueInterface(s) }
