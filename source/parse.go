package source

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trueup/trueup/source/internal/manifest"
)

// Parse returns the objects of one YAML or JSON file in their order, lists expanded into their items. It returns nil
// where the file is well-formed and no Kubernetes manifest. Errors name file and line.
func Parse(file string, content []byte) ([]Object, error) {
	docs, err := manifest.Parse(file, content)
	if err != nil || docs == nil {
		return nil, err
	}
	objects := make([]Object, len(docs))
	for i, d := range docs {
		objects[i] = Object{Unstructured: &unstructured.Unstructured{Object: d.Object}, File: file, Line: d.Line}
	}
	return objects, nil
}
