package health

import (
	"strings"

	"github.com/trueup/trueup/health/internal/fields"
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
func byConditions(o, status fields.Map) (worst Result, ok bool) {
	generation := int64(0)
	if !status.Has("observedGeneration") {
		generation = o.At("metadata").Num("generation")
	}
	var details Result // the worst of the unlisted good ones
	detailed := false
	for _, v := range status.Conditions() {
		c, valid := fields.ConditionOf(fields.Of(v))
		if !valid {
			continue
		}
		p, listed := polarityOf(c.Kind)
		r, says := judgeCondition(c, p, fields.Of(v), generation)
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

// judgeCondition returns what c, a condition of polarity p, says. Its raw fields, and the object's generation where the
// status as a whole does not say which one it is about, tell whether it is out of date.
func judgeCondition(c fields.Condition, p polarity, raw fields.Map, generation int64) (Result, bool) {
	r := Result{Code: Healthy, Reason: c.ReasonOr(c.Kind), Message: c.Text()}
	switch {
	case p == unlisted || c.Severity == "Info" && c.Kind != "Ready":
		return r, false
	case raw.NumOr("observedGeneration", generation) < generation && (p == good || p == outcome):
		return behind(raw.Num("observedGeneration"), generation), true
	case p == good || p == outcome:
		r.Code = positive(c, p)
	case !c.IsTrue():
	case p == bad:
		r.Code = Degraded
	case p == paused:
		r.Code = Suspended
	case !strings.HasSuffix(c.Reason, "Available") && !strings.Contains(c.Reason, "Complete"):
		// With such a reason, Progressing=True is what a rollout says that has come to its end.
		r.Code = Progressing
	}
	return r, true
}

func positive(c fields.Condition, p polarity) Code {
	switch {
	case c.IsTrue():
		return Healthy
	case containsAny(c.Reason, pauseWords):
		return Suspended
	case !c.IsFalse():
		return Progressing // Unknown: its controller does not know yet
	case p == outcome || c.Severity == "Error" || containsAny(c.Reason, failureWords):
		return Degraded
	}
	return Progressing
}
