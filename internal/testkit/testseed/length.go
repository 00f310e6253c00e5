package testseed

import (
	"strconv"
	"testing"
)

// Rounds returns how many of n rounds a test runs that is random or repeats itself: all
// of them, a quarter with -short, and a twelfth under the race detector or in a program of
// 32 bits. The one makes the work of one goroutine ten times slower, and has little to find
// in it; the other looks for what words of 32 bits break, which the first rounds show.
func Rounds(n int) int {
	switch {
	case Race || strconv.IntSize == 32:
		n /= 12
	case testing.Short():
		n /= 4
	}
	return max(n, 1)
}

// Stride returns from which place of a file to which next one a test goes that damages
// every place, by the same reasons: 1, 7 with -short, and 29 for the others.
func Stride() int {
	switch {
	case Race || strconv.IntSize == 32:
		return 29
	case testing.Short():
		return 7
	}
	return 1
}
