package diff

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Applied is what the annotation trueup.dev/applied remembers of the last apply.
type Applied struct {
	// Config is the digest of the configuration as Git has it.
	Config string
	// Fields is the digest of the field set that applying it gave us.
	Fields string
	// Left is the digest of the declared fields that were left to their owners, "" for none. Where there are some, each is
	// looked at each time.
	Left string
}

// PendingApplied stands in for the field set's digest in a dry-run, which is what the digest is computed from.
const PendingApplied = "pending"

// String returns the annotation's value.
func (a Applied) String() string {
	s := a.Config + "." + a.Fields
	if a.Left != "" {
		s += "." + a.Left
	}
	return s
}

// ParseApplied reads an annotation's value; anything that String did not write gives the zero Applied.
func ParseApplied(s string) Applied {
	config, rest, ok := strings.Cut(s, ".")
	fields, left, some := strings.Cut(rest, ".")
	if !ok || some && !isDigest(left) {
		return Applied{}
	}
	return Applied{Config: config, Fields: fields, Left: left}
}

func isDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == digestBytes
}

const digestBytes = 10

// Digest returns a short digest of b, fit for an annotation.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:digestBytes])
}

// OwnFields returns the digest of manager's Apply entry on the main resource, "" where there is none.
func OwnFields(entries []metav1.ManagedFieldsEntry, manager string) string {
	if own := ownEntry(entries, manager); own != nil {
		return Digest(own.FieldsV1.GetRawBytes())
	}
	return ""
}

func ownEntry(entries []metav1.ManagedFieldsEntry, manager string) *metav1.ManagedFieldsEntry {
	for i := range entries {
		e := &entries[i]
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && e.FieldsV1 != nil {
			return e
		}
	}
	return nil
}
