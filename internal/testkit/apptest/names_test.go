package apptest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tsdbd/lineproto/wire"
	"tsdbd/model"
)

// TestNamesOfAnyBytes writes measurements, tags and fields with each byte in their names,
// and finds, renames and deletes each of them by its bytes. Nothing of them breaks an
// answer, a header or a line of the log.
func TestNamesOfAnyBytes(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) { t.Parallel(); namesOfAnyBytes(t, Start(t)) })
	t.Run("follower", func(t *testing.T) { t.Parallel(); namesOfAnyBytes(t, StartFollower(t)) })
}

func namesOfAnyBytes(t *testing.T, s *Server) {
	s.Through(ReadOwnWrites)
	s.Query("", "CREATE DATABASE bytes")
	var quoted []string
	var lines []byte
	for c := range 256 {
		name := "a" + string([]byte{byte(c)}) + "b"
		if model.UnstorableName(name) != "" {
			name = "a\\\nb" // a newline, which only a backslash keeps in the line
		}
		quoted = append(quoted, strings.NewReplacer(`\`, `\\`, `"`, `\"`, `'`, `\'`, "\n", `\n`).Replace(name))
		key := model.AppendSeriesKey(nil, "m"+name, model.Tags{{Key: "k" + name, Value: "v" + name}})
		lines = append(append(wire.AppendSeries(lines, string(key)), ' '), wire.FieldPrefix("f"+name)...)
		lines = fmt.Appendf(lines, "%di 1000000\n", c)
	}
	s.Write("bytes", string(lines))
	// count returns how many rows a statement returns.
	count := func(q string) (n int) {
		t.Helper()
		answer := s.Query("bytes", q)
		if !utf8.ValidString(answer) {
			t.Errorf("%q: %q", q, answer)
		}
		var a struct {
			Results []struct{ Series []struct{ Values [][]any } }
		}
		if err := json.Unmarshal([]byte(answer), &a); err != nil {
			t.Fatal(err)
		}
		for _, r := range a.Results {
			for _, sr := range r.Series {
				n += len(sr.Values)
			}
		}
		return n
	}
	if n := count(`SELECT * FROM /^ma(?s:.)+b$/`); n != 256 {
		t.Errorf("%d rows", n)
	}
	for path, want := range map[string]int{"series": 256, "label/__name__/values": 256, "labels": 257} {
		_, body, err := s.Do(t.Context(), http.MethodGet, "/prometheus/bytes/api/v1/"+path, url.Values{"match[]": {`{__name__=~".+"}`}, "start": {"0"}, "end": {"10"}}, "")
		var a struct{ Data []any }
		if err := json.Unmarshal([]byte(body), &a); err != nil || !utf8.ValidString(body) {
			t.Errorf("%s: %v %q", path, err, body)
		}
		texts := make([]string, len(a.Data))
		for i, v := range a.Data {
			texts[i] = fmt.Sprint(v)
		}
		slices.Sort(texts)
		if n := len(slices.Compact(texts)); err != nil || n != want {
			t.Errorf("%s: %v %d, want %d: %.500s", path, err, n, want, body)
		}
	}
	for i, name := range quoted {
		if i == '\\' {
			continue // is the name of the newline's byte
		}
		for _, q := range []struct {
			text string
			rows int
		}{
			{`SELECT "f%[1]s" FROM "m%[1]s" WHERE "k%[1]s" = 'va%[1]s'`, 0},
			{`SELECT "f%[1]s" FROM "m%[1]s" WHERE "k%[1]s" = 'v%[1]s'`, 1},
		} {
			if n := count(fmt.Sprintf(q.text, name)); n != q.rows {
				t.Errorf("%q: %d rows, want %d", fmt.Sprintf(q.text, name), n, q.rows)
			}
		}
	}
	// Renames and deletes some, each kind of byte among them.
	for _, c := range []byte{0, '\t', '\n', '\r', 0x1b, 0x7f, 0x80, 0xe4, 0xff} {
		name := quoted[c]
		for _, q := range []struct {
			text string
			rows int
		}{
			{`ALTER MEASUREMENT "m%[1]s" RENAME TO "n%[1]s"`, 1},
			{`ALTER MEASUREMENT "n%[1]s" RENAME TAG "k%[1]s" TO "l%[1]s"`, 1},
			{`UPDATE "n%[1]s" SET "l%[1]s" = 'w%[1]s' WHERE "l%[1]s" IN ('v%[1]s')`, 1},
			{`ALTER MEASUREMENT "n%[1]s" RENAME FIELD "f%[1]s" TO "g%[1]s"`, 1},
			{`SELECT "g%[1]s" FROM "n%[1]s" WHERE "l%[1]s" = 'w%[1]s'`, 1},
			{`DELETE FROM "n%[1]s" WHERE "l%[1]s" = 'v%[1]s'`, 0},
			{`SHOW SERIES FROM "n%[1]s"`, 1},
			{`DELETE FROM "n%[1]s" WHERE "l%[1]s" = 'w%[1]s'`, 0},
			{`SHOW SERIES FROM "n%[1]s"`, 0},
		} {
			if n := count(fmt.Sprintf(q.text, name)); n != q.rows {
				t.Errorf("%q: %d rows, want %d", fmt.Sprintf(q.text, name), n, q.rows)
			}
		}
	}
	s.Query("bytes", "DROP MEASUREMENT \"ma\xe5b\"")
	if n := count("SHOW SERIES FROM \"ma\xe5b\"") + count("SHOW SERIES FROM \"ma\xe6b\""); n != 1 {
		t.Errorf("%d series of two, of which one was dropped", n)
	}
	// What is refused is said on one line of printable text.
	status, body, err := s.Do(t.Context(), http.MethodPost, "/write", url.Values{"db": {"bytes"}}, "m\x01\\\n\xe4,h=\r\x00 v=1i,v=2 1")
	if err != nil || status != http.StatusBadRequest || !utf8.ValidString(body) {
		t.Errorf("%d %q %v", status, body, err)
	}
	s.Do(t.Context(), http.MethodPost, "/query", url.Values{"db": {"bytes"}, "q": {"CREATE DATABASE \"\xe4\x01\r\"; SELECT mean(\"f\x1b\xe4\") FROM \"m\x00\" WHERE \"\r\" = '\xff' GROUP BY time(0.\r)"}}, "")
	if log := s.Log(); strings.ContainsFunc(log, func(r rune) bool { return r != '\n' && r < ' ' || r == 0x7f || r == utf8.RuneError }) {
		t.Errorf("the log: %q", log)
	}
}
