package testseed

import "testing"

// Rounds returns how many of n rounds a test runs that is random or repeats itself: all
// of them, a quarter with -short, and a twelfth under the race detector. That makes the
// work of one goroutine ten times slower, and has little to find in it.
func Rounds(n int) int {
	switch {
	case Race:
		n /= 12
	case testing.Short():
		n /= 4
	}
	return max(n, 1)
}

// Stride returns from which place of a file to which next one a test goes that damages
// every place, by the same reasons: 1, 7 with -short, and 29 under the race detector.
func Stride() int {
	switch {
	case Race:
		return 29
	case testing.Short():
		return 7
	}
	return 1
}
