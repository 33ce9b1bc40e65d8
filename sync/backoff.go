package sync

import (
	"time"

	"github.com/trueup/trueup/sync/v1alpha1"
)

// Backoff of a failed sync where the Application says nothing.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 3 * time.Minute
	factor     = 2
)

// backoff returns how long to wait before the next try after n that failed; ok is false where the Application's limit
// is reached and only a change or a person brings the next one.
func backoff(spec *v1alpha1.SyncPolicy, n int64) (wait time.Duration, ok bool) {
	first, last, by := firstRetry, lastRetry, int64(factor)
	if spec != nil && spec.Retry != nil {
		if limit := spec.Retry.Limit; limit != nil && *limit >= 0 && n > *limit {
			return 0, false
		}
		if b := spec.Retry.Backoff; b != nil {
			first, last = duration(b.Duration, first), duration(b.MaxDuration, last)
			if b.Factor != nil && *b.Factor >= 1 {
				by = *b.Factor
			}
		}
	}
	wait = first
	for range n - 1 {
		if wait *= time.Duration(by); wait >= last {
			break
		}
	}
	return min(wait, max(last, first)), true
}

func duration(s string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return d
	}
	return otherwise
}
