// Package apply is the only one that writes workload objects to the cluster: server-side apply with a dry-run first,
// in an order in which each object finds what it needs, and deletes that are sure of what they delete.
//
// Start reading at Writer. What to apply is decided elsewhere; this package does what it is told and reports what
// the API server said, sorted into the classes that a caller can act on (see Classify).
package apply
