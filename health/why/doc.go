// Package why names the first control loop in which an Application is stuck.
//
// Start at [Explain]. It walks from the Application down the chain of loops, Git → apply → Deployment → ReplicaSet →
// scheduling → volumes → image pull → init containers → crash loop → probes → readiness gates, and stops at the first
// that does not get on. StatefulSets, DaemonSets, Jobs, autoscalers, claims and Namespaces have chains of their own; what
// else there is is followed by its owner references.
//
// The package is pure: it reads a [Snapshot] that its caller has gathered with a few list calls, and now is an argument.
package why
