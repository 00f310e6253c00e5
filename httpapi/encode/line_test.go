package encode

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/result"
)

func TestLineProtocol(t *testing.T) {
	tags := model.Tags{{Key: "a b", Value: "x,y"}, {Key: "empty", Value: ""}, {Key: "h", Value: "1"}}
	got := encode(t, []*result.Result{{Series: []*result.Series{
		table("c pu", tags, []string{"time", "f f", "i", "u", "s", "b", "none", "h"}, 0, ints(1500000000123456789, -1, 3),
			floats(1.5, math.NaN(), math.Inf(1)), withNulls(ints(1<<62, 2, 3), 2), column.Vector{Type: model.Unsigned, Uints: []uint64{math.MaxUint64, 0, 1}},
			column.Vector{Type: model.String, Strings: []string{`q"\`, "", "z"}}, column.Vector{Type: model.Boolean, Bools: []bool{true, false, true}},
			column.Vector{Type: model.Unknown}, column.Vector{Type: model.String, Strings: []string{"1", "1", "1"}}),
		table("m", nil, []string{"time", "v"}, 0, ints(1, 2), withNulls(floats(1, 2), 1)),
	}}}, func(o *Output) Encoder { return &lineEncoder{out: o} })
	want := `c\ pu,a\ b=x\,y,h=1 f\ f=1.5,i=4611686018427387904i,u=18446744073709551615u,s="q\"\\",b=true 1500000000123456789` + "\n" +
		`c\ pu,a\ b=x\,y,h=1 i=2i,u=0u,s="",b=false -1` + "\n" +
		`c\ pu,a\ b=x\,y,h=1 f\ f=0x7ff0000000000000,u=1u,s="z",b=true 3` + "\n" +
		"m v=1 1\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var failed *StatementError
	for _, r := range []*result.Result{
		{Series: []*result.Series{table("", nil, []string{"name"}, -1, column.Vector{Type: model.String, Strings: []string{"x"}})}}, {Err: errors.New("no")},
	} {
		e := &lineEncoder{out: &Output{w: new(bytes.Buffer)}}
		if err := e.Result(r); !errors.As(err, &failed) || e.Fail(err) {
			t.Errorf("%v", err)
		}
	}
}

func TestFormatOf(t *testing.T) {
	f := func(accept string, chunked bool, want Format) {
		t.Helper()
		if got := FormatOf([]string{accept}, chunked, false); got != want {
			t.Errorf("%s: %+v", accept, got)
		}
	}
	f(MediaLine, true, Format{Media: MediaLine, Chunked: true})
	f("application/*", true, Format{Media: MediaJSON, Chunked: true})
	f(MediaMsgpack, true, Format{Media: MediaJSON, Chunked: true})
	f("application/line-protocol; q=0.9, text/csv; q=0.5", false, Format{Media: MediaLine})
	if f := (Format{Media: MediaLine}); f.ErrorMedia() != MediaJSON || f.HasMessages() {
		t.Error("the properties of line protocol")
	}
}
