package query

import (
	"testing"

	"tsdbd/internal/binio"
)

// TestDamagedTagKeys: an answer that needs tag keys which cannot be read is an
// error, never a shorter answer.
func TestDamagedTagKeys(t *testing.T) {
	store := sampleStore(t)
	store.Damage = binio.Corruptf("0001.tsi", 7, "checksum mismatch")
	want := "error: " + binio.Corruptf("0001.tsi", 7, "checksum mismatch").Error()
	e := newExecutor(store)
	for _, q := range []string{
		`SHOW TAG KEYS`,
		`SHOW TAG VALUES WITH KEY = host`,
		`SHOW TAG KEY CARDINALITY`,
		`SHOW TAG VALUES CARDINALITY WITH KEY = host`,
		`SHOW SERIES EXACT CARDINALITY GROUP BY *`,
		`SHOW SERIES EXACT CARDINALITY GROUP BY /h/`,
		`SHOW MEASUREMENTS WHERE host = 'a'`,
		`SELECT * FROM cpu`,
		`SELECT v, host FROM cpu`,
		`SELECT v FROM cpu GROUP BY *`,
	} {
		if got := runText(t, e, ExecuteOptions{Database: "db"}, q); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", q, got, want)
		}
	}
	if got := runText(t, e, ExecuteOptions{Database: "db"}, `SHOW FIELD KEYS FROM up`); got[0] != `up(fieldKey fieldType): v float` {
		t.Errorf("fields: %q", got)
	}
}
