package proc

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// TestFreeAddress: what one process was given, another is not, though nobody listens there.
func TestFreeAddress(t *testing.T) {
	const many = 300 // of 22,768: were they chosen without a look, some four would be the same
	mine := map[string]bool{}
	for range many {
		address, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if os.Getenv("PROC_TEST_ADDRESSES") != "" { // the other process
			fmt.Println("given", address)
		} else if mine[address] {
			t.Fatalf("%s was given twice", address)
		}
		mine[address] = true
	}
	if os.Getenv("PROC_TEST_ADDRESSES") != "" {
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("processes do not know of each other's addresses here")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFreeAddress$")
	cmd.Env = append(os.Environ(), "PROC_TEST_ADDRESSES=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		address, ok := strings.CutPrefix(strings.TrimSpace(line), "given ")
		if !ok {
			continue
		}
		n++
		if mine[address] {
			t.Errorf("%s was given to both", address)
		}
	}
	if n != many {
		t.Errorf("the other process was given %d addresses", n)
	}
}
