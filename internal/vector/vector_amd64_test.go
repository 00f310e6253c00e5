package vector

import "testing"

// TestInGo repeats the tests without vector instructions.
func TestInGo(t *testing.T) {
	defer func(a, b bool) { has256, has512 = a, b }(has256, has512)
	has256, has512 = false, false
	TestPlainLoops(t)
	TestRuns(t)
}
