package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/result"
)

func mustOK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// brokenStore fails where it is told to.
type brokenStore struct {
	*scantest.Store
	err   error
	panic any
}

func (b *brokenStore) View(db, rp string, r model.TimeRange) (scan.View, error) {
	if b.panic != nil {
		panic(b.panic)
	}
	if b.err != nil {
		return nil, b.err
	}
	return b.Store.View(db, rp, r)
}

var errBroken = errors.New("broken")

// resultText is a result on one line, for tables of cases.
func resultText(r *result.Result) string {
	if r.Err != nil {
		return "error: " + r.Err.Error()
	}
	var parts []string
	for _, m := range r.Messages {
		parts = append(parts, m.Level+": "+m.Text)
	}
	for _, s := range r.Series {
		head := s.Name
		for _, tag := range s.Tags {
			head += "," + tag.Key + "=" + tag.Value
		}
		var rows []string
		for i := range s.Rows {
			var cells []string
			for c := range s.Values {
				cells = append(cells, fmt.Sprint(fakeCell(&s.Values[c], i)))
			}
			rows = append(rows, strings.Join(cells, " "))
		}
		parts = append(parts, fmt.Sprintf("%s(%s): %s", head, strings.Join(s.Columns, " "), strings.Join(rows, "; ")))
	}
	if r.Partial {
		parts = append(parts, "...")
	}
	return strings.Join(parts, " | ")
}

// fakeCell is one value of a table as JSON would hold it.
func fakeCell(v *column.Vector, i int) any {
	if !v.IsValid(i) {
		return nil
	}
	switch v.Type {
	case model.Float:
		return v.Floats[i]
	case model.Integer:
		return v.Ints[i]
	case model.Unsigned:
		return v.Uints[i]
	case model.String:
		return v.Strings[i]
	case model.Boolean:
		return v.Bools[i]
	}
	return nil
}
