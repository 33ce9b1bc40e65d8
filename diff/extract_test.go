package diff

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Server-side apply orders list items as they are applied, and another order of variables is another pod.
func TestWhatIsHandedOverKeepsItsOrder(t *testing.T) {
	live := &unstructured.Unstructured{Object: config(t, withKind(`{spec: {containers: [{name: web, image: x, env: [{name: C, value: "3"}, {name: A, value: "1"}, {name: B}]}, {name: side}], set: [b, a]}}`))}
	fields, err := ParseFields(managed(t, `trueup Apply {"f:spec": {"f:containers": { "k:{\"name\":\"side\"}": {".": {}, "f:name": {}}, "k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:env": { 	"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}, "k:{\"name\":\"B\"}": {".": {}, "f:name": {}}, 	"k:{\"name\":\"C\"}": {".": {}, "f:name": {}, "f:value": {}}}}}, "f:set": {"v:\"a\"": {}, "v:\"b\"": {}}}}`), manager)
	if err != nil {
		t.Fatal(err)
	}
	var paths []fieldpath.Path
	for p := range fields.own.All() {
		paths = append(paths, p.Copy())
	}
	want := config(t, withKind(`{spec: {containers: [{name: web, env: [{name: C, value: "3"}, {name: A, value: "1"}, {name: B}]}, {name: side}], set: [b, a]}}`))["spec"]
	if diff := cmp.Diff(want, Extract(live, paths).Object["spec"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
