package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
	"tsdbd/internal/version"
)

func TestMain(m *testing.M) { apptest.Main(m) }

func TestCommands(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if err := run(t.Context(), args, &out, io.Discard); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("tsdbd %v: %v %q", args, err, out.String())
		}
	}
	f("tsdbd "+version.String(), "version")
	f("USAGE:", "help")
	f("USAGE:", "-h")
	f(`bind-address = "127.0.0.1:1"`, "config", "-http", "127.0.0.1:1")
	if err := run(t.Context(), []string{"nosuch"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("unknown command: %v", err)
	}
}
