package transfer

import (
	"testing"

	"tsdbd/lineproto/wire"
)

// TestQuotes: a line of a field is whole whatever the names are, and is open within a string,
// also when it comes byte by byte.
func TestQuotes(t *testing.T) {
	for _, key := range []string{"v", `x="y`, `="`, `x"=y`, `"`, `"="`, `a b="`, `a,b="`} {
		begin := wire.AppendSeries(nil, `m,t=a\="b`)
		for _, f := range []struct {
			text string
			open bool
		}{{"1i 1\n", false}, {"\"a\n", true}, {"\"a=\\\"\n", true}, {"\"a\n\" 1\n", false}, {`"\` + "\n", true}, {`"\\" 1` + "\n", false}} {
			line := append(append(append(begin[:len(begin):len(begin)], ' '), wire.FieldPrefix(key)...), f.text...)
			var whole, parts quotes
			open := false
			for n := range line {
				open = parts.open(line[:n+1])
			}
			if whole.open(line) != f.open || open != f.open {
				t.Errorf("%q: open is %t, byte by byte %t, want %t", line, !f.open, open, f.open)
			}
		}
	}
}
