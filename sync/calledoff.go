package sync

import (
	"time"

	"github.com/trueup/trueup/health/words"
	"github.com/trueup/trueup/source"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// calledOff reports whether automated sync began the run and has been turned off since, and nobody has asked for the sync.
// Then nothing of the run begins any more, and it ends with the hooks that are at work.
func (l *look) calledOff() bool {
	return l.run != nil && !l.run.over && l.run.status.Request == "" && !l.input.Policy.Automated && !l.asked()
}

// asked reports whether a person's word waits, be it for a look at Git.
func (l *look) asked() bool {
	r := PendingRequest(l.app)
	return r != nil && r.ID != l.st.answered
}

const calledOffMessage = "automated sync was turned off while the hooks of this sync ran: trueup sync begins it anew"

// callOff ends a run that is called off, as soon as none of its hooks is at work.
func (l *look) callOff(now time.Time) {
	r := l.run
	for _, h := range l.hooks {
		if item := r.item(h); item != nil && item.State == v1alpha1.PhaseRunning && item.UID != "" {
			l.awaitHook(h)
			l.hookWait += "; automated sync was turned off, and nothing comes after it"
			return
		}
	}
	if l.whole() && r.allDone(l.hooks) {
		r.end(v1alpha1.PhaseSucceeded, words.Count(len(r.status.Hooks), "hook")+" ran", now)
		return
	}
	message := calledOffMessage
	if failed := r.failure(); failed != nil {
		message = l.snap.mask.Text(hookFailure(failed))
	}
	r.giveUp("was not made before automated sync was turned off", message, now)
}

// allDone reports whether all hooks have succeeded that run in a sync in which nothing fails.
func (r *hookRun) allDone(hooks []*Hook) bool {
	for _, phase := range []source.HookPhase{source.PreSync, source.Sync, source.PostSync} {
		if !r.stage(hooks, phase).done() {
			return false
		}
	}
	return true
}
