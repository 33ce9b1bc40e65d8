//go:build !linux

package sandbox

import "time"

// drop does nothing here: the limits that Run and the child itself keep remain.
func drop(int64, time.Duration) {}
