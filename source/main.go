package source

import "github.com/trueup/trueup/source/internal/sandbox"

// Main is to be called first by main, and by TestMain in a package whose tests render. Charts and the like are rendered
// in a child process, which is this program started again: there Main does the work and does not return. Elsewhere it
// returns at once.
func Main() { sandbox.Main() }
