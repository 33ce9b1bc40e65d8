package health

import (
	"strings"
)

// A polarity says what a condition type means when it is True and when it is not.
type polarity int

const (
	unlisted polarity = iota
	good              // True is Healthy; False is Progressing or, by its reason, Degraded; Unknown is Progressing
	outcome           // True is Healthy; False is Degraded: it is only said at the end; Unknown is Progressing
	moving            // True is Progressing
	bad               // True is Degraded
	paused            // True is Suspended
)

// polarities are the condition types in general use. A kind that uses one of these words otherwise has a rule of its own.
var polarities = map[string]polarity{
	"Ready": good, "Available": good, "Synced": good, "Established": good, "Accepted": good, "Programmed": good,
	"Initialized": good, "Reconciled": good, "ReconcileSuccess": good, "Installed": good, "Deployed": good, "Released": good,
	"Valid": good, "Running": good, "Reachable": good, "Online": good, "Active": good, "Bound": good, "Approved": good,
	"Provisioned": good, "Connected": good, "Created": good, "Applied": good, "Enforced": good, "ResolvedRefs": good,

	"Healthy": outcome, "Succeeded": outcome, "Complete": outcome, "Completed": outcome, "Successful": outcome,

	"Reconciling": moving, "Progressing": moving, "Updating": moving, "Upgrading": moving, "Creating": moving,
	"Pending": moving, "Installing": moving, "Deploying": moving, "Scaling": moving, "Initializing": moving,
	"Provisioning": moving, "Migrating": moving, "RollingUpdate": moving, "RollingOut": moving, "InProgress": moving,
	"Processing": moving, "Deleting": moving, "Terminating": moving,

	"Stalled": bad, "Degraded": bad, "Failed": bad, "Failure": bad, "Failing": bad, "Error": bad, "Errored": bad,
	"Invalid": bad, "Conflict": bad, "Conflicted": bad, "Dangling": bad, "Unhealthy": bad, "Denied": bad,
	"Misconfigured": bad, "NetworkUnavailable": bad, "ReconcileError": bad, "ReplicaFailure": bad, "NonStructuralSchema": bad,

	"Suspended": paused, "Paused": paused, "Hibernated": paused,
}

// polaritySuffixes give the polarity of a type that is not in the table. The good ones count only where no listed type
// is there: beside a Ready that sums up, such types are details.
var polaritySuffixes = []struct {
	suffix   string
	polarity polarity
}{
	{"Failed", bad}, {"Failure", bad}, {"Error", bad}, {"Pressure", bad}, {"Degraded", bad},
	{"NotReady", bad}, {"Unavailable", bad},
	{"Ready", good}, {"Available", good}, {"Healthy", good}, {"Synced", good}, {"Succeeded", good},
	{"Valid", good}, {"Established", good}, {"Initialized", good}, {"Reconciled", good},
}

// failureWords in a condition's reason tell a failure from something that is still on its way.
var failureWords = []string{
	"Fail", "Error", "Invalid", "Denied", "Forbidden", "Unauthorized", "Rejected", "NotFound", "Conflict", "CrashLoop",
	"BackOff", "Stalled", "Exceeded", "TimedOut", "Timeout", "Unhealthy", "Degraded", "Misconfigured", "Unsupported",
	"NotAllowed", "NotPermitted", "Unreachable", "Missing", "Lost", "Broken", "Refused", "Duplicate", "Incompatible",
	"Insufficient", "Aborted", "Cancelled",
}

var pauseWords = []string{"Paused", "Suspended", "Hibernated"}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// polarityOf returns the polarity of a condition type and whether the table lists it.
func polarityOf(kind string) (p polarity, listed bool) {
	if p, ok := polarities[kind]; ok {
		return p, true
	}
	for _, s := range polaritySuffixes {
		if strings.HasSuffix(kind, s.suffix) {
			return s.polarity, false
		}
	}
	return unlisted, false
}

// byConditions returns the worst of what the conditions in status say; ok is false where none of them is understood.
func byConditions(o, status fields) (worst Result, ok bool) {
	generation := int64(0)
	if !status.has("observedGeneration") {
		generation = o.at("metadata").num("generation")
	}
	var details Result // the worst of the unlisted good ones
	detailed := false
	for _, v := range status.conditions() {
		c, valid := asCondition(asFields(v))
		if !valid {
			continue
		}
		p, listed := polarityOf(c.kind)
		r, says := c.judge(p, asFields(v), generation)
		switch {
		case !says:
		case listed || p == bad:
			if !ok || r.Code.WorseThan(worst.Code) {
				worst, ok = r, true
			}
		case !detailed || r.Code.WorseThan(details.Code):
			details, detailed = r, true
		}
	}
	if !ok {
		worst, ok = details, detailed
	}
	worst.Rule = "conditions"
	return worst, ok
}

// judge returns what the condition, of polarity p, says. Its raw fields and the object's generation, where the status
// as a whole does not say which one it is about, tell whether it is out of date.
func (c condition) judge(p polarity, raw fields, generation int64) (Result, bool) {
	r := Result{Code: Healthy, Reason: c.reasonOr(c.kind), Message: c.text()}
	switch {
	case p == unlisted || c.severity == "Info" && c.kind != "Ready":
		return r, false
	case raw.numOr("observedGeneration", generation) < generation && (p == good || p == outcome):
		return behind(raw.num("observedGeneration"), generation), true
	case p == good || p == outcome:
		r.Code = c.positive(p)
	case c.isTrue():
		r.Code = map[polarity]Code{moving: Progressing, bad: Degraded, paused: Suspended}[p]
		// A rollout that has come to its end keeps Progressing=True with such a reason.
		if p == moving && (strings.HasSuffix(c.reason, "Available") || strings.Contains(c.reason, "Complete")) {
			r.Code = Healthy
		}
	}
	return r, true
}

func (c condition) positive(p polarity) Code {
	switch {
	case c.isTrue():
		return Healthy
	case containsAny(c.reason, pauseWords):
		return Suspended
	case !c.isFalse():
		return Progressing // Unknown: its controller does not know yet
	case p == outcome || c.severity == "Error" || containsAny(c.reason, failureWords):
		return Degraded
	}
	return Progressing
}
