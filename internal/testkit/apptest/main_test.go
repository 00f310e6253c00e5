package apptest

import (
	"testing"

	"tsdbd/internal/testkit/leak"
)

// TestMain runs many tests at a time: most of them wait for their servers.
func TestMain(m *testing.M) {
	leak.Parallel(8)
	Main(m)
}
