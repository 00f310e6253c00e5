package compare

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/store"
)

var cpu = Name{"d", "autogen", "cpu"}

// example has a measurement with all types.
func example() Totals {
	m := &Measurement{Series: 2, Fields: map[string]*Field{}}
	m.Add([]column.Field{{Key: "b", Type: model.Boolean}, {Key: "f", Type: model.Float}, {Key: "i", Type: model.Integer}, {Key: "s", Type: model.String}, {Key: "u", Type: model.Unsigned}}, &column.Rows{
		Times: []int64{1, 2, 3},
		Cols: []column.Vector{
			{Type: model.Boolean, Bools: []bool{true, false, true}},
			{Type: model.Float, Floats: []float64{0.1, 0, 0.2}, Valid: column.Bitmap{0b101}},
			{Type: model.Integer, Ints: []int64{-3, 1, 0}, Valid: column.Bitmap{0b011}},
			{Type: model.String, Strings: []string{"", "x", ""}, Valid: column.Bitmap{0b010}},
			{Type: model.Unsigned, Uints: []uint64{math.MaxUint64, 0, 0}, Valid: column.Bitmap{0b001}},
		},
	})
	return Totals{cpu: m}
}

// TestDifferences changes one number at a time and wants its difference by name.
func TestDifferences(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(m *Measurement)
		want   string
	}{
		{"nothing", func(*Measurement) {}, ""},
		{"series", func(m *Measurement) { m.Series = 3 }, `"cpu" of d.autogen: series 2 in old, 3 in new`},
		{"series not counted", func(m *Measurement) { m.Series = -1 }, ""},
		{"a count", func(m *Measurement) { m.Fields["s"].Count = 0 }, `field "s" of "cpu" of d.autogen: count 1 in old, 0 in new`},
		{"a field", func(m *Measurement) { delete(m.Fields, "b") }, `field "b" of "cpu" of d.autogen: count 3 in old, 0 in new`},
		{"an integer", func(m *Measurement) { m.Fields["i"].Integer++ }, `field "i" of "cpu" of d.autogen: sum -2 in old, -1 in new`},
		{"an unsigned", func(m *Measurement) { m.Fields["u"].Integer-- }, `field "u" of "cpu" of d.autogen: sum 18446744073709551615 in old, 18446744073709551614 in new`},
		{"a float", func(m *Measurement) { m.Fields["f"].Float += 1e-9 }, `field "f" of "cpu" of d.autogen: sum 0.30000000000000004 in old, 0.300000001 in new`},
		{"the last digit of a float", func(m *Measurement) { m.Fields["f"].Float += 1e-15 }, ""},
		{"a type", func(m *Measurement) { m.Fields["i"].Type = model.Unsigned }, `field "i" of "cpu" of d.autogen: type integer in old, unsigned in new`},
		{"a type nobody knows", func(m *Measurement) { m.Fields["i"].Type = model.Unknown }, ""},
		{"not a number on one side", func(m *Measurement) { m.Fields["f"].Float = math.NaN() }, ""},
		{"a sum that overflows in another order", func(m *Measurement) { m.Fields["f"].Float = math.Inf(1) }, ""},
	} {
		right := example()
		c.change(right[cpu])
		var got []string
		for _, d := range Differences(example(), right) {
			got = append(got, d.Text("old", "new"))
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s: %q, want %q", c.what, text, c.want)
		}
	}
	if d := Differences(example(), Totals{}); len(d) != 6 || d[0].What != "series" || d[0].Right != "0" {
		t.Errorf("a measurement that is missing: %+v", d)
	}
}

// TestTable prints two sides, one of which lacks a measurement and a value.
func TestTable(t *testing.T) {
	left, right := example(), example()
	left[Name{"d", "autogen", "mem"}] = &Measurement{Series: 1, Fields: map[string]*Field{"x": {Count: 5, Type: model.String}}}
	right[cpu].Fields["s"].Count = 0
	right[cpu].Series = -1
	var b strings.Builder
	if err := Table(&b, "InfluxDB", "tsdbd", left, right); err != nil {
		t.Fatal(err)
	}
	const want = `measurement    series in InfluxDB  in tsdbd  values in InfluxDB  in tsdbd  
d.autogen.cpu  2                   -         9                   8         differs
d.autogen.mem  1                   0         5                   0         differs
field "s" of "cpu" of d.autogen: count 1 in InfluxDB, 0 in tsdbd
"mem" of d.autogen: series 1 in InfluxDB, 0 in tsdbd
field "x" of "mem" of d.autogen: count 5 in InfluxDB, 0 in tsdbd
`
	if b.String() != want {
		t.Errorf("\n%s\nwant\n%s", b.String(), want)
	}
}

// TestMerge adds totals up by parts.
func TestMerge(t *testing.T) {
	sum := Totals{}
	for range 3 {
		sum.Merge(example())
	}
	m := sum[cpu]
	if got := m.Fields["f"]; m.Series != 6 || got.Count != 6 || math.Abs(got.sum()-0.9) > 1e-15 || int64(m.Fields["i"].Integer) != -6 || sum.Values() != 27 {
		t.Errorf("series %d, %+v, %+v, %d values", m.Series, got, m.Fields["i"], sum.Values())
	}
	mixed := &Field{}
	mixed.add(model.Float, 1, 0, 1, 0)
	mixed.add(model.Integer, 1, 1, 0, 0)
	if _, ok := mixed.number(); ok || mixed.Count != 2 {
		t.Errorf("two types: %+v", mixed)
	}
	inf := &Field{}
	inf.add(model.Float, 2, 0, math.Inf(1), math.NaN())
	if !inf.sameSum(&Field{Float: math.Inf(1), Type: model.Float}) {
		t.Errorf("infinite: %+v", inf)
	}
}

// TestCount counts a store, in files and in memory.
func TestCount(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	if err := s.Apply(t.Context(), meta.CreateDatabase{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	// Rows of three series over several shards: full chunks in files, and others in memory.
	want := Totals{}
	fields := []column.Field{{Key: "b", Type: model.Boolean}, {Key: "f", Type: model.Float}, {Key: "i", Type: model.Integer}, {Key: "s", Type: model.String}, {Key: "u", Type: model.Unsigned}}
	for round := range 3 {
		if round == 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = store.Open(dir, store.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		table, err := s.Table("d")
		if err != nil {
			t.Fatal(err)
		}
		var batch point.Batch
		b := point.NewBuilder(table, &batch)
		for _, host := range []string{"a", "b", "c"} {
			if err := b.Series("cpu", model.Tags{{Key: "h", Value: host}}); err != nil {
				t.Fatal(err)
			}
			m := want.Of(cpu)
			rows := column.Rows{}
			rows.Reset([]model.FieldType{model.Boolean, model.Float, model.Integer, model.String, model.Unsigned})
			for i := range 1500 {
				at := int64(round*1500+i) * int64(3*time.Hour)
				b.Float("f", float64(i)/10)
				b.Integer("i", int64(-i))
				row := column.Rows{Times: []int64{at}, Cols: []column.Vector{{Type: model.Boolean}, {Type: model.Float, Floats: []float64{float64(i) / 10}}, {Type: model.Integer, Ints: []int64{int64(-i)}}, {Type: model.String}, {Type: model.Unsigned}}}
				if i%3 > 0 {
					for c := range row.Cols {
						if c != 1 && c != 2 {
							row.Cols[c].AppendNull()
						}
					}
				} else {
					b.Boolean("b", i%2 == 0)
					b.String("s", host)
					b.Unsigned("u", math.MaxUint64-uint64(i))
					row.Cols[0].Bools, row.Cols[3].Strings, row.Cols[4].Uints = []bool{i%2 == 0}, []string{host}, []uint64{math.MaxUint64 - uint64(i)}
				}
				rows.AppendRange(&row, 0, 1)
				if err := b.Row(at); err != nil {
					t.Fatal(err)
				}
			}
			m.Add(fields, &rows)
			m.Series = 3
		}
		if err := s.Write(t.Context(), "d", "", &batch); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Count(t.Context(), s, "d", "autogen", model.AllTime, nil)
	if d := Differences(want, got); err != nil || len(d) > 0 || len(got) != 1 {
		t.Errorf("%v, %+v", err, d)
	}
	got, err = Count(t.Context(), s, "d", "autogen", model.AllTime, func(name string) bool { return name != "cpu" })
	if err != nil || len(got) != 0 {
		t.Errorf("unwanted: %v, %+v", err, got)
	}
	got = Totals{}
	v, err := s.View("d", "autogen", model.AllTime)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	for _, sh := range v.Shards() {
		set, err := sh.Select(t.Context(), "cpu", nil)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := countParts(t.Context(), sh, "cpu", set, model.AllTime, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range parts {
			got.Merge(Totals{cpu: m})
		}
	}
	if d := Differences(want, got); len(d) > 0 {
		t.Errorf("in parts: %+v", d)
	}
	got, err = Count(t.Context(), s, "d", "autogen", model.TimeRange{Min: 0, Max: int64(3 * time.Hour)}, nil)
	if err != nil || got[cpu].Fields["i"].Count != 6 || got[cpu].Fields["b"].Count != 3 || got[cpu].Fields["i"].Integer != math.MaxUint64-2 {
		t.Errorf("two rows of each series: %v, %+v", err, got[cpu].Fields["i"])
	}
	got, err = Count(t.Context(), s, "d", "autogen", model.TimeRange{Min: 1, Max: 2}, nil)
	if err != nil || len(got) != 0 {
		t.Errorf("no rows: %v, %+v", err, got)
	}
}

// fakeServer answers statements by their beginnings.
type fakeServer map[string]string

func (f fakeServer) Tables(_ context.Context, _, statement string) ([]exchange.Table, error) {
	answer, ok := f[statement]
	if !ok {
		answer = `{"results":[{"error":"unexpected: ` + strings.ReplaceAll(statement, `"`, "'") + `"}]}`
	}
	return exchange.ReadTables(strings.NewReader(answer))
}

// TestAsk reads answers as InfluxDB 1.6 gives them.
func TestAsk(t *testing.T) {
	server := fakeServer{
		`SHOW FIELD KEYS ON d FROM autogen./.*/`: `{"results":[{"series":[{"name":"cpu","columns":["fieldKey","fieldType"],"values":[["b","boolean"],["f","float"],["i","integer"],["i","float"],["s","string"],["u","unsigned"],["x","string"],["x","boolean"],["x","float"],["x","integer"]]},{"name":"else","columns":["fieldKey","fieldType"],"values":[["x","float"]]}]}]}`,
		`SELECT count(b) AS c0, count(f) AS c1, sum(f) AS s1, count(i) AS c2, count(s) AS c3, count(u) AS c4, sum(u) AS s4, count(x::string) AS c5, count(x::boolean) AS d5, count(x) AS e5 FROM "autogen".cpu`: `{"results":[{"series":[{"name":"cpu","columns":["time","c0","c1","s1","c2","c3","c4","s4","c5","d5","e5"],"values":[["1970-01-01T00:00:00Z",3,2,0.30000000000000004,2,1,1,18446744073709551615,5,null,2]]}]}]}`,
		`SELECT count(x) AS c0, sum(x) AS s0 FROM "autogen".else`: `{"results":[{}]}`,
		`SHOW SERIES EXACT CARDINALITY ON d FROM "autogen".cpu`:   `{"results":[{"series":[{"name":"cpu","columns":["count"],"values":[[2]]}]}]}`,
	}
	got, err := Ask(t.Context(), server, "d", "autogen", model.AllTime, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x := got[cpu].Fields["x"]; x == nil || x.Count != 7 || x.Type != model.Unknown {
		t.Errorf("a field of three types: %+v", x)
	}
	delete(got[cpu].Fields, "x")
	if d := Differences(example(), got); len(d) > 0 || len(got) != 1 || got[cpu].Series != 2 || got[cpu].Fields["i"].Type != model.Unknown {
		t.Errorf("%+v, %+v", d, got[cpu])
	}
	// A server that counts no series, and a range of times.
	delete(server, `SHOW SERIES EXACT CARDINALITY ON d FROM "autogen".cpu`)
	if got, err = Ask(t.Context(), server, "d", "autogen", model.AllTime, nil); err != nil || got[cpu].Series != -1 {
		t.Errorf("%v, %+v", err, got[cpu])
	}
	_, err = Ask(t.Context(), server, "d", "autogen", model.TimeRange{Min: 1, Max: 2}, nil)
	if err == nil || !strings.Contains(err.Error(), `FROM 'autogen'.cpu WHERE time >= 1 AND time <= 2`) || !strings.HasPrefix(err.Error(), "count d.autogen.cpu: ") {
		t.Errorf("%v", err)
	}
}

// TestNotFinite: NaN is no value, and a sum that is not finite is that of a server which
// answers null.
func TestNotFinite(t *testing.T) {
	m := &Measurement{Fields: map[string]*Field{}}
	fields := []column.Field{{Key: "a", Type: model.Float}, {Key: "b", Type: model.Float}, {Key: "c", Type: model.Float}}
	nan, inf := math.NaN(), math.Inf(1)
	m.Add(fields, &column.Rows{Times: []int64{1, 2, 3}, Cols: []column.Vector{
		{Type: model.Float, Floats: []float64{1, nan, 2}},
		{Type: model.Float, Floats: []float64{nan, nan, 0}, Valid: column.Bitmap{0b011}},
		{Type: model.Float, Floats: []float64{inf, nan, -inf}, Valid: column.Bitmap{0b011}},
	}})
	if f := m.Fields["a"]; f.Count != 2 || f.Float != 3 || m.Fields["b"] != nil || m.Fields["c"].Count != 1 {
		t.Errorf("counted %+v", m.Fields)
	}
	name := Name{Database: "d", Policy: "p", Measurement: "m"}
	null := &Measurement{Fields: map[string]*Field{
		"a": {Count: 2, Type: model.Float, Float: 3}, "c": {Count: 1, Type: model.Float, Float: nan},
	}}
	if d := Differences(Totals{name: m}, Totals{name: null}); d != nil {
		t.Errorf("differences %v", d)
	}
}

// overflowing is a server with a field x of each measurement whose sum overflows.
type overflowing struct{ fakeServer }

func (o overflowing) Tables(ctx context.Context, database, q string) ([]exchange.Table, error) {
	switch {
	case strings.Contains(q, "sum(x)"):
		return exchange.ReadTables(strings.NewReader("json: error calling MarshalJSON for type httpd.Response: json: unsupported value: +Inf"))
	case strings.HasPrefix(q, "SELECT"):
		var names, values []string
		for i, column := range strings.Split(q[len("SELECT "):strings.Index(q, " FROM")], ", ") {
			_, name, _ := strings.Cut(column, " AS ")
			names, values = append(names, fmt.Sprintf("%q", name)), append(values, fmt.Sprint(2-i%2))
		}
		return exchange.ReadTables(strings.NewReader(fmt.Sprintf(`{"results":[{"series":[{"columns":[%s],"values":[[%s]]}]}]}`, strings.Join(names, ","), strings.Join(values, ","))))
	}
	return o.fakeServer.Tables(ctx, database, q)
}

// TestOverflow: a sum that a server cannot write costs this sum, and no other one.
func TestOverflow(t *testing.T) {
	server := overflowing{fakeServer{`SHOW FIELD KEYS ON d FROM autogen./.*/`: `{"results":[{"series":[{"name":"cpu","columns":["fieldKey","fieldType"],"values":[["a","float"],["b","float"],["x","float"],["y","float"],["z","float"]]},{"name":"mem","columns":["fieldKey","fieldType"],"values":[["a","float"]]}]}]}`}}
	got, err := Ask(t.Context(), server, "d", "autogen", model.AllTime, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x := got[cpu].Fields["x"]; x == nil || x.Count != 2 || !math.IsNaN(x.sum()) {
		t.Errorf("the field whose sum overflows: %+v", x)
	}
	for _, m := range []struct {
		name   Name
		fields string
	}{{cpu, "abyz"}, {Name{"d", "autogen", "mem"}, "a"}} {
		for _, key := range m.fields {
			if f := got[m.name].Fields[string(key)]; f == nil || f.Count != 2 || f.sum() != 1 {
				t.Errorf("field %c of %s: %+v", key, m.name.Measurement, f)
			}
		}
	}
}
