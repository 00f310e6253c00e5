package vector

import "testing"

// TestInGo repeats the tests without vector instructions.
func TestInGo(t *testing.T) {
	defer func(a, b bool) { has256, has512 = a, b }(has256, has512)
	for _, has256 = range []bool{has256, false} {
		has512 = false
		TestPlainLoops(t)
		TestRuns(t)
	}
}
