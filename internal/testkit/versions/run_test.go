package versions

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// run runs the program and returns what it prints.
func run(t testing.TB, args ...string) (string, error) {
	t.Helper()
	program := apptest.Binary(t) // it may have to be built, which takes minutes on a busy machine
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	return string(out), err
}

// must runs the program, which must succeed.
func must(t testing.TB, args ...string) string {
	t.Helper()
	out, err := run(t, args...)
	if err != nil {
		t.Fatalf("tsdbd %q: %v\n%s", args, err, out)
	}
	return out
}
