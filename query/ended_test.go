package query

import (
	"fmt"
	"slices"
	"testing"

	"tsdbd/query/admission"
)

// TestEnded runs queries and sees what is reported at their ends: the text as it came, the
// rows of all statements, and failures.
func TestEnded(t *testing.T) {
	store := sampleStore(t)
	var got []string
	e := New(Options{Storage: store, Admin: store, Ended: func(q *admission.Ended) {
		if q.At.IsZero() || q.Took <= 0 {
			t.Errorf("%s ended at %v after %v", q.Text, q.At, q.Took)
		}
		got = append(got, fmt.Sprintf("%s %s %s: %s rows=%d failed=%t", q.Language, q.Database, q.User, q.Text, q.Rows, q.Failed))
	}})
	for _, text := range []string{
		"select * from cpu; SHOW DATABASES", "SELECT nothing FROM nothing", "SHOW DATABASES; SHOW SERIES ON x; SHOW DATABASES",
		"CREATE USER ann WITH PASSWORD 'secret'",
	} {
		runText(t, e, ExecuteOptions{Database: "db", User: "bob", Raw: text}, text)
	}
	runText(t, e, ExecuteOptions{Database: "db", ChunkSize: 1}, "select  v from cpu") // as the server writes it
	want := []string{
		"influxql db bob: select * from cpu; SHOW DATABASES rows=5 failed=false",
		"influxql db bob: SELECT nothing FROM nothing rows=0 failed=false",
		"influxql db bob: SHOW DATABASES; SHOW SERIES ON x; SHOW DATABASES rows=2 failed=true",
		"influxql db bob: CREATE USER ann WITH PASSWORD 'secret' rows=0 failed=false",
		"influxql db : SELECT v FROM cpu rows=3 failed=false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", fmt.Sprintln(got))
	}
}
