package encode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/parquettest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query"
	"tsdbd/query/admission"
	"tsdbd/query/result"
)

// parquetTable encodes results and returns the table, a line for each column.
func parquetTable(t *testing.T, results ...*result.Result) string {
	t.Helper()
	file := encode(t, results, func(o *Output) Encoder { return newParquetEncoder(o) })
	columns, err := parquettest.Read([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, c := range columns {
		for i, v := range c.Values {
			if s, ok := v.(string); ok {
				c.Values[i] = fmt.Sprintf("%q", s)
			}
		}
		fmt.Fprintf(&b, "%s %s %v\n", c.Name, c.Type, c.Values)
	}
	return b.String()
}

// TestParquetTables shows how series become one table.
func TestParquetTables(t *testing.T) {
	uints := column.Vector{Type: model.Unsigned, Uints: []uint64{math.MaxUint64, 0}, Valid: column.Bitmap{1}}
	lists := &result.Series{Name: "l", Columns: []string{"d"}, Time: -1, Rows: 1, Values: []column.Vector{{}}, Lists: map[int][][]string{0: {{"x", "y"}}}}
	for _, c := range []struct {
		name   string
		series []*result.Series
		want   string
	}{
		{"no rows", nil, "name BYTE_ARRAY STRING []\ntime INT64 TIMESTAMP []\n"},
		{"types", []*result.Series{
			table("m", nil, []string{"time", "f", "i", "u", "s", "b", "none"}, 0, ints(-5, 7), floats(math.NaN(), math.Inf(1)), ints(math.MinInt64, 1), uints, texts("é\n", ""),
				column.Vector{Type: model.Boolean, Bools: []bool{true, false}}, column.Vector{}),
		}, `name BYTE_ARRAY STRING ["m" "m"]
time INT64 TIMESTAMP [-5 7]
f DOUBLE [<nil> +Inf]
i INT64 [-9223372036854775808 1]
u INT64 UNSIGNED [18446744073709551615 <nil>]
s BYTE_ARRAY STRING ["é\n" ""]
b BOOLEAN [true false]
none DOUBLE [<nil> <nil>]
`},
		{"groups", []*result.Series{
			table("m", model.Tags{{Key: "h", Value: "a"}, {Key: "time", Value: "x"}}, []string{"time", "v"}, 0, ints(1, 2), floats(1, 2)),
			table("m", model.Tags{{Key: "h", Value: ""}, {Key: "time", Value: "y"}}, []string{"time", "v"}, 0, ints(3), floats(3)),
		}, `name BYTE_ARRAY STRING ["m" "m" "m"]
h BYTE_ARRAY STRING ["a" "a" <nil>]
time_tag BYTE_ARRAY STRING ["x" "x" "y"]
time INT64 TIMESTAMP [1 2 3]
v DOUBLE [1 2 3]
`},
		{"clashes", []*result.Series{
			table("m", model.Tags{{Key: "v", Value: "tag"}}, []string{"time", "name", "v", "v"}, 0, ints(1), texts("x"), floats(1), ints(2)),
		}, `name_measurement BYTE_ARRAY STRING ["m"]
v_tag BYTE_ARRAY STRING ["tag"]
time INT64 TIMESTAMP [1]
name BYTE_ARRAY STRING ["x"]
v DOUBLE [1]
v_integer INT64 [2]
`},
		{"other columns and types later", []*result.Series{
			table("a", nil, []string{"v", "w"}, -1, column.Vector{}, floats(1)),
			table("b", nil, []string{"v"}, -1, texts("late")),
			table("c", nil, []string{"v", "x"}, -1, ints(5), ints(6)),
			table("d", nil, []string{"v"}, -1, column.Vector{}),
			lists,
		}, `name BYTE_ARRAY STRING ["a" "b" "c" "d" "l"]
v BYTE_ARRAY STRING [<nil> "late" <nil> <nil> <nil>]
w DOUBLE [1 <nil> <nil> <nil> <nil>]
v_integer INT64 [<nil> <nil> 5 <nil> <nil>]
x INT64 [<nil> <nil> 6 <nil> <nil>]
d BYTE_ARRAY STRING [<nil> <nil> <nil> <nil> "x,y"]
`},
	} {
		var results []*result.Result
		for _, s := range c.series {
			if s.Values[0].Type == model.Unknown {
				s.Rows = 1
			}
			results = append(results, &result.Result{Series: []*result.Series{s}, Partial: true})
		}
		if got := parquetTable(t, append(results, &result.Result{})...); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// randomTexts is a series of texts that do not compress.
func randomTexts(r *rand.Rand, rows, bytes int) *result.Series {
	s := table("m", nil, []string{"time", "s"}, 0, ints(make([]int64, rows)...), texts(make([]string, rows)...))
	for i := range rows {
		b := make([]byte, bytes)
		for k := range b {
			b[k] = byte(' ' + r.IntN(95))
		}
		s.Values[1].Strings[i] = string(b)
	}
	return s
}

// TestParquetIsSpilled checks that an answer is sent while it is made, in bounded and
// charged memory.
func TestParquetIsSpilled(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	memory := admission.NewMemory(256 << 20)
	account := memory.Open(nil, nil)
	var file bytes.Buffer
	out := NewOutput(&file, Options{Account: account})
	defer out.Free()
	enc := newParquetEncoder(out)
	var want []any
	most, began := int64(0), 0
	for i := range 40 {
		s := randomTexts(r, 100, 10_000)
		for _, text := range s.Values[1].Strings {
			want = append(want, text)
		}
		if err := enc.Result(&result.Result{Series: []*result.Series{s}, Partial: true}); err != nil {
			t.Fatal(err)
		}
		if most = max(most, memory.Used()); began == 0 && out.AnySent() {
			began = i
		}
	}
	if err := errors.Join(enc.Finish(), out.Flush()); err != nil {
		t.Fatal(err)
	}
	if began == 0 || most < 6<<20 || most > 32<<20 || cap(out.buf) > 4*holdBytes {
		t.Errorf("the answer began with piece %d, with %d bytes of memory and %d of output", began, most, cap(out.buf))
	}
	columns, err := parquettest.Read(file.Bytes())
	if err != nil || !reflect.DeepEqual(columns[2].Values, want) || len(columns[2].Groups) < 3 {
		t.Errorf("the answer differs: %v", err)
	}
	account.Close()
	if memory.Used() != 0 {
		t.Errorf("%d bytes are left", memory.Used())
	}
}

func TestParquetErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	short := admission.NewMemory(4 << 20)
	account := short.Open(nil, nil)
	defer account.Close()
	out := NewOutput(io.Discard, Options{Account: account})
	defer out.Free()
	enc := newParquetEncoder(out)
	var err error
	for n := 0; err == nil && n < 20; n++ {
		err = enc.Result(&result.Result{Series: []*result.Series{randomTexts(r, 100, 10_000)}})
	}
	if !errors.Is(err, admission.ErrMemory) || out.AnySent() {
		t.Errorf("an answer over the limit of memory: %v, sent %v", err, out.AnySent())
	}
	if enc.Fail(err) {
		t.Error("an error became Parquet")
	}

	out = NewOutput(io.Discard, Options{Stopped: func() bool { return true }})
	defer out.Free()
	if err := newParquetEncoder(out).Result(&result.Result{Series: []*result.Series{randomTexts(r, 1, 1)}}); err != query.ErrStopped {
		t.Errorf("an answer to a query that has ended: %v", err)
	}
	var statement *StatementError
	if err := newParquetEncoder(out).Result(&result.Result{Err: io.EOF}); !errors.As(err, &statement) || !errors.Is(err, io.EOF) {
		t.Errorf("the error of a statement: %v", err)
	}
}

func TestFormatOf(t *testing.T) {
	f := func(accept string, chunked bool, want Format) {
		t.Helper()
		if got := FormatOf([]string{accept}, chunked, false); got != want {
			t.Errorf("%s: %+v", accept, got)
		}
	}
	f(MediaParquet, true, Format{Media: MediaParquet})
	f("application/*", true, Format{Media: MediaJSON, Chunked: true})
	f(MediaMsgpack, true, Format{Media: MediaJSON, Chunked: true})
	f("application/vnd.apache.parquet; q=0.9, text/csv; q=0.5", false, Format{Media: MediaParquet})
	if !slices.Contains(offers, MediaParquet) || (Format{Media: MediaParquet}).ErrorMedia() != MediaJSON || (Format{Media: MediaParquet}).HasMessages() {
		t.Error("the properties of Parquet")
	}
}
