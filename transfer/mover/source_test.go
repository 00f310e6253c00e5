package mover

import (
	"slices"
	"testing"

	"tsdbd/exchange"
	"tsdbd/meta"
	"tsdbd/model"
)

// TestSystemDatabases leaves out what servers keep about themselves, and says so, unless it
// is named.
func TestSystemDatabases(t *testing.T) {
	week := model.TimeRange{Min: 0, Max: 1}
	src := &List{}
	for i, name := range []string{"d", "_internal", "_monitoring", "_tasks"} {
		src.All.Databases = append(src.All.Databases, &meta.Database{Name: name, RetentionPolicies: []*meta.RetentionPolicy{{Name: "autogen"}}})
		p := &Part{Database: name, Policy: "autogen", ID: uint64(i), Times: week}
		src.Items = append(src.Items, p, p)
	}
	if got := src.LeftOut(&exchange.Filter{}); !slices.Equal(got, []string{"_internal", "_monitoring", "_tasks"}) {
		t.Errorf("left out: %q", got)
	}
	if got := src.LeftOut(&exchange.Filter{Database: "_tasks"}); len(got) > 0 {
		t.Errorf("left out of one database: %q", got)
	}
	for database, want := range map[string]string{"": "d", "_tasks": "_tasks"} {
		amounts, err := src.Survey(t.Context(), &exchange.Filter{Database: database})
		if err != nil || len(amounts) != 1 || amounts[0].Database != want || amounts[0].Shards == 0 {
			t.Errorf("%q: %+v, %v", database, amounts, err)
		}
	}
}
