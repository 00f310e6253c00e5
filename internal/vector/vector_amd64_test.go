package vector

import "testing"

// TestPlainLoopsInGo is TestPlainLoops without vector instructions.
func TestPlainLoopsInGo(t *testing.T) {
	defer func(a, b bool) { has256, has512 = a, b }(has256, has512)
	has256, has512 = false, false
	TestPlainLoops(t)
}
