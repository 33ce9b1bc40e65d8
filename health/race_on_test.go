//go:build race

package health

// slack is how much slower everything is under the race detector.
const slack = 20
