package main

import (
	"strings"
	"testing"
)

// TestClusterFlags: every flag of a node sets the key that has its name.
func TestClusterFlags(t *testing.T) {
	flags := []string{
		"node", "n1", "bind", "127.0.0.1:1", "advertise", "localhost:1", "join", "n1=localhost:1,n2=localhost:2",
		"secret-file", "s", "certificate", "c", "private-key", "k", "ca", "a",
	}
	args := []string{"config", "-cluster-voter", "false"}
	for i := 0; i < len(flags); i += 2 {
		args = append(args, "-cluster-"+flags[i], flags[i+1])
	}
	out := must(t, args...)
	_, section, _ := strings.Cut(out, "\n[cluster]\n")
	for i := 0; i < len(flags); i += 2 {
		if line := flags[i] + ` = "` + flags[i+1] + `"` + "\n"; !strings.Contains(section, line) {
			t.Errorf("no %s in\n%s", line, section)
		}
	}
	if !strings.Contains(section, "voter = false\n") {
		t.Errorf("-cluster-voter has no effect:\n%s", section)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-cluster-node", ""}, "it is empty, see tsdbd config -help"},
		{[]string{"-cluster-join", "n1"}, `-cluster-join: "n1" is not NAME=HOST:PORT`},
		{[]string{"-cluster-voter", "maybe"}, `-cluster-voter: "maybe" is neither true nor false`},
		{[]string{"-cluster-secret", "x"}, "did you mean -cluster-secret-file?, see tsdbd config -help"},
	} {
		if _, _, err := tsdbd(t, append([]string{"config"}, c.args...)...); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
}
