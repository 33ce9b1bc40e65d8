package diff

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const webConfig = `{apiVersion: v1, kind: X, metadata: {labels: {app: web}}, spec: {
	template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, env: [{name: A, value: "1"}]}]}},
	ports: [{port: 80, name: http}], resources: {}}}`

const webOwn = `trueup Apply {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:resources": {},
 "f:template": {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:name": {}, "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}}}}},
 "f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}}}}`

// inTemplate puts fields of the pod into those of the object.
func inTemplate(fields string) string {
	return `{"f:spec": {"f:template": {"f:spec": ` + fields + `}}}`
}

func TestExtras(t *testing.T) {
	sidecar := inTemplate(`{"f:containers": {'k:{"name":"debug"}': {".": {}, "f:name": {}, "f:image": {}}}}`)
	for name, c := range map[string]struct {
		managed string // beside our own entry
		want    []string
	}{
		"nothing": {``, nil},
		"a sidecar is one extra": {
			`kubectl-edit Update ` + sidecar,
			[]string{`.spec.template.spec.containers[name="debug"] kubectl-edit`},
		},
		"an env variable": {
			`k9s Update ` + inTemplate(`{"f:containers": {'k:{"name":"web"}': {"f:env": {'k:{"name":"B"}': {".": {}, "f:name": {}, "f:value": {}}}}}}`),
			[]string{`.spec.template.spec.containers[name="web"].env[name="B"] k9s`},
		},
		"a changed list key": {
			`kubectl-edit Update {"f:spec": {"f:ports": {'k:{"port":83,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}}}}}`,
			[]string{`.spec.ports[port=83,protocol="TCP"] kubectl-edit`},
		},
		"something in what is empty in Git": {
			`kubectl-set Update {"f:spec": {"f:resources": {"f:limits": {".": {}, "f:cpu": {}}}}}`,
			[]string{`.spec.resources.limits kubectl-set`},
		},
		"a field that Git lacks": {
			`helm Update {"f:spec": {"f:paused": {}}}`,
			[]string{`.spec.paused helm`},
		},
		"a finalizer and an owner reference": {
			`kubectl-edit Update {"f:metadata": {"f:finalizers": {".": {}, 'v:"x"': {}}, "f:ownerReferences": {'k:{"uid":"u"}': {}}}}`,
			[]string{`.metadata.finalizers kubectl-edit`, `.metadata.ownerReferences[uid="u"] kubectl-edit`},
		},
		"a declared field that a person took is a loss, no extra": {
			`kubectl-edit Update {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:name": {}}}}}`,
			nil,
		},
		"labels and annotations are people's own": {
			`kubectl-label Update {"f:metadata": {"f:labels": {"f:team": {}}, "f:annotations": {".": {}, "f:note": {}}}}`,
			nil,
		},
		"a restart, and the maps around it": {
			`kubectl-rollout Update {"f:spec": {"f:template": {"f:metadata": {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}}}}}}`,
			nil,
		},
		"another annotation of the template": {
			`kubectl-edit Update {"f:spec": {"f:template": {"f:metadata": {"f:annotations": {".": {}, "f:note": {}}}}}}`,
			[]string{`.spec.template.metadata.annotations.note kubectl-edit`},
		},
		"a status": {
			`kubectl-edit Update {"f:status": {"f:phase": {}}}`,
			nil,
		},
		"by another applier": {
			`flux Apply ` + sidecar,
			nil,
		},
		"by a person who applies": {
			`kubectl Apply ` + sidecar,
			nil,
		},
		"by a controller": {
			`istio-operator Update ` + sidecar,
			nil,
		},
		"through a subresource": {
			`kubectl Update/scale {"f:spec": {"f:replicas": {}}}`,
			nil,
		},
		"what a controller has too": {
			`kubectl-edit Update {"f:spec": {"f:paused": {}, "f:nodeName": {}}}
			 operator Update {"f:spec": {"f:nodeName": {}}}`,
			[]string{`.spec.paused kubectl-edit`},
		},
		"a map made by hand in which a controller has something": {
			`kubectl-edit Update {"f:spec": {"f:extra": {".": {}, "f:a": {}}}}
			 operator Update {"f:spec": {"f:extra": {"f:b": {}}}}`,
			[]string{`.spec.extra.a kubectl-edit`},
		},
		"by two people": {
			`kubectl-edit Update {"f:spec": {"f:paused": {}}}
			 k9s Update {"f:spec": {"f:paused": {}}}`,
			[]string{`.spec.paused kubectl-edit`, `.spec.paused k9s`},
		},
		"in another version of the API, where fields may have other names": {
			`kubectl-edit@v1beta1 Update {"f:spec": {"f:paused": {}}}`,
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fields(t, strings.ReplaceAll(webOwn, "\n", "")+"\n"+c.managed)
			var got []string
			extras, _ := Extras(config(t, webConfig), f, Context{})
			for _, e := range extras {
				got = append(got, fmt.Sprintf("%s %s", e.Path, e.Owner))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("extras (-want +got):\n%s", d)
			}
		})
	}
}

func TestItemWhoseKeyASchemaDefaultsIsDeclared(t *testing.T) {
	f := fields(t, `trueup Apply {"f:spec": {"f:keyed": {'k:{"name":"a","zone":"here"}': {".": {}, "f:name": {}}}}}
		kubectl-edit Update {"f:spec": {"f:keyed": {'k:{"name":"a","zone":"here"}': {"f:weight": {}}, 'k:{"name":"a","zone":"there"}': {".": {}, "f:name": {}, "f:zone": {}}}}}`)
	var got []string
	extras, _ := Extras(config(t, `{apiVersion: v1, kind: X, spec: {keyed: [{name: a, weight: 2}]}}`), f, Context{})
	for _, e := range extras {
		got = append(got, e.Path.String())
	}
	if d := cmp.Diff([]string{`.spec.keyed[name="a",zone="there"]`}, got); d != "" {
		t.Errorf("extras (-want +got):\n%s", d)
	}
}

func TestFold(t *testing.T) {
	const declared = `{apiVersion: v1, kind: X, spec: {a: 1}}`
	for name, c := range map[string]struct {
		managed string
		want    []string // nil where there is nothing to fold
	}{
		"nothing to fold": {
			`trueup Apply {"f:spec": {"f:a": {}}}
			 kubectl-edit Update {"f:metadata": {"f:labels": {"f:x": {}}}}
			 operator Update {"f:spec": {"f:b": {}}}`,
			nil,
		},
		"an addition becomes ours, and the entry that held nothing else goes": {
			`trueup Apply {"f:spec": {"f:a": {}}}
			 kubectl-edit Update {"f:spec": {"f:b": {}}}`,
			[]string{`trueup Apply {"f:spec":{"f:a":{},"f:b":{}}}`},
		},
		"what is left to them stays theirs": {
			`kubectl-edit Update {"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:b": {}}}
			 trueup Apply {"f:spec": {"f:a": {}}}
			 operator Update {"f:spec": {"f:c": {}}}`,
			[]string{
				`kubectl-edit Update {"f:metadata":{"f:labels":{"f:x":{}}}}`,
				`trueup Apply {"f:spec":{"f:a":{},"f:b":{}}}`,
				`operator Update {"f:spec":{"f:c":{}}}`,
			},
		},
		"an object that is adopted: the additions of client-side apply go, what Git declares stays until it is applied": {
			`kubectl-client-side-apply Update {"f:spec": {"f:a": {}, "f:b": {}}}
			 kube-controller-manager Update/status {"f:status": {"f:x": {}}}`,
			[]string{
				`kubectl-client-side-apply Update {"f:spec":{"f:a":{}}}`,
				`kube-controller-manager Update/status {"f:status": {"f:x": {}}}`,
				`trueup Apply {"f:spec":{"f:b":{}}}`,
			},
		},
		"of two people's additions both": {
			`kubectl-edit Update {"f:spec": {"f:b": {}}}
			 k9s Update {"f:spec": {"f:b": {}, "f:c": {}}}
			 trueup Apply {"f:spec": {"f:a": {}}}`,
			[]string{`trueup Apply {"f:spec":{"f:a":{},"f:b":{},"f:c":{}}}`},
		},
		"another version of the API": {
			`trueup Apply {"f:spec": {"f:a": {}}}
			 kubectl-edit@v2 Update {"f:spec": {"f:b": {}}}`,
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			entries := managed(t, c.managed)
			before := show(t, entries)
			folded, ok, err := Comparison{}.Fold(config(t, declared), entries, manager)
			if err != nil || ok != (c.want != nil) {
				t.Fatalf("got %v, %v", ok, err)
			}
			if d := cmp.Diff(canonical(t, c.want), canonical(t, show(t, folded))); ok && d != "" {
				t.Errorf("managed fields (-want +got):\n%s", d)
			}
			if d := cmp.Diff(before, show(t, entries)); d != "" {
				t.Errorf("the entries were changed (-want +got):\n%s", d)
			}
			if !ok {
				return
			}
			f, err := ParseFields(folded, manager)
			if err != nil {
				t.Fatal(err)
			}
			if left, _ := Extras(config(t, declared), f, Context{}); len(left) != 0 {
				t.Errorf("after the fold there should be no additions, got %v", left)
			}
			if len(f.surplus(config(t, declared))) == 0 {
				t.Error("after the fold we own more than Git declares, so that applying takes it away")
			}
		})
	}
}

// canonical writes the fields in each line without spaces.
func canonical(t *testing.T, lines []string) []string {
	t.Helper()
	out := make([]string, len(lines))
	for i, line := range lines {
		parts := strings.SplitN(line, " ", 3)
		var v any
		if err := json.Unmarshal([]byte(parts[2]), &v); err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(v)
		out[i] = parts[0] + " " + parts[1] + " " + string(raw)
	}
	return out
}

func TestFoldOfWhatIsNotWellFormedIsAnError(t *testing.T) {
	entries := managed(t, `kubectl-edit Update {"f:spec": {"f:b": {}}}`)
	entries[0].FieldsV1.SetRawBytes([]byte(`[`))
	if _, _, err := (Comparison{}).Fold(config(t, `{apiVersion: v1, kind: X}`), entries, manager); err == nil {
		t.Error("want an error")
	}
	if !Touched(entries) {
		t.Error("whatever it wrote, a person's tool has touched the object")
	}
	if Touched([]metav1.ManagedFieldsEntry{{Manager: "operator", Operation: "Update"}}) {
		t.Error("a controller is no person")
	}
}

// Whether a person's item is the declared one that leaves a key to its default, only the API server can tell: nothing is
// taken out of it before.
func TestItemsThatMayBeDeclaredAreNoExtras(t *testing.T) {
	const lines = `trueup Apply {"f:spec": {"f:image": {}}}
		helm Update {"f:spec": {"f:keyed": {".": {}, "k:{\"name\":\"a\",\"zone\":\"there\"}": {".": {}, "f:name": {}, "f:zone": {}, "f:weight": {}}, "k:{\"name\":\"b\",\"zone\":\"there\"}": {".": {}, "f:name": {}, "f:zone": {}}}}}`
	got, err := Compare(from(t, `{spec: {image: x, keyed: [{name: a}]}}`), observed(t, "git.WHOLE", lines), Context{}, manager)
	if err != nil || len(got.Extras) != 1 || got.Extras[0].Path.String() != `.spec.keyed[name="b",zone="there"]` {
		t.Errorf("want item b only, got %v, %v", got.Extras, err)
	}
	if len(got.Losses) != 1 || got.Forced() {
		t.Errorf("want the declared item lost, to be asked for without force, got %v", got.Losses)
	}
}

func TestWhatAPolicyLeavesToAPersonIsNoExtra(t *testing.T) {
	const lines = `trueup Apply {"f:spec": {"f:image": {}}}
		kubectl-edit Update {"f:spec": {"f:strategy": {".": {}, "f:surge": {}, "f:type": {}}, "f:containers": {"k:{\"name\":\"side\"}": {".": {}, "f:name": {}, "f:image": {}}}}}`
	for name, c := range map[string]struct{ path, manager, want string }{
		"none":                           {".spec.image", "", `.spec.containers[name="side"] .spec.strategy`},
		"a list":                         {".spec.containers", "", ".spec.strategy"},
		"a list, as a pointer":           {"/spec/containers", "", ".spec.strategy"},
		"an item":                        {`.spec.containers[name="side"]`, "", ".spec.strategy"},
		"a field of an item that goes":   {".spec.containers[*].image", "", `.spec.containers[name="side"] .spec.strategy`},
		"a field, so what is around it":  {".spec.strategy.surge", "", `.spec.containers[name="side"] .spec.strategy.type`},
		"all that somebody else manages": {".spec", "helm", `.spec.containers[name="side"] .spec.strategy`},
		"everything":                     {".spec", "kubectl-*", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := ParsePath(c.path)
			if err != nil {
				t.Fatal(err)
			}
			policy := Policy{Verdict: Yield, Paths: []PathPattern{path}, Source: "test"}
			if c.manager != "" {
				policy.Managers = []string{c.manager}
			}
			d := from(t, `{spec: {image: x}}`)
			o := observed(t, "git.WHOLE", lines)
			got, err := Compare(d, o, Context{Policies: []Policy{policy}}, manager)
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, e := range got.Extras {
				paths = append(paths, e.Path.String())
			}
			if all := strings.Join(paths, " "); all != c.want || (got.State == InSync) != (c.want == "") {
				t.Errorf("want %q, got %q, %s", c.want, all, got.State)
			}
			declared, _ := d.Config()
			folded, ok, err := got.Fold(declared, o.Managed, manager)
			if err != nil || ok != (c.want != "") {
				t.Fatalf("folding: %v, %v", ok, err)
			}
			if !ok {
				return
			}
			f, err := ParseFields(folded, manager)
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := Extras(declared, f, Context{Policies: []Policy{policy}}); len(again) != 0 {
				t.Errorf("after folding there are %v", again)
			}
		})
	}
}

func TestExtrasThatComeBackAreHeld(t *testing.T) {
	const lines = `trueup Apply {"f:spec": {"f:image": {}}}
		kubectl-edit Update {"f:spec": {"f:size": {}, "f:containers": {"k:{\"name\":\"side\"}": {".": {}, "f:name": {}, "f:image": {}}}}}`
	ctx := Context{Contested: func(path string, o Owner) (Fight, bool) {
		return Fight{Count: 3}, path == `.spec.containers[name="side"]` && o.Manager == "kubectl-edit"
	}}
	d, o := from(t, `{spec: {image: x}}`), observed(t, "git.WHOLE", lines)
	got, err := Compare(d, o, ctx, manager)
	if err != nil || got.State != Drifted || len(got.Extras) != 1 || got.Extras[0].Path.String() != ".spec.size" {
		t.Fatalf("want the other one undone, got %s, %v, %v", got.State, got.Extras, err)
	}
	if len(got.Losses) != 1 || got.Losses[0].Verdict != Hold || !strings.HasPrefix(got.Losses[0].Reason, "contested: kubectl-edit added it 3 times") {
		t.Errorf("want the item held, got %v", got.Losses)
	}
	declared, _ := d.Config()
	folded, ok, err := got.Fold(declared, o.Managed, manager)
	if err != nil || !ok {
		t.Fatalf("folding: %v, %v", ok, err)
	}
	o.Managed = folded
	if got, err = Compare(d, o, ctx, manager); err != nil || got.State != Held || len(got.Extras) > 0 || len(got.Losses) != 1 {
		t.Errorf("after folding want the item held and nothing to undo, got %s, %v, %v, %v", got.State, got.Extras, got.Losses, err)
	}
}
