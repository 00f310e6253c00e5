package apptest

import (
	"net"
	"os"
	"strings"
	"testing"
)

// TestAddressIsTriedFirst: an address in use ends the start before the data is
// opened, whose log may take long to read.
func TestAddressIsTriedFirst(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	text := Refusal(t, "-data", dir, "-http", l.Addr().String())
	if !strings.Contains(text, "choose another address") {
		t.Errorf("said %s", text)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the data was opened: %v %v", entries, err)
	}
}
