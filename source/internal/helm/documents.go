package helm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"

	"github.com/trueup/trueup/source/internal/manifest"
)

// add adds the documents of one rendered file to out. YAML is read as Helm reads it.
func (r *renderer) add(out *Answer, name, content string, isCRD bool) error {
	file := r.place(name)
	split := releaseutil.SplitManifests(content)
	order := make([]string, 0, len(split))
	for key := range split {
		order = append(order, key)
	}
	slices.SortFunc(order, func(a, b string) int {
		first, _ := strconv.Atoi(strings.TrimPrefix(a, "manifest-"))
		second, _ := strconv.Atoi(strings.TrimPrefix(b, "manifest-"))
		return first - second
	})
	lines := r.lines(name, len(order), content, isCRD)
	for i, key := range order {
		if err := manifest.CheckYAML(file, []byte(split[key])); err != nil {
			return fmt.Errorf("what the chart renders to: %w", err)
		}
		document, err := yaml.YAMLToJSON([]byte(split[key]))
		if err != nil {
			return fmt.Errorf("%s: what it renders to is no valid YAML (in document %d): %s", file, i+1, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if string(document) != "null" { // comments are nowhere
			out.Documents = append(out.Documents, Document{File: file, Line: lines[i], JSON: document})
		}
	}
	return nil
}

// Place returns file:line, or what is known of it.
func Place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// lines returns where each document of a file has its apiVersion in its template, as far as that can be told: where the
// template has as many of them as what it renders to has documents.
func (r *renderer) lines(name string, documents int, content string, isCRD bool) []int {
	if !isCRD {
		content = r.template(name)
	}
	var found []int
	for i, line := range strings.Split(content, "\n") {
		if strings.HasPrefix(line, "apiVersion:") {
			found = append(found, i+1)
		}
	}
	if len(found) != documents {
		return make([]int, documents)
	}
	return found
}

// template returns the text of a template as its author wrote it, "" if there is none of that name.
func (r *renderer) template(name string) string {
	c := r.chart
	rel := strings.TrimPrefix(name, c.Name()+"/")
	for strings.HasPrefix(rel, "charts/") {
		sub, rest, _ := strings.Cut(strings.TrimPrefix(rel, "charts/"), "/")
		found := false
		for _, d := range c.Dependencies() {
			if d.Name() == sub {
				c, rel, found = d, rest, true
				break
			}
		}
		if !found {
			return ""
		}
	}
	for _, t := range c.Templates {
		if t.Name == rel {
			return strings.TrimPrefix(string(t.Data), fmt.Sprintf("{{%s %q}}", atFunction, name))
		}
	}
	return ""
}

// markRandom notes in documents what is different in another render of the same.
func markRandom(documents, again []Document) {
	for i := range documents {
		d := &documents[i]
		if len(documents) != len(again) || again[i].File != d.File {
			d.Random = []string{""}
			continue
		}
		if bytes.Equal(d.JSON, again[i].JSON) {
			continue
		}
		var a, b any
		if json.Unmarshal(d.JSON, &a) == nil && json.Unmarshal(again[i].JSON, &b) == nil {
			d.Random = differences(nil, "", a, b)
		}
		for _, pointer := range d.Random {
			if slices.Contains([]string{"/kind", "/apiVersion", "/metadata/name", "/metadata/namespace"}, pointer) {
				d.Random = []string{""}
				break
			}
		}
	}
}

// differences appends the JSON pointers to the smallest values that differ. A list of another length differs as a whole.
func differences(out []string, at string, a, b any) []string {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			for _, k := range union(a, b) {
				out = differences(out, at+"/"+pointerEscape.Replace(k), a[k], b[k])
			}
			return out
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				out = differences(out, at+"/"+strconv.Itoa(i), a[i], b[i])
			}
			return out
		}
	}
	if reflect.DeepEqual(a, b) {
		return out
	}
	return append(out, at)
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

func union(a, b map[string]any) []string {
	keys := make([]string, 0, len(a))
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, both := a[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}
