package lineproto

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// recordedCase is a write and what InfluxDB 1.12 made of it.
type recordedCase struct {
	Name, Note, Body, Base64, Precision string

	Error   string // texts of the bad lines
	Refused string
	Series  []recordedSeries // what SELECT * ... GROUP BY * answers then
	Keys    []string         // what SHOW SERIES answers then
}

type recordedSeries struct {
	Name    string
	Tags    map[string]string
	Columns []string
	Values  [][]any
}

// TestRecorded replays recorded writes, each with an empty table and then with
// the table and parser of the first time, i.e. on the fast path.
func TestRecorded(t *testing.T) {
	f, err := os.Open("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.UseNumber()
	var cases []recordedCase
	if err := d.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			body := []byte(c.Body)
			if c.Base64 != "" {
				if body, err = base64.StdEncoding.DecodeString(c.Base64); err != nil {
					t.Fatal(err)
				}
			}
			unit, err := Unit(c.Precision, false)
			if err != nil {
				t.Fatal(err)
			}
			var p Parser
			table := point.NewTable(3)
			for round := 0; round < 3; round++ {
				var b point.Batch
				n, err := p.Parse(&b, table, body, Options{Unit: unit})
				if n != len(b.Rows) || b.Database != 3 {
					t.Fatalf("%d points, %d rows, database %d", n, len(b.Rows), b.Database)
				}
				checkRecorded(t, &c, &b, err)
			}
		})
	}
}

func checkRecorded(t *testing.T, c *recordedCase, b *point.Batch, err error) {
	t.Helper()
	var errs Errors
	if err != nil {
		errs = *err.(*Errors)
	}
	if errs.BadLines > 0 != (c.Error != "") || errs.BadLines > 0 && validText(errs.Error()) != c.Error {
		t.Errorf("error\n%s\nwant\n%s", err, c.Error)
	}
	if errs.RefusedReason != c.Refused {
		t.Errorf("refused %q, want %q", errs.RefusedReason, c.Refused)
	}
	if c.Series != nil {
		want := map[string]string{}
		for _, s := range c.Series {
			tags := model.Tags{}
			for k, v := range s.Tags {
				tags = append(tags, model.Tag{Key: k, Value: v})
			}
			tags.Sort()
			key := string(model.AppendSeriesKey(nil, s.Name, tags))
			for _, row := range s.Values {
				for i := 1; i < len(row); i++ {
					if row[i] != nil {
						want[fmt.Sprintf("%s %s %s", key, s.Columns[i], row[0])] = fmt.Sprint(row[i])
					}
				}
			}
		}
		got := map[string]string{}
		for _, r := range b.Rows {
			for i, f := range r.Layout.Fields {
				at := fmt.Sprintf("%s %s %d", r.Series.Key(), f.Key, r.Time)
				got[at] = valueText(f.Type, b.Values[int(r.First)+i], b.Strings)
				if w, err := strconv.ParseFloat(want[at], 64); err == nil && f.Type == model.Float {
					if w == math.Float64frombits(b.Values[int(r.First)+i]) {
						got[at] = want[at]
					}
				}
			}
		}
		for at, v := range want {
			if got[at] != v {
				t.Errorf("%s: got %q, want %q", at, got[at], v)
			}
		}
		for at := range got {
			if _, ok := want[at]; !ok {
				t.Errorf("%s: got %q, want nothing", at, got[at])
			}
		}
	}
	for _, r := range b.Rows {
		if c.Keys != nil && !slices.Contains(c.Keys, r.Series.Key()) {
			t.Errorf("series %q, want one of %q", r.Series.Key(), c.Keys)
		}
	}
}

// validText is what a text becomes in a JSON answer.
func validText(s string) string {
	b, _ := json.Marshal(s)
	json.Unmarshal(b, &s)
	return s
}

func valueText(t model.FieldType, w uint64, strings []byte) string {
	switch t {
	case model.Float:
		return strconv.FormatFloat(math.Float64frombits(w), 'g', -1, 64)
	case model.Integer:
		return strconv.FormatInt(int64(w), 10)
	case model.Unsigned:
		return strconv.FormatUint(w, 10)
	case model.Boolean:
		return strconv.FormatBool(w != 0)
	case model.String:
		return string(column.StringAt(w, strings))
	}
	return "?"
}
