package source

import "github.com/trueup/trueup/source/internal/sandbox"

// ErrLimit says that a renderer was stopped because it took more than it may.
var ErrLimit = sandbox.ErrLimit

// Main is to be called first by main, and by TestMain in a package whose tests render. Charts and the like are rendered
// in a child process, which is this program started again: there Main does the work and does not return. Elsewhere it
// returns at once.
func Main() { sandbox.Main() }
