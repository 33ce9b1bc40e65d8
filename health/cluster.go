package health

import "strings"

func apiService(_ *Judge, o, status fields) Result {
	switch c := status.condition("Available"); {
	case c.isTrue():
		return healthy(c.reasonOr("Available"), "available")
	case c.isFalse():
		return progressing(c.reasonOr("Unavailable"), "not available: %s", c.text())
	}
	return progressing("NotObserved", "waiting for the aggregator to look for its service")
}

func customResourceDefinition(_ *Judge, _, status fields) Result {
	established, accepted := status.condition("Established"), status.condition("NamesAccepted")
	switch {
	case status.condition("Terminating").isTrue():
		return progressing("Terminating", "%s", status.condition("Terminating").text())
	case accepted.isFalse():
		return degraded(accepted.reasonOr("NamesNotAccepted"), "names not accepted: %s", accepted.text())
	case status.condition("NonStructuralSchema").isTrue():
		c := status.condition("NonStructuralSchema")
		return degraded(c.reasonOr(c.kind), "%s", c.text())
	case established.isTrue():
		return healthy("Established", "established")
	case established.isFalse():
		return progressing(established.reasonOr("NotEstablished"), "not established: %s", established.text())
	}
	return progressing("NotEstablished", "waiting to be established")
}

func namespace(_ *Judge, _, status fields) Result {
	if status.str("phase") == "Terminating" {
		return namespaceTerminating(status)
	}
	return healthy("Active", "active")
}

// namespaceTerminating says what the deletion of the namespace is stuck on, as the namespace controller reports it.
func namespaceTerminating(status fields) Result {
	for _, kind := range []string{
		"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure", "NamespaceDeletionContentFailure",
	} {
		if c := status.condition(kind); c.isTrue() {
			return degraded(c.reasonOr(kind), "being deleted, and cannot be: %s", c.text())
		}
	}
	var waiting []string
	for _, kind := range []string{"NamespaceContentRemaining", "NamespaceFinalizersRemaining"} {
		if c := status.condition(kind); c.isTrue() {
			waiting = append(waiting, c.text())
		}
	}
	if len(waiting) > 0 {
		return progressing("NamespaceContentRemaining", "being deleted, waiting: %s", strings.Join(waiting, "; "))
	}
	return progressing("Terminating", "being deleted")
}

func certificateSigningRequest(_ *Judge, _, status fields) Result {
	denied, failed := status.condition("Denied"), status.condition("Failed")
	switch {
	case denied.isTrue():
		return degraded(denied.reasonOr("Denied"), "denied: %s", denied.text())
	case failed.isTrue():
		return degraded(failed.reasonOr("Failed"), "%s", failed.text())
	case status.str("certificate") != "":
		return healthy("Issued", "certificate issued")
	case status.condition("Approved").isTrue():
		return progressing("Approved", "approved, waiting for its signer")
	}
	return progressing("Pending", "waiting for approval")
}

// admissionPolicy reads the type check of a ValidatingAdmissionPolicy; its warnings say that an expression will fail.
func admissionPolicy(_ *Judge, _, status fields) Result {
	warnings := status.at("typeChecking").list("expressionWarnings")
	if len(warnings) > 0 {
		first := asFields(warnings[0])
		return degraded("TypeCheckFailed", "%d expressions do not type check; %s: %s", len(warnings), first.str("fieldRef"), first.str("warning"))
	}
	if len(status) == 0 {
		return progressing("NotObserved", "waiting for its expressions to be checked")
	}
	return healthy("Checked", "its expressions type check")
}

// flowControl judges FlowSchema and PriorityLevelConfiguration, which get a condition only when something refers to nothing.
func flowControl(_ *Judge, _, status fields) Result {
	if c := status.condition("Dangling"); c.isTrue() {
		return degraded(c.reasonOr("Dangling"), "%s", c.text())
	}
	return healthy("Present", "present")
}

func resourceClaim(_ *Judge, _, status fields) Result {
	if !status.has("allocation") {
		return healthy("WaitForFirstConsumer", "not allocated; it is once a pod uses the claim")
	}
	return healthy("Allocated", "allocated, reserved for %d consumers", len(status.list("reservedFor")))
}
