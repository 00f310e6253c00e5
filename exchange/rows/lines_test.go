package rows_test

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/model/column"
)

// list is a Reader of runs in memory; err follows them.
type list struct {
	runs []*rows.Run
	err  error
}

func (l *list) Next(context.Context) (*rows.Run, error) {
	if len(l.runs) == 0 {
		return nil, l.err
	}
	run := l.runs[0]
	l.runs = l.runs[1:]
	return run, nil
}

func (l *list) Close() error { return nil }

func run(key string, times []int64, fields []column.Field, cols ...column.Vector) *rows.Run {
	return &rows.Run{Key: key, Fields: fields, Rows: column.Rows{Times: times, Cols: cols}}
}

func TestLines(t *testing.T) {
	fields := []column.Field{
		{Key: "a b", Type: model.Float},
		{Key: "c", Type: model.Integer},
		{Key: "d", Type: model.Unsigned},
		{Key: "e", Type: model.String},
		{Key: "f", Type: model.Boolean},
	}
	some := column.Bitmap{0b01}
	runs := func() []*rows.Run {
		return []*rows.Run{
			run(`cpu\ load,host=a`, []int64{-5, 7}, fields,
				column.Vector{Type: model.Float, Floats: []float64{1.5, math.Inf(1)}},
				column.Vector{Type: model.Integer, Ints: []int64{math.MinInt64, 0}, Valid: some},
				column.Vector{Type: model.Unsigned, Uints: []uint64{math.MaxUint64, 0}, Valid: some},
				column.Vector{Type: model.String, Strings: []string{"say \"x\"\n", ""}, Valid: some},
				column.Vector{Type: model.Boolean, Bools: []bool{true, false}}),
			run(`cpu\ load,host=a`, []int64{8}, fields[1:2], column.Vector{Type: model.Integer, Ints: []int64{1}}),
			run(`cpu\ load,host=b`, []int64{8}, fields[1:2], column.Vector{Type: model.Integer, Ints: []int64{2}}),
		}
	}
	const want = `# CONTEXT-DATABASE:my db
# CONTEXT-RETENTION-POLICY:autogen
cpu\ load,host=a a\ b=1.5,c=-9223372036854775808i,d=18446744073709551615u,e="say \"x\"
",f=true -5
cpu\ load,host=a a\ b=0x7ff0000000000000,f=false 7
cpu\ load,host=a c=1i 8
cpu\ load,host=b c=2i 8
`
	for name, read := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "by bytes": iotest.OneByteReader,
	} {
		r, err := rows.Lines(t.Context(), &list{runs(), io.EOF}, "my db", "autogen")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(read(r))
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}

	broken := errors.New("disk on fire")
	r, err := rows.Lines(t.Context(), &list{runs()[:1], broken}, "db", "rp")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); !errors.Is(err, broken) || !strings.HasSuffix(string(got), " 7\n") {
		t.Errorf("an error after a run: %v, %q", err, got)
	}
	if _, err := rows.Lines(t.Context(), &list{}, "d\nb", "rp"); err == nil {
		t.Error("a name with a line break was accepted")
	}
}
