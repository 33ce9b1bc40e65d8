package diff

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestUntangle(t *testing.T) {
	const ours = `trueup Apply {"f:spec": {"f:type": {}}}`
	volume := func(fields string) string {
		return inTemplate(`{"f:volumes": {'k:{"name":"v"}': ` + fields + `}}`)
	}
	for name, c := range map[string]struct {
		declared, live, managed string
		refused                 []string
		reach                   Reach
		extras, held            []string
	}{
		"a default that the refusal names": {
			`{spec: {type: Recreate}}`, `{spec: {type: RollingUpdate, rolling: {surge: 1}, other: x}}`, ours,
			[]string{"spec.rolling"}, Named,
			[]string{".spec.rolling a default that does not go together with what Git declares"}, nil,
		},
		"below a field that Git does not declare, that field": {
			`{spec: {type: Recreate}}`, `{spec: {type: RollingUpdate, rolling: {surge: 1}}}`, ours + `
			some-operator Update {"f:spec": {"f:type": {}, "f:rolling": {".": {}, "f:surge": {}}}}`,
			[]string{"spec.rolling.surge"}, Named,
			[]string{".spec.rolling does not go together with what Git declares, set by some-operator"}, nil,
		},
		"what another tool applies is held": {
			`{spec: {type: Recreate}}`, `{spec: {type: RollingUpdate, rolling: {surge: 1}}}`, ours + `
			flux Apply {"f:spec": {"f:rolling": {"f:surge": {}}}}`,
			[]string{"spec.rolling"}, Named,
			nil, []string{".spec.rolling flux"},
		},
		"a declared field that is refused for itself": {
			`{spec: {type: wrong}}`, `{spec: {type: RollingUpdate, rolling: {surge: 1}}}`, ours,
			[]string{"spec.type"}, Named,
			nil, nil,
		},
		"one of several sources of a volume, whatever its place": {
			inPod(`{volumes: [{name: v, configMap: {name: c}}]}`), inPod(`{volumes: [{name: first}, {name: v, emptyDir: {}, size: 1}]}`),
			`trueup Apply ` + volume(`{".": {}, "f:name": {}}`),
			[]string{"spec.template.spec.volumes[0].configMap"}, Beside,
			[]string{`.spec.template.spec.volumes[name="v"].emptyDir a default that does not go together with what Git declares`}, nil,
		},
		"what somebody set in the map that is refused": {
			`{spec: {most: 1}}`, `{spec: {least: 1, defaulted: 1}}`, `some-operator Update {"f:spec": {"f:least": {}}}`,
			[]string{"spec"}, Beside,
			[]string{".spec.least does not go together with what Git declares, set by some-operator"}, nil,
		},
		"an item that has the same name as one of Git's": {
			`{spec: {ports: [{port: 83, name: http}]}}`, `{spec: {ports: [{port: 81, protocol: TCP, name: more}, {port: 80, protocol: TCP, name: http, app: x}]}}`,
			`trueup Apply {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}}}}
			some-operator Update {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:app": {}}, 'k:{"port":81,"protocol":"TCP"}': {".": {}, "f:port": {}}}}}`,
			[]string{"spec.ports[1].name"}, Named,
			[]string{`.spec.ports[port=80,protocol="TCP"] does not go together with what Git declares, set by some-operator`}, nil,
		},
		"nothing of the metadata and the status": {
			`{spec: {most: 1}}`, `{metadata: {labels: {x: "1"}}, spec: {most: 1}, status: {x: 1}}`, ours,
			[]string{"metadata.labels", "status.x", "status", "none[0].x"}, Beside,
			nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := &unstructured.Unstructured{Object: config(t, withKind(c.live))}
			entries := managed(t, c.managed)
			live.SetManagedFields(entries)
			declared := config(t, withKind(c.declared))
			clashes, held, err := Comparison{State: Changed}.Untangle(declared, live, c.refused, c.reach, Context{}, manager)
			if err != nil {
				t.Fatal(err)
			}
			got := Comparison{State: Changed}.With(clashes)
			var extras, left []string
			for _, e := range got.Extras {
				extras = append(extras, e.Path.String()+" "+e.Reason())
			}
			for _, l := range held {
				left = append(left, l.Path.String()+" "+l.Owner.String())
			}
			if d := cmp.Diff(c.extras, extras); d != "" {
				t.Errorf("what is taken away (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.held, left); d != "" {
				t.Errorf("what is held (-want +got):\n%s", d)
			}
			folded, ok, err := got.Fold(declared, entries, manager)
			if err != nil || ok != (len(c.extras) > 0) {
				t.Fatalf("folding: got %v, %v", ok, err)
			}
			if !ok {
				return
			}
			f, err := ParseFields(folded, manager)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range got.Extras {
				owns := func(c claim) bool { return touches(c.set, e.Path) }
				if !f.own.Has(e.Path) || slices.ContainsFunc(f.foreign, owns) {
					t.Errorf("%s should be ours alone, so that the next apply takes it away", e.Path)
				}
			}
		})
	}
}

func inPod(fields string) string { return `{spec: {template: {spec: ` + fields + `}}}` }

func TestFieldsOfRefusalsAreRead(t *testing.T) {
	for field, want := range map[string]string{
		"spec.strategy.rollingUpdate":              "spec strategy rollingUpdate",
		"spec.template.spec.volumes[10].configMap": "spec template spec volumes 10 configMap",
		"data[a.b]":                     "data a.b",
		"metadata.annotations[x.y/z].c": "metadata annotations x.y/z c",
		"spec":                          "spec",
		"a[0][1]":                       "a 0 1",
		"a[unclosed":                    "a unclosed",
		".":                             "",
	} {
		if got := strings.TrimSpace(strings.Join(splitField(field), " ")); got != want {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
	}
}

func TestWhatGitEmptiesIsLeftOutAtFirst(t *testing.T) {
	declared := config(t, withKind(`{spec: {list: [], map: {}, items: [{tags: [x]}, {tags: [], name: b}], full: [x], scalar: 1}}`))
	for refused, want := range map[string]string{
		"spec.list":          `{spec: {map: {}, items: [{tags: [x]}, {tags: [], name: b}], full: [x], scalar: 1}}`,
		"spec.map":           `{spec: {list: [], items: [{tags: [x]}, {tags: [], name: b}], full: [x], scalar: 1}}`,
		"spec.items[0].tags": `{spec: {list: [], map: {}, items: [{tags: [x]}, {name: b}], full: [x], scalar: 1}}`,
		"spec.full":          ``,
		"spec.full[0]":       ``,
		"spec.scalar":        ``,
		"spec.none.x":        ``,
		"spec":               ``,
	} {
		c, ok := Comparison{}.Emptied(declared, []string{refused})
		if got := c.ApplyFirst(declared); ok != (want != "") || (got != nil) != ok || ok && !cmp.Equal(config(t, withKind(want)), got) {
			t.Errorf("%s: want %s, got %v, %v", refused, want, ok, got)
		}
	}
}
