package syntax

import (
	"runtime"
	"strings"
	"testing"
)

// parseBytes returns what reading a text allocates.
func parseBytes(t *testing.T, text string, refused bool) uint64 {
	t.Helper()
	return allocated(func() {
		if _, err := Parse(text, nil); (err != nil) != refused {
			t.Fatalf("%.100s: %v", text, err)
		}
	})
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestSetsAreLinear: a long name before a long list, and many lists, cost
// memory by the length of the text.
func TestSetsAreLinear(t *testing.T) {
	for _, f := range []func(n int) string{
		func(n int) string {
			return `SELECT v FROM m WHERE "` + strings.Repeat("n", n) + `" IN (1` + strings.Repeat(",1", n) + ")"
		},
		func(n int) string {
			return "SELECT v FROM m WHERE " + strings.Repeat("h IN ('i0') OR ", n/100) + " h NOT IN (1" + strings.Repeat(",'i1'", n) + ")"
		},
		func(n int) string {
			return "SELECT v FROM m" + strings.Repeat(";SELECT mean(v) FROM m GROUP BY h HAVING mean(v) IN (1)", n/50)
		},
	} {
		small, large := parseBytes(t, f(2000), false), parseBytes(t, f(8000), false)
		if large > 8*small || large > 2000*8000 {
			t.Errorf("%.60s: %d bytes, for a text of four times the length %d", f(1), small, large)
		}
	}
}

// TestRefusedTextsAreLinear: a slip at the end of many statements costs by
// their number.
func TestRefusedTextsAreLinear(t *testing.T) {
	for _, statement := range []string{
		"SELECT v FROM m LIMIT 1;", "SELECT v FROM m WHERE h IN ('a');", "SHOW CARDINALITY;",
		"SELECT mean(v) FROM m GROUP BY h HAVING mean(v) > 1;", "SELECT mean(v) FROM m GROUP BY time(1mo) -- a comment\n;",
	} {
		for _, slip := range []string{"SELECT v FRM m", "SELECT v FROM m WHERE h IN ('a') AND", "SHOW CARDINALITY LIMIT x"} {
			small := parseBytes(t, strings.Repeat(statement, 500)+slip, true)
			large := parseBytes(t, strings.Repeat(statement, 2000)+slip, true)
			if large > 6*small {
				t.Errorf("%s%s: %d bytes, for four times the statements %d", statement, slip, small, large)
			}
		}
	}
	// The place of a slip is that in the whole text.
	for _, c := range []struct{ text, want string }{
		{"SHOW DATABASES;\n SELECT v FROM m WHERE h IN ('a') AND", "found EOF, expected identifier, string, number, bool at line 2, char 39"},
		{"SHOW DATABASES;\r\nSHOW CARDINALITY LIMIT x", "found x, expected integer at line 2, char 24"},
		{"SHOW USERS; SELECT mean(v) FROM m GROUP BY h HAVING mean(v) >", "HAVING mean(v) >: found EOF, expected identifier, string, number, bool at line 1, char 62"},
		{"SHOW CARDINALITY; SELECT v > 1 FROM m", grammarError("SHOW CARDINALITY")},
		{"SELECT v FROM m WHERE h IN ('a'); SELECT v > 1 FROM m WHERE h IN ('b')", "invalid operator > in SELECT clause at line 1, char 42; operator is intended for WHERE clause"},
	} {
		if _, err := Parse(c.text, nil); err == nil || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}
