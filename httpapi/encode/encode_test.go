package encode

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/result"
)

func TestAppendFloatAgreesWithEncodingJSON(t *testing.T) {
	check := func(f float64) {
		t.Helper()
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendFloat(nil, f); string(got) != string(want) {
			t.Fatalf("AppendFloat(%x) = %s, want %s", math.Float64bits(f), got, want)
		}
	}
	for _, f := range []float64{
		0, math.Copysign(0, -1), 1, -1, 0.5, 1.5, 0.0001, 0.00011, 0.00005, 1e-4, 1e-5, 1e-6, 9.99e-7, 1e-7, 1e-10, 1e-100, 1e20, 1e21, 1e22,
		999999999999999900000, 1e11, 1e11 - 0.0001, 99999999999.9999, 99999999999.99995, 123456.789, 0.1 + 0.2, 100.125, 7.041666666666667,
		2.3333333333333335, 9007199254740993, 1 << 53, math.MaxFloat64, math.SmallestNonzeroFloat64, 10, 99, 100, 12.05, 12.5, 12.0005, 12.34,
	} {
		check(f)
		check(-f)
	}
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for range 100_000 {
		check(float64(r.Int64N(1e12)) / 100)
		check(float64(r.Int64N(1e15)) / 1e4)
		check(math.Round(r.Float64()*1e6) / 1e3)
		if f := math.Float64frombits(r.Uint64()); f-f == 0 {
			check(f)
		}
		check(math.Nextafter(float64(r.Int64N(1e6))/1e4, math.Inf(1)))
	}
}

func TestAppendStringAgreesWithEncodingJSON(t *testing.T) {
	check := func(s string) {
		t.Helper()
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendString(nil, s); string(got) != string(want) {
			t.Fatalf("AppendString(%q) = %s, want %s", s, got, want)
		}
	}
	for c := range 256 {
		check(string([]byte{byte(c)}))
		check("a" + string([]byte{byte(c)}) + "b")
	}
	for _, s := range []string{"", "é", "日本", "\u2028\u2029", "\xff\xfe", "\xe2\x80", "\ufffd", "\U0010ffff", "<a>&b\"\\"} {
		check(s)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := make([]byte, r.IntN(12))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		check(string(b))
	}
}

func TestTimesAgreeWithRFC3339Nano(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	f := timeFormat{}
	check := func(ns int64) {
		t.Helper()
		want := time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
		if got := string(f.append(nil, ns)); got != want {
			t.Fatalf("time %d = %s, want %s", ns, got, want)
		}
	}
	for _, ns := range []int64{0, 1, -1, 1e9, -1e9, 86400e9, 86400e9 - 1, -86400e9, -86400e9 - 1, model.MinTime, model.MaxTime, 1500000000123456789} {
		check(ns)
	}
	for range 100_000 {
		check(int64(r.Uint64()))
		check(r.Int64N(1e6) * 1e9)
	}
}

func TestTimeUnitsDivideTowardZero(t *testing.T) {
	for _, c := range []struct {
		epoch string
		ns    int64
		want  string
	}{
		{"ns", -1500001, "-1500001"},
		{"n", 7, "7"},
		{"u", -1500001, "-1500"},
		{"ms", -1500001, "-1"},
		{"s", -1500001, "0"},
		{"s", 1999999999, "1"},
		{"m", 119e9, "1"},
		{"h", -3600e9, "-1"},
		{"µ", 5, "5"},
		{"us", 5, "5"},
		{"d", 5, "5"},
		{"x", 5, "5"},
	} {
		f := timeFormat{unit: EpochUnit(c.epoch)}
		if got := string(f.append(nil, c.ns)); got != c.want {
			t.Errorf("epoch %s of %d = %s, want %s", c.epoch, c.ns, got, c.want)
		}
	}
}

func TestTimesInAZone(t *testing.T) {
	f := timeFormat{}
	f.setZone("Europe/Berlin")
	if got := string(f.append(nil, 1500000000e9)); got != "2017-07-14T04:40:00+02:00" {
		t.Errorf("got %s", got)
	}
	f.setZone("")
	if got := string(f.append(nil, 1500000000e9)); got != "2017-07-14T02:40:00Z" {
		t.Errorf("back in UTC: %s", got)
	}
}

// floats, ints and so on make columns for the tests.
func floats(v ...float64) column.Vector { return column.Vector{Type: model.Float, Floats: v} }
func ints(v ...int64) column.Vector     { return column.Vector{Type: model.Integer, Ints: v} }
func texts(v ...string) column.Vector   { return column.Vector{Type: model.String, Strings: v} }

func withNulls(v column.Vector, rows ...int) column.Vector {
	v.Valid = column.NewBitmap(v.Len())
	for i := range v.Len() {
		v.Valid.Set(i)
	}
	for _, r := range rows {
		v.Valid.Clear(r)
	}
	return v
}

func table(name string, tags model.Tags, columns []string, timeAt int, values ...column.Vector) *result.Series {
	rows := 0
	for i := range values {
		rows = max(rows, values[i].Len())
	}
	return &result.Series{Name: name, Tags: tags, Columns: columns, Values: values, Rows: rows, Time: timeAt}
}

// sampleResults is an answer with every kind of value, a failed statement,
// messages and a table without time.
func sampleResults() []*result.Result {
	all := table("fx", model.Tags{{Key: "h", Value: "a,b"}, {Key: "site", Value: ""}},
		[]string{"time", "b", "f", "i", "s", "u", "none"}, 0,
		ints(-1e9, 1500000000000000000, 1500000010000000000),
		withNulls(column.Vector{Type: model.Boolean, Bools: []bool{false, true, false}}, 0),
		floats(-0.000001, 1.5, 1e21),
		withNulls(ints(0, 3, -9007199254740993), 0),
		texts("a<b>&c é", "q\"q", " x"),
		column.Vector{Type: model.Unsigned, Uints: []uint64{0, 1, math.MaxUint64}},
		column.Vector{})
	return []*result.Result{
		{StatementID: 0, Series: []*result.Series{all}},
		{StatementID: 1, Err: errors.New("undefined function nofunc()")},
		{
			StatementID: 2, Series: []*result.Series{table("", nil, []string{"name"}, -1, texts("x", "y"))},
			Messages: []result.Message{{Level: "warning", Text: "deprecated use of 'X'"}},
		},
		{StatementID: 3},
	}
}

func encode(t *testing.T, results []*result.Result, make func(*Output) Encoder) string {
	t.Helper()
	var b bytes.Buffer
	out := &Output{w: &b, limit: 1 << 20}
	enc := make(out)
	for _, r := range results {
		if err := enc.Result(r); err != nil {
			if !enc.Fail(err) {
				t.Fatalf("result: %v", err)
			}
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
	}
	if err := enc.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const sampleJSON = `{"results":[{"statement_id":0,"series":[{"name":"fx","tags":{"h":"a,b","site":""},` +
	`"columns":["time","b","f","i","s","u","none"],"values":[` +
	`[-1000000000,null,-0.000001,null,"a\u003cb\u003e\u0026c é",0,null],` +
	`[1500000000000000000,true,1.5,3,"q\"q",1,null],` +
	`[1500000010000000000,false,1e+21,-9007199254740993," x",18446744073709551615,null]]}]},` +
	`{"statement_id":1,"error":"undefined function nofunc()"},` +
	`{"statement_id":2,"series":[{"columns":["name"],"values":[["x"],["y"]]}],"messages":[{"level":"warning","text":"deprecated use of 'X'"}]},` +
	`{"statement_id":3}]}` + "\n"

func TestJSONOfEverything(t *testing.T) {
	got := encode(t, sampleResults(), func(o *Output) Encoder { return newJSONEncoder(o, 1, false) })
	if got != sampleJSON {
		t.Errorf("got\n%s\nwant\n%s", got, sampleJSON)
	}
}

func TestPrettyJSONIsIndentedByFour(t *testing.T) {
	got := encode(t, sampleResults(), func(o *Output) Encoder {
		o.indent = new(indenter)
		return newJSONEncoder(o, 1, false)
	})
	var want bytes.Buffer
	if err := json.Indent(&want, []byte(sampleJSON), "", "    "); err != nil {
		t.Fatal(err)
	}
	if got != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got, want.String())
	}
}

func TestIndenterMayBeCutAnywhere(t *testing.T) {
	for _, doc := range []string{sampleJSON, `{"a":[],"b":{},"c":"x\\\"]"}` + "\n", "{}\n"} {
		var want bytes.Buffer
		if err := json.Indent(&want, []byte(doc), "", "    "); err != nil {
			t.Fatal(err)
		}
		for cut := range len(doc) {
			p := new(indenter)
			got := p.append(p.append(nil, []byte(doc[:cut])), []byte(doc[cut:]))
			if string(got) != want.String() {
				t.Fatalf("cut at %d: got\n%s\nwant\n%s", cut, got, want.String())
			}
		}
	}
}

func TestNoStatementIsAnEmptyObject(t *testing.T) {
	if got := encode(t, nil, func(o *Output) Encoder { return newJSONEncoder(o, 0, false) }); got != "{}\n" {
		t.Errorf("got %q", got)
	}
}

// parts cuts one table in two results, as a querier that streams does.
func parts(partial bool) []*result.Result {
	a := table("m", nil, []string{"time", "v"}, 0, ints(1, 2), floats(1, 2))
	b := table("m", nil, []string{"time", "v"}, 0, ints(3), floats(3))
	a.Partial = true
	return []*result.Result{
		{StatementID: 0, Series: []*result.Series{a}, Partial: partial},
		{StatementID: 0, Series: []*result.Series{b}},
	}
}

func TestPartsOfASeriesBecomeOneUnlessChunked(t *testing.T) {
	got := encode(t, parts(true), func(o *Output) Encoder { return newJSONEncoder(o, 1, false) })
	want := `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","v"],"values":[[1,1],[2,2],[3,3]]}]}]}` + "\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = encode(t, parts(true), func(o *Output) Encoder { return newJSONEncoder(o, 1, true) })
	want = `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","v"],"values":[[1,1],[2,2]],"partial":true}],"partial":true}]}` + "\n" +
		`{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","v"],"values":[[3,3]]}]}]}` + "\n"
	if got != want {
		t.Errorf("chunked: got\n%s\nwant\n%s", got, want)
	}
}

func TestAFailedStatementTakesItsRowsBack(t *testing.T) {
	results := append(parts(true)[:1], &result.Result{StatementID: 0, Err: io.ErrUnexpectedEOF}, &result.Result{StatementID: 1, Err: io.EOF})
	got := encode(t, results, func(o *Output) Encoder { return newJSONEncoder(o, 1, false) })
	want := `{"results":[{"statement_id":0,"error":"unexpected EOF"},{"statement_id":1,"error":"EOF"}]}` + "\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAStatementThatFailsAfterItsRowsLeftKeepsThem(t *testing.T) {
	var b bytes.Buffer
	out := &Output{w: &b}
	enc := newJSONEncoder(out, 1, false)
	for i, r := range append(parts(true), &result.Result{StatementID: 0, Err: io.EOF}) {
		if err := enc.Result(r); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(enc.Finish(), out.Flush()); err != nil {
		t.Fatal(err)
	}
	want := `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","v"],"values":[[1,1],[2,2],[3,3]]}],"error":"EOF"}]}` + "\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if enc.Fail(io.EOF) {
		t.Error("fail says that nothing was sent")
	}
}

// TestNotFinite holds what becomes of NaN and infinities in each format.
func TestNotFinite(t *testing.T) {
	values := []*result.Result{{Series: []*result.Series{table("m", nil, []string{"v"}, -1, floats(math.NaN(), math.Inf(1), math.Inf(-1), 1))}}}
	f := func(want string, e func(*Output) Encoder) {
		t.Helper()
		if got := encode(t, values, e); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, chunked := range []bool{false, true} {
		f(`"values":[[null],[null],[null],[1]]`, func(o *Output) Encoder { return newJSONEncoder(o, 1, chunked) })
	}
	f("name,tags,v\nm,,\nm,,+Inf\nm,,-Inf\nm,,1\n", func(o *Output) Encoder { return newCSVEncoder(o, 1) })
	msgpack := msgp.AppendFloat64(append(msgp.AppendNil([]byte{0x91}), 0x91), math.Inf(1))
	msgpack = msgp.AppendFloat64(append(msgpack, 0x91), math.Inf(-1))
	f(string(msgpack), func(o *Output) Encoder { return newMsgpackEncoder(o, 1) })
}

func TestLargeAnswersAreSpilled(t *testing.T) {
	const rows = 200_000
	v := make([]float64, rows)
	for i := range v {
		v[i] = float64(i) + 0.25
	}
	var b bytes.Buffer
	out := &Output{w: &b}
	enc := newJSONEncoder(out, 1, false)
	if err := enc.Result(&result.Result{Series: []*result.Series{table("m", nil, []string{"v"}, -1, floats(v...))}}); err != nil {
		t.Fatal(err)
	}
	if out.sent == 0 || cap(out.buf) > 4*holdBytes {
		t.Errorf("sent %d, buffer %d: not streamed", out.sent, cap(out.buf))
	}
	if err := errors.Join(enc.Finish(), out.Flush()); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Results []struct {
			Series []struct{ Values [][]float64 }
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	values := doc.Results[0].Series[0].Values
	if len(values) != rows || values[rows-1][0] != rows-1+0.25 {
		t.Errorf("%d rows", len(values))
	}
}

func TestCSV(t *testing.T) {
	results := append(sampleResults(), &result.Result{StatementID: 4, Series: []*result.Series{
		table("a", nil, []string{"time", "v"}, 0, ints(1), floats(1e21)),
		table("b", nil, []string{"time", "w"}, 0, ints(2), withNulls(floats(0), 0)),
	}})
	got := encode(t, results, func(o *Output) Encoder { return newCSVEncoder(o, 1) })
	want := "name,tags,time,b,f,i,s,u,none\n" +
		"fx,\"h=a,b\",-1000000000,,-0.000001,,a<b>&c é,0,\n" +
		"fx,\"h=a,b\",1500000000000000000,true,1.5,3,\"q\"\"q\",1,\n" +
		"fx,\"h=a,b\",1500000010000000000,false,1000000000000000000000,-9007199254740993,\" x\",18446744073709551615,\n" +
		"\nname,tags,name\n,,x\n,,y\n" +
		"\nname,tags,time,v\na,,1,1000000000000000000000\n" +
		"\nname,tags,time,w\nb,,2,\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCSVStringsReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		b := make([]byte, 1+r.IntN(6))
		for i := range b {
			b[i] = "ab,\"\n \t\\.é"[r.IntN(11)]
		}
		s := string(b)
		got, err := csv.NewReader(bytes.NewReader(append(appendCSVString(nil, s), ",x\n"...))).Read()
		if err != nil || got[0] != s {
			t.Fatalf("%q reads back as %q, %v", s, got, err)
		}
	}
}
