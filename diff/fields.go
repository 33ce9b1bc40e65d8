package diff

import (
	"bytes"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Owner is one entry of metadata.managedFields: who wrote fields, how and when.
// The zero Owner is nobody: the field was removed, or the API server no longer knows who took it.
type Owner struct {
	Manager, Operation, Subresource string
	Time                            time.Time
}

// Ancient is the manager into which the API server merges the oldest entries beyond ten.
const Ancient = "ancient-changes"

// BeforeFirst is the manager to which the API server attributes everything in an object without managed fields.
const BeforeFirst = "before-first-apply"

// String returns the owner as people say it: `kubectl-edit`, `kube-controller-manager (scale)`.
func (o Owner) String() string {
	switch {
	case o.Manager == "":
		return "nobody"
	case o.Manager == Ancient, o.Manager == BeforeFirst:
		return "unknown (" + o.Manager + ")"
	case o.Subresource != "":
		return o.Manager + " (" + o.Subresource + ")"
	}
	return o.Manager
}

// Applies reports whether the owner is another applier: an Apply entry.
func (o Owner) Applies() bool { return o.Operation == string(metav1.ManagedFieldsOperationApply) }

// otherApplier reports whether the owner is another GitOps tool or an operator that applies.
func (o Owner) otherApplier() bool {
	class := ClassOf(o.Manager)
	return o.Applies() && class != Person && class != Released
}

// Fields are the parsed managed fields of one object, split into ours and everybody else's.
type Fields struct {
	own     *fieldpath.Set // nil where we have no entry
	version string         // apiVersion of our entry
	owner   Owner          // of our entry
	foreign []claim
}

type claim struct {
	owner   Owner
	version string
	set     *fieldpath.Set
}

// ParseFields reads managed fields; manager is our own. It returns an error when an entry is not well-formed.
func ParseFields(entries []metav1.ManagedFieldsEntry, manager string) (Fields, error) {
	var f Fields
	own := ownEntry(entries, manager)
	for i := range entries {
		e := &entries[i]
		if e.FieldsV1 == nil {
			continue
		}
		set, err := fieldsOf(e)
		if err != nil {
			return Fields{}, err
		}
		if e == own {
			f.own, f.version, f.owner = set, e.APIVersion, ownerOf(e)
			continue
		}
		f.foreign = append(f.foreign, claim{owner: ownerOf(e), version: e.APIVersion, set: set})
	}
	return f, nil
}

// fieldsOf returns the fields of an entry that has some.
func fieldsOf(e *metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
		return nil, fmt.Errorf("reading the managed fields of %q: %w", e.Manager, err)
	}
	return set, nil
}

func ownerOf(e *metav1.ManagedFieldsEntry) Owner {
	o := Owner{Manager: e.Manager, Operation: string(e.Operation), Subresource: e.Subresource}
	if e.Time != nil {
		o.Time = e.Time.Time
	}
	return o
}
