package apply

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Class is what an error of the API server means for what comes next.
type Class string

const (
	// Conflict: somebody else owns a field that was not to be forced, or the object changed meanwhile. Look again.
	Conflict Class = "Conflict"
	// Deferred: what the object needs is not there yet, its namespace or its kind.
	Deferred Class = "Deferred"
	// Immutable: the object cannot be changed this way; it would have to be made anew.
	Immutable Class = "Immutable"
	// Transient: the API server or a webhook could not answer. Try again later.
	Transient Class = "Transient"
	// Forbidden: the agent may not do this.
	Forbidden Class = "Forbidden"
	// Rejected: the object is not valid, or admission refuses it.
	Rejected Class = "Rejected"
)

// Classify sorts an error of a request; err must not be nil.
func Classify(err error) Class {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Transient
	case apierrors.IsConflict(err):
		return Conflict
	case meta.IsNoMatchError(err):
		return Deferred
	case apierrors.IsNotFound(err):
		return Deferred // an apply finds nothing missing but the namespace or the kind
	case apierrors.IsForbidden(err):
		return forbiddenClass(err)
	case isImmutable(err):
		return Immutable
	case isUntypable(err):
		return Rejected
	case isTransient(err):
		return Transient
	}
	return Rejected
}

// FieldConflict is a field that the API server did not give us, since another manager owns it.
type FieldConflict struct {
	Path                 string // as managed fields write it
	Manager, Subresource string
	Applies              bool // the manager applies it; else it has written it by an update
}

// FieldConflicts returns which fields a conflict is about; none when it is about the version of the object.
func FieldConflicts(err error) []FieldConflict {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var conflicts []FieldConflict
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		if c, ok := parseConflict(cause.Message); ok {
			c.Path = cause.Field
			conflicts = append(conflicts, c)
		}
	}
	return conflicts
}

// RefusedFields returns the fields that validation names, as spec.volumes[0].configMap; none when err is no such refusal,
// or does not name all of them.
func RefusedFields(err error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || Classify(err) != Rejected || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "" || cause.Field == "<nil>" {
			return nil
		}
		fields = append(fields, cause.Field)
	}
	return fields
}

// parseConflict reads: conflict with "kubectl-edit" with subresource "scale" using apps/v1. The version is there for
// updates only (k8s.io/apimachinery managedfields, printManager).
func parseConflict(message string) (c FieldConflict, ok bool) {
	rest, ok := strings.CutPrefix(message, "conflict with ")
	quoted, err := strconv.QuotedPrefix(rest)
	if !ok || err != nil {
		return c, false
	}
	rest = rest[len(quoted):]
	c.Manager, _ = strconv.Unquote(quoted)
	if sub, ok := strings.CutPrefix(rest, " with subresource "); ok {
		if quoted, err = strconv.QuotedPrefix(sub); err == nil {
			c.Subresource, _ = strconv.Unquote(quoted)
			rest = sub[len(quoted):]
		}
	}
	c.Applies = !strings.HasPrefix(rest, " using ")
	return c, true
}

// forbiddenClass tells "you may not" from admission that says no with the same code, as quotas and Pod Security do.
func forbiddenClass(err error) Class {
	msg := err.Error()
	switch {
	case strings.Contains(msg, "because it is being terminated"), strings.Contains(msg, "not yet ready to handle request"):
		return Transient
	case strings.Contains(msg, "User \""):
		return Forbidden
	}
	return Rejected
}

// isImmutable knows the two ways in which validation says that a field cannot change: k8s.io/apimachinery
// validation.ValidateImmutableField, and the StatefulSet's own sentence.
func isImmutable(err error) bool {
	msg := err.Error()
	return apierrors.IsInvalid(err) && (strings.Contains(msg, "field is immutable") ||
		strings.Contains(msg, "updates to statefulset spec for fields other than") ||
		strings.Contains(msg, "is immutable after creation") ||
		strings.Contains(msg, "cannot change roleRef"))
}

// isUntypable knows how server-side apply says that a configuration does not fit its schema: with the code 500
// (k8s.io/apimachinery managedfields, structuredMergeManager.Apply).
func isUntypable(err error) bool {
	return strings.Contains(err.Error(), "failed to create typed patch object")
}

func isTransient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return isNetwork(err)
	}
	s := status.Status()
	switch {
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsServiceUnavailable(err):
		return true
	case s.Code >= 500:
		return true // also a webhook that cannot be reached: "failed calling webhook"
	}
	return s.Reason == metav1.StatusReasonUnknown && s.Code == 0
}

func isNetwork(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) || strings.Contains(err.Error(), "connection re") || strings.Contains(err.Error(), "EOF")
}

// invalidValue is a whole object that validation repeats before it says what is wrong with it.
var invalidValue = regexp.MustCompile(`(?s)^(Invalid value: ?)\{.*\}(: )`)

// briefError is an error of the API server without the objects that it repeats: they take pages, and may hold what is
// for nobody to read.
type briefError struct {
	error
	message string
}

func (e *briefError) Error() string { return e.message }
func (e *briefError) Unwrap() error { return e.error }

// brief returns err with a message in which no object is repeated.
func brief(err error) error {
	var status apierrors.APIStatus
	if err == nil || !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return err
	}
	message := err.Error()
	for _, cause := range status.Status().Details.Causes {
		message = strings.ReplaceAll(message, cause.Message, invalidValue.ReplaceAllString(cause.Message, "$1{…}$2"))
	}
	return &briefError{err, message}
}

// Advice tells a person what to do about an error of class c; "" where the error says enough.
func Advice(c Class) string {
	switch c {
	case Immutable:
		return "this object cannot be changed in place: delete it, so that it is made anew, or take the change back in Git"
	case Forbidden:
		return "allow it to the agent with a ClusterRole labelled trueup.dev/aggregate-to-managed=true (trueup install --allow GROUP/RESOURCE)"
	}
	return ""
}
