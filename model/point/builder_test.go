package point

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
)

// text returns the rows of a batch, a line a row.
func text(b *Batch) string {
	var out strings.Builder
	for _, r := range b.Rows {
		out.WriteString(r.Series.Key())
		for i, f := range r.Layout.Fields {
			var v any
			switch w := b.Values[int(r.First)+i]; f.Type {
			case model.Float:
				v = math.Float64frombits(w)
			case model.Integer:
				v = int64(w)
			case model.Unsigned:
				v = w
			case model.Boolean:
				v = w == 1
			case model.String:
				v = string(column.StringAt(w, b.Strings))
			}
			fmt.Fprintf(&out, " %s=%v", f.Key, v)
		}
		fmt.Fprintf(&out, " @%d\n", r.Time)
	}
	return out.String()
}

func tags(pairs ...string) (out model.Tags) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, model.Tag{Key: pairs[i], Value: pairs[i+1]})
	}
	return out
}

func TestBuilder(t *testing.T) {
	var batch Batch
	table := NewTable(3)
	b := NewBuilder(table, &batch)
	row := func(at int64) {
		t.Helper()
		if err := b.Row(at); err != nil {
			t.Error(err)
		}
	}
	_ = b.Series("m", tags("z", "1", "none", "", "a", "x y"))
	b.Float("f", -0.5)
	b.Integer("i", -7)
	b.Unsigned("u", math.MaxUint64)
	b.Boolean("b", true)
	b.String("s", "two\nlines \xff")
	row(5)
	b.Float("f", 2)
	row(6)
	_ = b.Series("m", tags("a", "x y", "z", "1"))
	b.Float("f", 3)
	row(7)
	_ = b.Series("n", nil)
	b.String("s", "")
	row(model.MinTime)
	want := `m,a=x\ y,z=1 f=-0.5 i=-7 u=18446744073709551615 b=true s=two
lines ` + "\xff" + ` @5
m,a=x\ y,z=1 f=2 @6
m,a=x\ y,z=1 f=3 @7
n s= @-9223372036854775806
`
	if got := text(&batch); got != want || batch.Database != 3 {
		t.Errorf("database %d, rows\n%swant\n%s", batch.Database, got, want)
	}
	if r := batch.Rows; r[0].Series != r[2].Series || r[1].Layout != r[2].Layout || r[0].Series != table.Series(`m,a=x\ y,z=1`) {
		t.Error("series or layouts are not those of the table")
	}
	batch.Reset()
	b.Float("f", 1)
	row(1)
	if got := text(&batch); got != "n f=1 @1\n" || batch.Database != 3 {
		t.Errorf("after a reset: database %d, %s", batch.Database, got)
	}
}

// TestBuilderRefuses: what is refused leaves nothing behind, and the rows
// before and after it are right.
func TestBuilderRefuses(t *testing.T) {
	long := strings.Repeat("k", 40_000)
	for _, c := range []struct {
		want        string
		measurement string
		tags        model.Tags
		row         func(b *Builder) error
	}{
		{"is empty", "", nil, nil},
		{"contains a newline", "m", tags("a", "1\n"), nil},
		{"begins as a comment", "#m", nil, nil},
		{"ends in a backslash", "m", tags("a", `1\`), nil},
		{`duplicate tag "a"`, "m", tags("a", "1", "b", "2", "a", "1"), nil},
		{`input tag "time"`, "m", tags("time", "1"), nil},
		{"max key length exceeded: 80003 > 65535", long, tags("a", long), nil},
		{"max key length exceeded: 80004 > 65535", long, nil, func(b *Builder) error { b.Float(long, 1); return b.Row(1) }},
		{"point without fields", "m", nil, func(b *Builder) error { return b.Row(1) }},
		{`field "v" of "m" occurs twice`, "m", nil, func(b *Builder) error { b.Float("v", 1); b.Integer("v", 1); return b.Row(1) }},
		{`field "v\\" of "m" ends in a backslash`, "m", nil, func(b *Builder) error { b.Float("w", 1); b.Float(`v\`, 1); return b.Row(1) }},
		{`field "\tv" of "m" begins with a tab or a zero byte`, "m", nil, func(b *Builder) error { b.String("\tv", "x"); return b.Row(1) }},
		{"not a number", "m", nil, func(b *Builder) error { b.String("s", "x"); b.Float("v", math.NaN()); return b.Row(1) }},
		{"infinite", "m", nil, func(b *Builder) error { b.Float("v", math.Inf(-1)); return b.Row(1) }},
		{"is too long, 1048577 > 1048576", "m", nil, func(b *Builder) error {
			b.String("s", strings.Repeat("x", column.MaxStringLength+1))
			return b.Row(1)
		}},
		{"time outside range", "m", nil, func(b *Builder) error { b.Float("v", 1); return b.Row(math.MaxInt64) }},
		{"time outside range", "m", nil, func(b *Builder) error { b.Float("v", 1); return b.Row(math.MinInt64) }},
	} {
		var batch Batch
		table := NewTable(1)
		b := NewBuilder(table, &batch)
		good := func() {
			t.Helper()
			_ = b.Series("good", nil)
			b.String("s", "text")
			b.Float("v", 1)
			if err := b.Row(1); err != nil {
				t.Error(err)
			}
		}
		good()
		err := b.Series(c.measurement, slices.Clone(c.tags))
		if c.row != nil {
			if err != nil {
				t.Errorf("%s: series: %v", c.want, err)
			}
			err = c.row(b)
		} else {
			b.String("s", "lost")
			b.Float("v", 1)
			if again := b.Row(1); fmt.Sprint(again) != fmt.Sprint(err) || fmt.Sprint(b.Series(c.measurement, c.tags)) != fmt.Sprint(err) {
				t.Errorf("%s: %v, then %v", c.want, err, again)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
		good()
		if got := text(&batch); got != "good s=text v=1 @1\ngood s=text v=1 @1\n" || len(batch.Values) != 4 || len(batch.Strings) != 8 || table.mu.series != 1 {
			t.Errorf("%s: %d values, %d bytes of strings, %d series: %s", c.want, len(batch.Values), len(batch.Strings), table.mu.series, got)
		}
	}
	b := NewBuilder(NewTable(1), &Batch{})
	_ = b.Series("m", nil)
	b.Float("v", math.NaN())
	if err := b.Row(1); !errors.Is(err, ErrNotFinite) {
		t.Error(err)
	}
}
