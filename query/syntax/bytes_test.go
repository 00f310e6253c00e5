package syntax

import (
	"reflect"
	"testing"

	"github.com/influxdata/influxql"
)

// TestBytes: names and strings in quotes have their bytes, whatever they are.
func TestBytes(t *testing.T) {
	for c := range 256 {
		switch byte(c) {
		case '\n', '\\', '"', '\'':
			continue // are written as escapes
		}
		name := "a" + string([]byte{byte(c)}) + "b"
		q, err := Parse(`SELECT "`+name+`"::field, "d"."r"."`+name+`\n\"" FROM "`+name+`" WHERE "`+name+`" = '`+name+`\\\'' AND h =~ /a.b/ AND i0 = $i0`, map[string]any{"i0": "i0"})
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		st := q.Statements[0].(*influxql.SelectStatement)
		var got []string
		influxql.WalkFunc(st, func(n influxql.Node) {
			switch n := n.(type) {
			case *influxql.VarRef:
				got = append(got, n.Val)
			case *influxql.StringLiteral:
				got = append(got, n.Val)
			case *influxql.Measurement:
				got = append(got, n.Name)
			}
		})
		want := []string{name, "d.r." + name + "\n\"", name, name, name + `\'`, "h", "i0", "i0"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if again, err := Parse(q.String(), nil); err != nil || !reflect.DeepEqual(again, q) {
			t.Errorf("%q again: %v %q", q, err, again)
		}
	}
	for _, c := range []struct {
		text string
		of   func(influxql.Statement) []string
		want []string
	}{
		{"ALTER MEASUREMENT \"m\xe4\" RENAME TO \"m\x00\"", func(s influxql.Statement) []string {
			return []string{s.(*Move).Change.Measurement, s.(*Move).Change.To}
		}, []string{"m\xe4", "m\x00"}},
		{"UPDATE \"m\xe4\" SET \"h\xff\" = '\r' WHERE \"h\xe4\" IN ('\xe5')", func(s influxql.Statement) []string {
			c := s.(*Move).Change
			return []string{c.Measurement, c.Set[0].Key, c.Set[0].Value}
		}, []string{"m\xe4", "h\xff", "\r"}},
		{"DROP MEASUREMENT \"m\xe4\"", func(s influxql.Statement) []string {
			return []string{s.(*influxql.DropMeasurementStatement).Name}
		}, []string{"m\xe4"}},
	} {
		q, err := Parse(c.text, nil)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		} else if got := c.of(q.Statements[0]); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}
