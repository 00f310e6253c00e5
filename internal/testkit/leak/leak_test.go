package leak

import (
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m, 1) }

// TestWait finds a goroutine that waits, and none after it has ended.
func TestWait(t *testing.T) {
	end := make(chan struct{})
	go func() { <-end }()
	if left := wait(10 * time.Millisecond); len(left) != 1 || !strings.Contains(left[0], "leak.TestWait") {
		t.Errorf("goroutines %q", left)
	}
	close(end)
	if left := wait(patience); len(left) > 0 {
		t.Errorf("goroutines %q", left)
	}
}
