package apptest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/prom"
	"tsdbd/prom/remote"
)

// TestKnownSeries sends the same request of remote write again and again, with statements
// between, of which each changes what the series of the request are. The server knows
// the series by the bytes of their labels, and must find the right ones all the same.
func TestKnownSeries(t *testing.T) {
	t.Parallel()
	s := Start(t)
	var message []byte
	for _, job := range []string{"a", "b"} {
		series := remote.AppendSample(remote.AppendLabel(remote.AppendLabel(nil, "__name__", "up"), "job", job), prom.Sample{Value: 1, Time: 1000})
		message = protowire.AppendBytes(protowire.AppendTag(message, 1, protowire.BytesType), series)
	}
	message = snappy.Encode(nil, message)
	send := func(db string) {
		t.Helper()
		status, body, err := s.Do(t.Context(), http.MethodPost, "/api/v1/prom/write", url.Values{"db": {db}, "rp": {"p"}}, string(message))
		if err != nil || status != http.StatusNoContent {
			t.Fatal(status, body, err)
		}
	}
	create := func(db string) {
		s.Query("", fmt.Sprintf("CREATE DATABASE %q; CREATE RETENTION POLICY p ON %q DURATION INF REPLICATION 1 DEFAULT", db, db))
	}
	for i, c := range []struct{ statement, up, moved string }{
		{"SHOW DATABASES", "ab", ""},
		{`DROP SERIES FROM up WHERE job = 'a'`, "ab", ""},
		{`DELETE FROM up WHERE job = 'a'`, "ab", ""},
		{`DELETE FROM up`, "ab", ""},
		{`DROP MEASUREMENT up`, "ab", ""},
		{`ALTER MEASUREMENT up RENAME TO down`, "ab", "ab"},
		{`ALTER MEASUREMENT up RENAME TAG job TO work`, "ab", ""},
		{`UPDATE up SET job = 'c' WHERE job = 'a'`, "abc", ""},
		{`UPDATE up DROP TAG job WHERE job = 'a'`, "ab-", ""},
		{`DROP RETENTION POLICY p ON $db; CREATE RETENTION POLICY p ON $db DURATION INF REPLICATION 1 DEFAULT`, "ab", ""},
		{`DROP DATABASE $db; CREATE DATABASE $db; CREATE RETENTION POLICY p ON $db DURATION INF REPLICATION 1 DEFAULT`, "ab", ""},
	} {
		db := fmt.Sprint("d", i)
		create(db)
		jobs := func(measurement string) (out string) {
			answer := s.Query(db, fmt.Sprintf("SELECT value FROM %s WHERE work = '' GROUP BY job", measurement))
			for _, job := range []string{"a", "b", "c", ""} {
				if n := strings.Count(answer, fmt.Sprintf(`"tags":{"job":"%s"},"columns":["time","value"],"values":[[1000000000,1]]`, job)); n == 1 {
					out += job
					if job == "" {
						out += "-"
					}
				}
			}
			return out
		}
		for round := range 2 {
			send(db)
			send(db)
			if got := jobs("up"); round == 0 && got != "ab" {
				t.Fatalf("%s: at first up has %q", c.statement, got)
			}
			s.Query(db, strings.ReplaceAll(c.statement, "$db", db))
			send(db)
			if up, moved := jobs("up"), jobs("down"); up != c.up || moved != c.moved {
				t.Errorf("%s, round %d: up has %q, down %q, want %q, %q", c.statement, round, up, moved, c.up, c.moved)
			}
		}
	}
}
