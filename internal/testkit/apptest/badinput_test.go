package apptest

import (
	"strings"
	"testing"

	"tsdbd/internal/testkit/badinput"
)

func TestBadInput(t *testing.T) {
	t.Parallel()
	s := Start(t)
	badinput.Run(t, s.URL, true, func(t *testing.T) string {
		var state strings.Builder
		for _, q := range []string{
			"SHOW DATABASES", "SHOW RETENTION POLICIES", "SHOW MEASUREMENTS", "SHOW SERIES", "SHOW FIELD KEYS", "SHOW TAG KEYS",
			"SHOW CONTINUOUS QUERIES", "SHOW USERS", "SELECT * FROM /.*/ GROUP BY *",
		} {
			state.WriteString(s.Query(badinput.Database, q))
		}
		return state.String()
	})
}
