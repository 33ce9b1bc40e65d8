package diff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLosses(t *testing.T) {
	for name, c := range map[string]struct {
		config, managed string
		want            []string // path, JSON pointer, owner
	}{
		"nothing is lost of what is ours": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: n, labels: {a: b}}, data: {k: v}}`,
			`trueup Apply {"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {"f:k": {}}}`,
			nil,
		},
		"a changed scalar is its writer's": {
			`{data: {k: v, l: w}}`,
			`trueup Apply {"f:data": {"f:k": {}}}
			 kubectl-edit Update {"f:data": {"f:l": {}}}`,
			[]string{".data.l /data/l kubectl-edit"},
		},
		"a removed field is nobody's": {
			`{data: {k: v, l: w}}`,
			`trueup Apply {"f:data": {"f:k": {}}}`,
			[]string{".data.l /data/l nobody"},
		},
		"a removed subtree is one loss, at its top": {
			`{spec: {template: {spec: {a: 1, b: 2}}, x: 1}}`,
			`trueup Apply {"f:spec": {"f:x": {}}}`,
			[]string{".spec.template /spec/template nobody"},
		},
		"all managed fields wiped": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: x, labels: {a: b}}, data: {k: v}}`,
			``,
			[]string{".data /data nobody", ".metadata.labels /metadata/labels nobody"},
		},
		"of several owners the latest": {
			`{data: {k: v}}`,
			`k9s Update {"f:data": {"f:k": {}}}
			 helm Update {"f:data": {"f:k": {}}}
			 trueup Apply {"f:metadata": {"f:labels": {"f:a": {}}}}`,
			[]string{".data.k /data/k helm"},
		},
		"of several owners another applier": {
			`{data: {k: v}}`,
			`flux Apply {"f:data": {"f:k": {}}}
			 kubectl Apply {"f:data": {"f:k": {}}}
			 helm Update {"f:data": {"f:k": {}}}`,
			[]string{".data.k /data/k flux"},
		},
		"a map that somebody made is not all his": {
			`{spec: {service: {name: a, port: 80}}}`,
			`k9s Update {"f:spec": {".": {}, "f:service": {}}}
			 flux Apply {"f:spec": {"f:service": {"f:port": {}}}}`,
			[]string{".spec.service.name /spec/service/name nobody", ".spec.service.port /spec/service/port flux"},
		},
		"a shared field is no loss": {
			`{data: {k: v}}`,
			`trueup Apply {"f:data": {"f:k": {}}}
			 flux Apply {"f:data": {"f:k": {}}}
			 kubectl-edit Update {"f:data": {".": {}, "f:k": {}}}`,
			nil,
		},
		"the scale subresource": {
			`{spec: {replicas: 2, paused: true}}`,
			`trueup Apply {"f:spec": {"f:paused": {}}}
			 kubectl Update/scale {"f:spec": {"f:replicas": {}}}`,
			[]string{".spec.replicas /spec/replicas kubectl (scale)"},
		},
		"beyond ten managers the culprit is unknown": {
			`{data: {k: v}}`,
			`ancient-changes Update {"f:data": {"f:k": {}}}
			 trueup Apply {"f:metadata": {"f:labels": {"f:a": {}}}}`,
			[]string{".data.k /data/k unknown (ancient-changes)"},
		},
		"a null declares nothing that could be lost": {
			`{metadata: {annotations: null}, spec: {a: null, b: {c: null}}}`,
			`trueup Apply {"f:spec": {"f:b": {}}}`,
			nil,
		},
		"what names the object is never listed": {
			`{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: n, uid: u, resourceVersion: "1", generation: 1, creationTimestamp: null, labels: {a: b}}, spec: {name: y}}`,
			`trueup Apply {"f:metadata": {"f:labels": {"f:a": {}}}}`,
			[]string{".spec /spec nobody"},
		},
		"ports 53 by TCP and UDP, the protocol defaulted": {
			`{spec: {ports: [{port: 53, name: a}, {port: 53, protocol: UDP, name: b}]}}`,
			`trueup Apply {"f:spec": {"f:ports": {'k:{"port":53,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}, 'k:{"port":53,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}}}}}
			 kubectl-edit Update {"f:spec": {"f:ports": {'k:{"port":53,"protocol":"UDP"}': {"f:name": {}}}}}`,
			[]string{`.spec.ports[port=53,protocol="UDP"].name /spec/ports/1/name kubectl-edit`},
		},
		"the defaulted port gone, the other kept": {
			`{spec: {ports: [{port: 53, protocol: UDP}, {port: 53}]}}`,
			`trueup Apply {"f:spec": {"f:ports": {'k:{"port":53,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}}}}}`,
			[]string{`.spec.ports[port=53] /spec/ports/1 nobody`},
		},
		"a list key changed by hand: the item is gone": {
			`{spec: {ports: [{port: 80, name: http}]}}`,
			`trueup Apply {"f:spec": {"f:selector": {}}}
			 kubectl-edit Update {"f:spec": {"f:ports": {'k:{"port":83,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}}}}`,
			[]string{`.spec.ports[port=80] /spec/ports/0 nobody`},
		},
		"env by name, whatever the order": {
			`{env: [{name: B, value: "1"}, {name: A, value: ""}, {name: C}]}`,
			`trueup Apply {"f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}}, 'k:{"name":"B"}': {".": {}, "f:name": {}, "f:value": {}}, 'k:{"name":"C"}': {".": {}, "f:name": {}}}}
			 k9s Update {"f:env": {'k:{"name":"A"}': {"f:value": {}}}}`,
			[]string{`.env[name="A"].value /env/1/value k9s`},
		},
		"a key that a schema defaults: our own item comes first": {
			`{spec: {keyed: [{name: a, weight: 1}]}}`,
			`operator Update {"f:spec": {"f:keyed": {'k:{"name":"a","zone":"east"}': {".": {}, "f:weight": {}}}}}
			 trueup Apply {"f:spec": {"f:keyed": {'k:{"name":"a","zone":"west"}': {".": {}, "f:name": {}, "f:weight": {}}}}}`,
			nil,
		},
		"a key that a schema defaults: what carries all its keys chooses first": {
			`{spec: {keyed: [{name: a}, {name: a, zone: here, weight: 2}]}}`,
			`trueup Apply {"f:spec": {"f:keyed": {'k:{"name":"a","zone":"here"}': {".": {}, "f:name": {}, "f:zone": {}}, 'k:{"name":"a","zone":"there"}': {".": {}, "f:name": {}}}}}`,
			[]string{`.spec.keyed[name="a",zone="here"].weight /spec/keyed/1/weight nobody`},
		},
		"a key that a schema defaults: another's item is not taken for ours, which may be gone": {
			`{spec: {keyed: [{name: a, weight: 1}, {name: b, zone: there}]}}`,
			`flux Apply {"f:spec": {"f:keyed": {'k:{"name":"a","zone":"east"}': {".": {}, "f:name": {}, "f:weight": {}}}}}
			 trueup Apply {"f:spec": {"f:keyed": {'k:{"name":"b","zone":"there"}': {".": {}, "f:name": {}, "f:zone": {}}}}}`,
			[]string{`.spec.keyed[name="a"] /spec/keyed/0 nobody`},
		},
		"a set": {
			`{metadata: {finalizers: [a, b]}}`,
			`trueup Apply {"f:metadata": {"f:finalizers": {'v:"a"': {}}}}`,
			[]string{`.metadata.finalizers[="b"] /metadata/finalizers/1 nobody`},
		},
		"a set, all of it": {
			`{metadata: {finalizers: [a, b]}}`,
			`trueup Apply {"f:metadata": {"f:finalizers": {'v:"a"': {}, 'v:"b"': {}}}}
			 kubectl-edit Update {"f:metadata": {"f:finalizers": {'v:"c"': {}}}}`,
			nil,
		},
		"an atomic list is lost as a whole": {
			`{rules: [{verbs: [get]}, {verbs: [list]}]}`,
			`kubectl-edit Update {"f:rules": {}}`,
			[]string{`.rules /rules kubectl-edit`},
		},
		"an atomic map is lost as a whole": {
			`{spec: {selector: {app: x, tier: y}, a: 1}}`,
			`trueup Apply {"f:spec": {"f:a": {}}}
			 flux Apply {"f:spec": {"f:selector": {}}}`,
			[]string{`.spec.selector /spec/selector flux`},
		},
		"an atomic value that is ours": {
			`{spec: {selector: {app: x}}, rules: [{a: 1}]}`,
			`trueup Apply {"f:spec": {"f:selector": {}}, "f:rules": {}}`,
			nil,
		},
		"an empty map that is ours, and into which somebody puts something": {
			`{spec: {resources: {}}}`,
			`trueup Apply {"f:spec": {"f:resources": {}}}
			 kubectl Update {"f:spec": {"f:resources": {"f:limits": {}}}}`,
			nil,
		},
		"an empty map that was taken": {
			`{spec: {resources: {}, a: 1}}`,
			`trueup Apply {"f:spec": {"f:a": {}}}
			 kubectl Update {"f:spec": {"f:resources": {"f:limits": {}}}}`,
			[]string{`.spec.resources /spec/resources kubectl`},
		},
		"an empty list with keys, to which somebody adds": {
			`{env: []}`,
			`trueup Apply {"f:x": {}}
			 operator Update {"f:env": {".": {}, 'k:{"name":"A"}': {".": {}}}}`,
			nil,
		},
		"an empty atomic list that was taken": {
			`{args: []}`,
			`trueup Apply {"f:x": {}}
			 operator Update {"f:args": {}}`,
			[]string{`.args /args operator`},
		},
		"a value of another shape": {
			`{spec: {size: {a: 1}}}`,
			`operator Update {"f:spec": {"f:size": {}}}
			 trueup Apply {"f:x": {}}`,
			[]string{`.spec.size /spec/size operator`},
		},
		"names with dots and slashes": {
			`{metadata: {annotations: {example.com/a.b: "1", plain: "2"}}}`,
			`trueup Apply {"f:metadata": {"f:annotations": {"f:plain": {}}}}
			 kubectl-annotate Update {"f:metadata": {"f:annotations": {"f:example.com/a.b": {}}}}`,
			[]string{`.metadata.annotations.example.com/a.b /metadata/annotations/example.com/a.b kubectl-annotate`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			declared := config(t, withKind(c.config))
			before := fmt.Sprint(declared)
			var got []string
			for _, l := range walk(declared, fields(t, c.managed)).losses {
				got = append(got, fmt.Sprintf("%s /%s %s", l.Path, strings.Join(l.Pointer, "/"), l.Owner))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("losses (-want +got):\n%s", d)
			}
			if fmt.Sprint(declared) != before {
				t.Errorf("the configuration was changed to %v", declared)
			}
		})
	}
}

// withKind adds what an object cannot be read without.
func withKind(manifest string) string {
	if strings.Contains(manifest, "kind:") {
		return manifest
	}
	return strings.Replace(manifest, "{", "{apiVersion: v1, kind: X, ", 1)
}

func TestEqualTimesAndNoTimesMakeNoOrder(t *testing.T) {
	entries := managed(t, `a Update {"f:data": {"f:k": {}}}
		b Update {"f:data": {"f:k": {}}}`)
	entries[0].Time, entries[1].Time = nil, nil
	f, err := ParseFields(entries, manager)
	if err != nil {
		t.Fatal(err)
	}
	losses := walk(map[string]any{"data": map[string]any{"k": "v"}}, f).losses
	if len(losses) != 1 || losses[0].Owner.Manager != "a" {
		t.Errorf("want the first owner, got %+v", losses)
	}
}

func TestWhoAppliesAFieldComesBeforeWhoHasOnlySetIt(t *testing.T) {
	for lines, want := range map[string]string{
		"kubectl Apply {\"f:data\": {\"f:k\": {}}}\nancient-changes Update {\"f:data\": {\"f:k\": {}}}":                           "kubectl",
		"kubectl Apply {\"f:data\": {\"f:k\": {}}}\nflux Apply {\"f:data\": {\"f:k\": {}}}\nx Update {\"f:data\": {\"f:k\": {}}}": "flux",
		"trueup-released Apply {\"f:data\": {\"f:k\": {}}}\nkube-controller-manager Update {\"f:data\": {\"f:k\": {}}}":           "kube-controller-manager",
	} {
		f, err := ParseFields(managed(t, lines), manager)
		if err != nil {
			t.Fatal(err)
		}
		if losses := walk(map[string]any{"data": map[string]any{"k": "v"}}, f).losses; len(losses) != 1 || losses[0].Owner.Manager != want {
			t.Errorf("want %s, got %+v", want, losses)
		}
	}
}

func TestManagedFieldsThatAreNotWellFormedAreAnError(t *testing.T) {
	entries := managed(t, `kubectl Update {"f:data": {}}`)
	entries[0].FieldsV1.SetRawBytes([]byte(`{"x:data":`))
	if _, err := ParseFields(entries, manager); err == nil || !strings.Contains(err.Error(), `reading the managed fields of "kubectl"`) {
		t.Errorf("want an error that names the manager, got %v", err)
	}
	entries[0].FieldsV1 = nil
	if _, err := ParseFields(entries, manager); err != nil {
		t.Errorf("an entry without fields owns nothing, got %v", err)
	}
}
