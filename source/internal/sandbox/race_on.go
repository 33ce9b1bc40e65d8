//go:build race

package sandbox

// raceDetector says that this program reserves terabytes of address space.
const raceDetector = true
