package why

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/trueup/trueup/health"
	"github.com/trueup/trueup/health/internal/fields"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// object is one of the snapshot's objects, ready to be read.
type object struct {
	Ref
	uid                    string
	raw                    *unstructured.Unstructured
	metadata, spec, status fields.Map
	health                 health.Result
}

func (o *object) created() time.Time { return parseTime(o.metadata.Str("creationTimestamp")) }

// deleted returns when the object is due to be gone; zero where it is not being deleted.
func (o *object) deleted() time.Time { return parseTime(o.metadata.Str("deletionTimestamp")) }

func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// index finds the snapshot's objects by name and by owner.
type index struct {
	all      []*object // sorted by kind and name
	byRef    map[Ref]*object
	byKind   map[string][]*object // by kind without group, sorted by name
	children map[string][]*object // by the owner's UID, sorted by kind and name
	events   map[Ref][]Event      // by what they are about
}

func newIndex(s Snapshot) *index {
	x := &index{
		byRef: make(map[Ref]*object), byKind: make(map[string][]*object), children: make(map[string][]*object),
		events: make(map[Ref][]Event),
	}
	judge := s.Judge
	if judge == nil {
		judge = health.Of
	}
	for _, raw := range s.Objects {
		if raw == nil || raw.Object == nil {
			continue
		}
		if raw.GetKind() == "Event" {
			e := readEvent(raw.Object)
			x.events[e.About] = append(x.events[e.About], e)
			continue
		}
		// A managed object may be listed again with its namespace.
		if o := newObject(raw, judge); x.byRef[o.Ref] == nil {
			x.byRef[o.Ref] = o
			x.all = append(x.all, o)
		}
	}
	slices.SortFunc(x.all, compareObjects)
	for _, o := range x.all {
		x.byKind[o.Kind] = append(x.byKind[o.Kind], o)
		for _, v := range o.metadata.List("ownerReferences") {
			if uid := fields.Of(v).Str("uid"); uid != "" {
				x.children[uid] = append(x.children[uid], o)
			}
		}
	}
	return x
}

func newObject(raw *unstructured.Unstructured, judge func(*unstructured.Unstructured) health.Result) *object {
	f := fields.Map(raw.Object)
	metadata := f.At("metadata")
	gvk := raw.GroupVersionKind()
	return &object{
		Ref: Ref{Group: gvk.Group, Kind: gvk.Kind, Namespace: metadata.Str("namespace"), Name: metadata.Str("name")},
		uid: metadata.Str("uid"), raw: raw, metadata: metadata, spec: f.At("spec"), status: f.At("status"), health: judge(raw),
	}
}

func compareObjects(a, b *object) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Namespace, b.Namespace), natural(a.Name, b.Name))
}

// natural compares names so that db-2 comes before db-10.
func natural(a, b string) int {
	a1, an := splitOrdinal(a)
	b1, bn := splitOrdinal(b)
	if a1 == b1 && an >= 0 && bn >= 0 {
		return cmp.Compare(an, bn)
	}
	return cmp.Compare(a, b)
}

// splitOrdinal splits db-10 into db and 10; the number is -1 where the name has none.
func splitOrdinal(name string) (string, int64) {
	i := strings.LastIndexByte(name, '-')
	if n, ok := fields.Int(name[i+1:]); i > 0 && ok && n >= 0 {
		return name[:i], n
	}
	return name, -1
}

// owned returns the objects of a kind that o owns.
func (x *index) owned(o *object, kind string) []*object {
	var list []*object
	if o.uid == "" {
		return nil
	}
	for _, child := range x.children[o.uid] {
		if child.Kind == kind {
			list = append(list, child)
		}
	}
	return list
}
