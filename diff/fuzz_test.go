package diff

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"", ".", "/", ".spec.replicas", "/spec/replicas", `.a[name="x"].b`, `.a[="x"]`, ".a[*].b", ".*", "[0]", `.a["\"]`, ".a[=]", ".a[b=]", "/~0~1/", `.a[b="c",d=1]`, ".a[b={]", ".a..b"} {
		f.Add(s)
	}
	port := append(field("spec", "ports"), fieldpath.KeyElement((*fieldpath.KeyByFields("port", 80, "protocol", "TCP"))...))
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePath(s)
		if err != nil {
			return
		}
		for _, l := range []Loss{{}, lossOf(Owner{}, "spec", "replicas"), {Path: port, Pointer: []string{"spec", "ports", "0"}}} {
			p.matches(l)
		}
		// Any field but the whole object is above itself.
		if l := (Loss{Path: port, Pointer: []string{"spec", "ports", "0"}}); s == l.Path.String() && !p.matches(l) {
			t.Errorf("%s does not match itself", s)
		}
	})
}

func FuzzParseApplied(f *testing.F) {
	for _, s := range []string{"", "a", "a.b", "a.b.0123456789abcdef0123", "a.b.c", "..", ".partial", "a..partial", "a.b.partial."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a := ParseApplied(s)
		if a == (Applied{}) {
			return
		}
		if again := ParseApplied(a.String()); again != a {
			t.Errorf("%q: read as %+v, and what is written of that as %+v", s, a, again)
		}
	})
}

// FuzzCompare takes any configuration and any two entries of managed fields: none may make it panic, or change the
// configuration, and what it wants to apply must be less than the configuration.
func FuzzCompare(f *testing.F) {
	for _, seed := range [][4]string{
		{`{"spec":{"a":1}}`, `{"f:spec":{"f:a":{}}}`, `{"f:spec":{"f:b":{}}}`, "Update"},
		{webJSON, `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`, `{"f:spec":{"f:ports":{"k:{\"port\":83}":{".":{}}}}}`, "Apply"},
		{`{"metadata":{"finalizers":["a"]}}`, `{"f:metadata":{"f:finalizers":{"v:\"a\"":{},"v:{\"b\":1}":{"f:b":{}}}}}`, `{"f:metadata":{"f:finalizers":{"i:0":{},"i:-1":{"f:x":{}}}}}`, "Update"},
		{`{"spec":[]}`, `{"f:spec":{"f:a":{}}}`, `{"k:{\"a\":null}":{"f:b":{}}}`, "Update"},
		{`{"spec":{"a":[[1],{"b":[{}]}]},"metadata":1}`, `{".":{}}`, `{"f:spec":{"f:a":{"i:1":{"f:b":{"i:0":{}}}}}}`, "Update"},
		{`{"spec":{"replicas":null}}`, `{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{}}`, "Update"},
		{`{}`, `null`, `{"f:":{}}`, ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	everything := Policy{Verdict: Yield, Paths: []PathPattern{{elements: []string{"spec"}, text: ".spec"}}}
	f.Fuzz(func(t *testing.T, declared, own, foreign, operation string) {
		u := map[string]any{}
		if json.Unmarshal([]byte(declared), &u) != nil || u == nil {
			return
		}
		u["apiVersion"], u["kind"] = "v1", "X"
		before, _ := json.Marshal(u)
		entries := []metav1.ManagedFieldsEntry{
			{Manager: manager, Operation: "Apply", APIVersion: "v1", FieldsV1: &metav1.FieldsV1{}},
			{Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationType(operation), APIVersion: "v1", FieldsV1: &metav1.FieldsV1{}},
		}
		entries[0].FieldsV1.SetRawBytes([]byte(own))
		entries[1].FieldsV1.SetRawBytes([]byte(foreign))
		d := Desired{Digest: "git", Config: func() (map[string]any, error) { return u, nil }}
		for _, applied := range []string{"git.x", "git.x.0123456789abcdef0123", "old.x"} {
			o := Observed{Exists: true, Applied: ParseApplied(applied), Fields: "y", Managed: entries}
			for _, ctx := range []Context{{}, {Policies: []Policy{everything}, Autoscaler: "HorizontalPodAutoscaler x/y"}} {
				c, err := Compare(d, o, ctx, manager)
				if err != nil {
					return
				}
				if next, _, err := c.Contest(u, o, []Conflict{{".spec.a", updater("kubectl-edit")}, {"", Owner{}}}, ctx, manager); err == nil {
					next.Apply(u)
				}
				out, _ := json.Marshal(c.Apply(u))
				if len(out) > len(before) {
					t.Errorf("%s is to be applied of %s", out, before)
				}
				live := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(u)}
				live.SetManagedFields(entries)
				refused := []string{"spec", "spec.a[0].b", "spec.m[x]"}
				clashes, _, err := c.Untangle(u, live, refused, Beside, ctx, manager)
				if err != nil {
					return
				}
				c, _ = c.With(clashes).Emptied(u, refused)
				c.ApplyFirst(u)
				if _, err := c.Restore(u, live, manager); err != nil {
					t.Errorf("entries that could be compared cannot be restored: %v", err)
				}
				Extract(live, c.Release)
				if _, _, err := c.Fold(u, entries, manager); err != nil {
					t.Errorf("entries that could be compared cannot be folded: %v", err)
				}
			}
		}
		if after, _ := json.Marshal(u); string(after) != string(before) {
			t.Errorf("the configuration was changed from %s to %s", before, after)
		}
	})
}

const webJSON = `{"spec":{"ports":[{"port":80,"name":"http"},{"port":53,"protocol":"UDP"}],"replicas":2}}`
