// Package testseed gives random tests their seed: the same in every run, so
// that a green suite stays green, unless the environment asks for others. It
// also says how long they run.
package testseed

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Variable names the environment variable: unset or empty for the fixed seed,
// a number for that one, "random" for one from the clock.
const Variable = "TSDBD_SEED"

// fixed is the seed of an ordinary run.
const fixed = 20260101

// Of returns the seed of a test, which a failure prints.
func Of(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(fixed)
	switch v := os.Getenv(Variable); v {
	case "":
	case "random":
		seed = uint64(time.Now().UnixNano())
	default:
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("%s=%s: want a number or random", Variable, v)
		}
		seed = n
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with %s=%d", Variable, seed)
		}
	})
	return seed
}
