package mover

import (
	"slices"
	"strings"
	"testing"

	"tsdbd/exchange/rows"
	"tsdbd/lineproto"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/journal"
)

// TestRefusalsOfNames: rows whose names line protocol cannot have are comments, whatever is in
// the names, the reason and the values.
func TestRefusalsOfNames(t *testing.T) {
	var text strings.Builder
	v := column.Vector{Type: model.String, Strings: []string{"x\nevil v=1 98"}}
	for _, c := range []struct{ key, field string }{{"m,t=a\nevil", "v"}, {`m,t=a\`, "v"}, {"m,t=a", `v\`}, {"m,t=a", "v\n"}, {"", "v"}, {"#m", "v"}, {"m,t=a b", "v"}} {
		b, err := textOf("d", "p", "a bad name\nevil v=1 97", &rows.Run{Key: c.key, Fields: []column.Field{{Key: c.field, Type: model.String}}, Rows: column.Rows{Times: []int64{99}, Cols: []column.Vector{v}}})
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	for line := range lineproto.Lines([]byte(text.String())) {
		if !strings.HasPrefix(string(line), "# ") {
			t.Errorf("a line %q", line)
		}
	}
	if n := strings.Count(text.String(), "\n# \"a bad name\\nevil v=1 97\": \""); n != 7 {
		t.Errorf("%d comments, want 7:\n%s", n, text.String())
	}
}

// TestReasons: what was refused for one reason is counted by it, and for several together as a
// whole.
func TestReasons(t *testing.T) {
	m := &Move{}
	tally := &Tally{m: m}
	tally.Refused(journal.Refused{Count: 2, Reasons: []string{"a"}})
	tally.Refused(journal.Refused{Count: 5, Reasons: []string{"a", "b"}})
	want := []Reason{{"a", 2}, {"b", 0}}
	if s := &m.mu.stats; s.Refused != 7 || !slices.Equal(s.Reasons, want) || tally.refused.Count != 7 {
		t.Errorf("%+v", s)
	}
}
