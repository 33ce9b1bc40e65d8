// Package health says how one Kubernetes object is doing, from that object alone.
//
// Start at [Of], which judges with the rules that ship with Trueup. A [Judge] holds further rules, written in CEL, from
// the agent's configuration or an Application.
//
// An object is judged by the first of these that has something to say:
//
//  1. it is being deleted, or its controller has not seen its newest generation yet;
//  2. the CEL rule of its group and kind (given rules before shipped ones, see the folder rules);
//  3. the function of its built-in kind, see the table in kinds.go;
//  4. its conditions, with their polarity from the table in conditions.go;
//  5. the words in its status.phase or status.state;
//  6. whether it has a status at all.
//
// The package is pure: no client, context, clock or logger. Where time decides (a Deployment that has been progressing
// for too long without a deadline of its own), it returns the fact and leaves the clock to its caller. It never changes
// the object, and no object, however broken, makes it panic.
package health
