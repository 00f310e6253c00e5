package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query"
	"tsdbd/query/result"
	"tsdbd/store"
)

// TestFirstRows holds raw SELECTs with LIMIT, which leave most series unread, to
// the first rows of the same statements without. The series lie in several
// files and in memory, some are deleted, and most rows share their time with
// others, so that tags decide.
func TestFirstRows(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 21))
	dir := t.TempDir()
	st := openStore(t, dir)
	if err := st.Apply(t.Context(), meta.CreateDatabase{Name: "db"}); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		if round > 0 { // what was written goes to files
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			st = openStore(t, dir)
		}
		var lines strings.Builder
		for range 900 {
			lines.WriteString(firstRowsLine(rnd, round))
		}
		writeLines(t, st, lines.String())
		firstRowsStatement(t, st, fmt.Sprintf("DELETE FROM m WHERE a = 'v%02d'", rnd.IntN(40)))
		firstRowsStatement(t, st, fmt.Sprintf("DELETE FROM m WHERE b = 'y' AND time < %ds", 10*rnd.IntN(20)))
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	several := 0
	for range testseed.Rounds(100) {
		pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
		q := fmt.Sprintf("SELECT %s FROM m %s %s %s", pick("f", "i", "f, i", "*", "f, b", "i + 1", "nobody, f"),
			pick("", "", "WHERE time >= 45s", "WHERE time > 30s AND time <= 200s", "WHERE f > 5", "WHERE a != 'v03'",
				"WHERE i = 2 OR b = 'x'", "WHERE f > 7 AND time < 150s", "WHERE i > 1000"),
			pick("", "", "", "GROUP BY b", "GROUP BY c, b", "GROUP BY *"), pick("", "ORDER BY time DESC"))
		limit, offset := 1+rnd.IntN(1<<rnd.IntN(9)), rnd.IntN(1<<rnd.IntN(7))
		var want []string
		tables := firstRowsStatement(t, st, q)
		for _, table := range tables {
			lo := min(offset+1, len(table))
			if rows := table[lo:min(lo+limit, len(table))]; len(rows) > 0 {
				want = append(append(want, table[0]), rows...)
			}
		}
		if len(tables) > 1 {
			several++
		}
		short := fmt.Sprintf("%s LIMIT %d OFFSET %d", q, limit, offset)
		got := slices.Concat(firstRowsStatement(t, st, short)...)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("seed %d: %s:\n%d lines, want %d; from line %d on\n%.400q, want\n%.400q", seed, short, len(got), len(want), i, got[min(i, len(got)):], want[min(i, len(want)):])
			}
		}
	}
	if several == 0 {
		t.Error("no statement had several groups")
	}
}

// firstRowsLine returns a point. Values of tags begin one another and need
// escapes: their order is not that of the series keys.
func firstRowsLine(rnd *rand.Rand, round int) string {
	key := "m"
	if rnd.IntN(8) > 0 {
		key += fmt.Sprintf(",a=v%02d%s", rnd.IntN(40), []string{"", "!", `\ `, `\,`, "0"}[rnd.IntN(5)])
	}
	if rnd.IntN(3) > 0 {
		key += ",b=" + []string{"x", "y", "xx"}[rnd.IntN(3)]
	}
	if rnd.IntN(3) > 0 {
		key += fmt.Sprintf(",c=%d", rnd.IntN(3))
	}
	fields := []string{fmt.Sprintf("f=%d", rnd.IntN(10)), fmt.Sprintf("i=%di", rnd.IntN(5)), fmt.Sprintf("f=%d,i=%di", rnd.IntN(10), rnd.IntN(5))}[rnd.IntN(3)]
	at := 10 * (rnd.IntN(3) + 2*round)
	if rnd.IntN(5) == 0 {
		at = rnd.IntN(300)
	}
	if rnd.IntN(6) == 0 {
		at += 7 * 24 * 3600
	}
	return fmt.Sprintf("%s %s %d\n", key, fields, at)
}

// firstRowsStatement returns a text per table, its head first, then its rows.
func firstRowsStatement(t *testing.T, st *store.Store, text string) (tables [][]string) {
	t.Helper()
	q, err := influxql.ParseQuery(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	e := query.New(query.Options{Storage: st, Admin: engine{Store: st}})
	err = e.Execute(t.Context(), q, query.ExecuteOptions{Database: "db"}, func(r *result.Result) error {
		for _, s := range r.Series {
			table := []string{fmt.Sprint(s.Name, s.Tags)}
			for i := range s.Rows {
				row := ""
				for c := range s.Values {
					row += fmt.Sprint(firstRowsCell(&s.Values[c], i), " ")
				}
				table = append(table, row)
			}
			tables = append(tables, table)
		}
		return r.Err
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return tables
}

func firstRowsCell(v *column.Vector, i int) any {
	if v.Type == model.Unknown || !v.IsValid(i) {
		return nil
	}
	switch v.Type {
	case model.Float:
		return v.Floats[i]
	case model.Integer:
		return v.Ints[i]
	}
	return v.Strings[i]
}
