package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/exchange/rows"
	"tsdbd/lineproto"
	"tsdbd/model"
	"tsdbd/model/column"
)

// TestRefusalsOfNames: rows whose names line protocol cannot have are comments, whatever is in
// the names, the reason and the values.
func TestRefusalsOfNames(t *testing.T) {
	name := filepath.Join(t.TempDir(), "refused")
	r, err := OpenRefused(name, false)
	if err != nil {
		t.Fatal(err)
	}
	v := column.Vector{Type: model.String, Strings: []string{"x\nevil v=1 98"}}
	for _, c := range []struct{ key, field string }{{"m,t=a\nevil", "v"}, {`m,t=a\`, "v"}, {"m,t=a", `v\`}, {"m,t=a", "v\n"}, {"", "v"}, {"#m", "v"}, {"m,t=a b", "v"}} {
		r.keepRun("d", "p", "a bad name\nevil v=1 97", &rows.Run{Key: c.key, Fields: []column.Field{{Key: c.field, Type: model.String}}, Rows: column.Rows{Times: []int64{99}, Cols: []column.Vector{v}}})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range lineproto.Lines(text) {
		if !strings.HasPrefix(string(line), "# ") {
			t.Errorf("a line %q", line)
		}
	}
	if n := strings.Count(string(text), "\n# \"a bad name\\nevil v=1 97\": \""); n != 7 {
		t.Errorf("%d comments, want 7:\n%s", n, text)
	}
}
