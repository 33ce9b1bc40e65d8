// Package sync is the controller: it observes Git and the cluster, compares, acts on the difference only, and reports,
// for ever. It is level-triggered: an event only wakes the loop, and every verdict comes from the present state.
//
// Start reading at Controller.reconcile, which reads like a table of contents: gather, decide, act, report. Decide is
// pure (Decide in plan.go) and is what `trueup diff` and `trueup sync --dry-run` print.
package sync
