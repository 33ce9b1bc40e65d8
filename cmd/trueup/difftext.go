package main

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/trueup/trueup/sync"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// changeDiff is the unified diff of one object, from what is live to what a sync would leave.
func changeDiff(change sync.Change) (string, error) {
	live, next := withoutNoise(change.Live), withoutNoise(change.Next)
	maskSecret(live, next)
	change.Hide(live, next)
	before, err := objectText(live)
	if err != nil {
		return "", err
	}
	after, err := objectText(next)
	if err != nil {
		return "", err
	}
	to := change.ID.String() + " (Git)"
	if change.Desired != nil {
		to = change.ID.String() + " (" + change.Desired.Origin + ")"
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: lines(before), B: lines(after),
		FromFile: change.ID.String() + " (live)", ToFile: to, Context: 3,
	})
	if err != nil {
		return "", fmt.Errorf("comparing %s: %w", change.ID, err)
	}
	if text == "" { // only who owns a field, or how it is kept account of
		text = fmt.Sprintf("--- %s (live)\n+++ %s\n", change.ID, to)
	}
	return urlPassword.ReplaceAllString(text, "${1}***@"), nil
}

// urlPassword is the password in a URL, with what is before it.
var urlPassword = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)

// lines splits a text as difflib wants it; an empty text has no line.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return difflib.SplitLines(strings.TrimSuffix(text, "\n"))
}

// withoutNoise returns a copy without what the API server and Trueup keep account of; nil stays nil.
func withoutNoise(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj == nil {
		return nil
	}
	obj = obj.DeepCopy()
	for _, path := range [][]string{
		{"status"},
		{"metadata", "managedFields"}, {"metadata", "resourceVersion"}, {"metadata", "generation"},
		{"metadata", "uid"}, {"metadata", "creationTimestamp"}, {"metadata", "selfLink"},
		{"metadata", "annotations", v1alpha1.AnnotationApplied},
		{"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"}, // has the data of Secrets, too
	} {
		unstructured.RemoveNestedField(obj.Object, path...)
	}
	if len(obj.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(obj.Object, "metadata", "annotations")
	}
	return obj
}

func objectText(obj *unstructured.Unstructured) (string, error) {
	if obj == nil {
		return "", nil
	}
	data, err := yaml.Marshal(obj.Object)
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", describeObject(obj), err)
	}
	return string(data), nil
}

// maskSecret hides the values of a Secret in both of its versions, so that only which of them differ is seen.
func maskSecret(live, next *unstructured.Unstructured) {
	before, after := secretData(live), secretData(next)
	for key, value := range after {
		old, both := before[key]
		switch {
		case !both:
			after[key] = hidden
		case old == value:
			before[key], after[key] = hidden, hidden
		default:
			before[key], after[key] = hidden+" (before)", hidden+" (after)"
		}
	}
	for key := range before {
		if _, both := after[key]; !both {
			before[key] = hidden
		}
	}
}

// hidden stands for a value of a Secret, whatever its length.
const hidden = "***"

// secretData returns the data of a Secret, to be changed in place; nil for anything else. stringData is made a part of
// it, as the API server does.
func secretData(obj *unstructured.Unstructured) map[string]any {
	if obj == nil || obj.GetKind() != "Secret" || obj.GroupVersionKind().Group != "" {
		return nil
	}
	data, _ := obj.Object["data"].(map[string]any)
	plain, _ := obj.Object["stringData"].(map[string]any)
	if data == nil && len(plain) > 0 {
		data = make(map[string]any)
	}
	for key, value := range plain {
		data[key] = base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(value)))
	}
	delete(obj.Object, "stringData")
	if data != nil {
		obj.Object["data"] = data
	}
	return data
}

// paintDiff colours a unified diff line by line. writers says who wrote a line of the object as it is, by its number.
func (p palette) paintDiff(text string, writers map[int]string) string {
	var out strings.Builder
	line, inHunk := 0, false // of the object as it is
	for raw := range strings.Lines(text) {
		content := strings.TrimSuffix(raw, "\n")
		s, writer := plain, ""
		switch {
		case strings.HasPrefix(content, "@@"):
			s, inHunk = cyan, true
			_, _ = fmt.Sscanf(content, "@@ -%d", &line)
			line--
		case !inHunk:
			s = bold
		case strings.HasPrefix(content, "-"):
			line++
			s, writer = red, writers[line]
		case strings.HasPrefix(content, "+"):
			s = green
		default:
			line++
		}
		out.WriteString(p.paint(s, content))
		if writer != "" {
			out.WriteString(p.paint(dim, "  ← "+writer))
		}
		out.WriteString("\n")
	}
	return out.String()
}
