//go:build tools

// Package main keeps kwok in go.mod: it is built as a program of its own, since its flags clash with
// the other components' when they share a process.
package main

import _ "sigs.k8s.io/kwok/cmd/kwok"
