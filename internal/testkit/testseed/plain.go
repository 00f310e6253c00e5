//go:build !race

package testseed

// Race says whether the race detector runs.
const Race = false
