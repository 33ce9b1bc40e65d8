package health

import (
	"strings"

	"github.com/trueup/trueup/health/internal/fields"
	"github.com/trueup/trueup/health/words"
)

func apiService(_ *Judge, o, status fields.Map) Result {
	switch c := status.Condition("Available"); {
	case c.IsTrue():
		return healthy(c.ReasonOr("Available"), "available")
	case c.IsFalse():
		return progressing(c.ReasonOr("Unavailable"), "not available: %s", c.Text())
	}
	return progressing("NotObserved", "waiting for the aggregator to look for its service")
}

func customResourceDefinition(_ *Judge, _, status fields.Map) Result {
	established, accepted := status.Condition("Established"), status.Condition("NamesAccepted")
	switch {
	case status.Condition("Terminating").IsTrue():
		return progressing("Terminating", "%s", status.Condition("Terminating").Text())
	case accepted.IsFalse():
		return degraded(accepted.ReasonOr("NamesNotAccepted"), "names not accepted: %s", accepted.Text())
	case status.Condition("NonStructuralSchema").IsTrue():
		c := status.Condition("NonStructuralSchema")
		return degraded(c.ReasonOr(c.Kind), "%s", c.Text())
	case established.IsTrue():
		return healthy("Established", "established")
	case established.IsFalse():
		return progressing(established.ReasonOr("NotEstablished"), "not established: %s", established.Text())
	}
	return progressing("NotEstablished", "waiting to be established")
}

func namespace(_ *Judge, _, status fields.Map) Result {
	if status.Str("phase") == "Terminating" {
		return namespaceTerminating(status)
	}
	return healthy("Active", "active")
}

// namespaceTerminating says what the deletion of the namespace is stuck on, as the namespace controller reports it.
func namespaceTerminating(status fields.Map) Result {
	for _, kind := range []string{
		"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure", "NamespaceDeletionContentFailure",
	} {
		if c := status.Condition(kind); c.IsTrue() {
			return degraded(c.ReasonOr(kind), "being deleted, and cannot be: %s", c.Text())
		}
	}
	var waiting []string
	for _, kind := range []string{"NamespaceContentRemaining", "NamespaceFinalizersRemaining"} {
		if c := status.Condition(kind); c.IsTrue() {
			waiting = append(waiting, c.Text())
		}
	}
	if len(waiting) > 0 {
		return progressing("NamespaceContentRemaining", "being deleted, waiting: %s", strings.Join(waiting, "; "))
	}
	return progressing("Terminating", "being deleted")
}

func certificateSigningRequest(_ *Judge, _, status fields.Map) Result {
	denied, failed := status.Condition("Denied"), status.Condition("Failed")
	switch {
	case denied.IsTrue():
		return degraded(denied.ReasonOr("Denied"), "denied: %s", denied.Text())
	case failed.IsTrue():
		return degraded(failed.ReasonOr("Failed"), "%s", failed.Text())
	case status.Str("certificate") != "":
		return healthy("Issued", "certificate issued")
	case status.Condition("Approved").IsTrue():
		return progressing("Approved", "approved, waiting for its signer")
	}
	return progressing("Pending", "waiting for approval")
}

// admissionPolicy reads the type check of a ValidatingAdmissionPolicy; its warnings say that an expression will fail.
func admissionPolicy(_ *Judge, _, status fields.Map) Result {
	warnings := status.At("typeChecking").List("expressionWarnings")
	if len(warnings) > 0 {
		first := fields.Of(warnings[0])
		return degraded("TypeCheckFailed", "%s in its type check; %s: %s", words.Count(len(warnings), "warning"), first.Str("fieldRef"), first.Str("warning"))
	}
	if len(status) == 0 {
		return progressing("NotObserved", "waiting for its expressions to be checked")
	}
	return healthy("Checked", "its expressions type check")
}

// flowControl judges FlowSchema and PriorityLevelConfiguration, which get a condition only when something refers to nothing.
func flowControl(_ *Judge, _, status fields.Map) Result {
	if c := status.Condition("Dangling"); c.IsTrue() {
		return degraded(c.ReasonOr("Dangling"), "%s", c.Text())
	}
	return healthy("Present", "present")
}

func resourceClaim(_ *Judge, _, status fields.Map) Result {
	if !status.Has("allocation") {
		return healthy("WaitForFirstConsumer", "not allocated; it is once a pod uses the claim")
	}
	return healthy("Allocated", "allocated, reserved for %s", words.Count(len(status.List("reservedFor")), "consumer"))
}
