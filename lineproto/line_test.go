package lineproto

import (
	"slices"
	"strings"
	"testing"

	"tsdbd/lineproto/wire"
)

// TestLine: a line of a field is whole whatever the names are, and goes on within a string
// and behind a backslash, also when it comes byte by byte.
func TestLine(t *testing.T) {
	check := func(line string, ends, quoted, escaped bool) {
		t.Helper()
		var whole, parts Line
		n, ended := whole.End([]byte(line))
		in := false
		for i := range line {
			if _, in = parts.End([]byte(line[i : i+1])); in && i+1 < len(line) {
				t.Errorf("%q: it ends at %d", line, i+1)
				return
			}
		}
		if n != len(line) || ended != ends || in != ends || whole != parts || whole.Quoted() != quoted || whole.Escaped() != escaped {
			t.Errorf("%q: %d bytes, ended %t, byte by byte %t, quoted %t, escaped %t", line, n, ended, in, whole.Quoted(), whole.Escaped())
		}
	}
	for _, key := range []string{"v", `x="y`, `="`, `x"=y`, `"`, `"="`, `a b="`, `a,b="`} {
		begin := string(wire.AppendSeries(nil, `m,t=a\="b`))
		for _, f := range []struct {
			text string
			ends bool
		}{{"1i 1\n", true}, {"\"a\n", false}, {"\"a=\\\"\n", false}, {"\"a\n\" 1\n", true}, {`"\` + "\n", false}, {`"\\" 1` + "\n", true}, {"1,b=\"\n", false}, {"1,b=2,c=\"\n\" 1\n", true}} {
			check(begin+" "+wire.FieldPrefix(key)+f.text, f.ends, !f.ends, false)
		}
	}
	check("\n", true, false, false)
	check(" \t\x00\n", true, false, false)
	check("# a=\"b\n", true, false, false)
	check(" \x00#\\\n", true, false, false)
	check("m v=1\\", false, false, true)
	check("m v=1\\\n", false, false, false)
	check("m v=1\\\nx\n", true, false, false)
}

// TestLines: the lines of a body are those that a Parser reads, however it is cut there.
func TestLines(t *testing.T) {
	lines := []string{"m s=\"a\nn v=1 1\nb\" 1\n", "\n", " # \"\n", "m v=1\\\nx v=2 2\n", "m,t=\" v=3 3\n", "m s=\"open\nn v=4"}
	if got := slices.Collect(Lines([]byte(strings.Join(lines, "")))); !slices.EqualFunc(got, lines, func(b []byte, s string) bool { return string(b) == s }) {
		t.Errorf("lines %q, want %q", got, lines)
	}
	for l := range Lines([]byte("a\nb\n")) {
		if string(l) != "a\n" {
			t.Errorf("a second line %q", l)
		}
		break
	}
}
