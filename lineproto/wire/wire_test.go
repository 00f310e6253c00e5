package wire_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/lineproto"
	"tsdbd/lineproto/wire"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// encode writes the rows of a batch.
func encode(b *point.Batch) []byte {
	var out []byte
	for _, r := range b.Rows {
		out = wire.AppendSeries(out, r.Series.Key())
		for i, f := range r.Layout.Fields {
			sep := byte(',')
			if i == 0 {
				sep = ' '
			}
			out = append(append(out, sep), wire.FieldPrefix(f.Key)...)
			switch w := b.Values[int(r.First)+i]; f.Type {
			case model.Float:
				out = wire.AppendFloat(out, math.Float64frombits(w))
			case model.Integer:
				out = wire.AppendInteger(out, int64(w))
			case model.Unsigned:
				out = wire.AppendUnsigned(out, w)
			case model.Boolean:
				out = wire.AppendBoolean(out, w == 1)
			case model.String:
				out = wire.AppendString(out, column.StringAt(w, b.Strings))
			}
		}
		out = wire.AppendTime(out, r.Time)
	}
	return out
}

// render returns the rows of a batch exactly.
func render(b *point.Batch) string {
	var out strings.Builder
	for _, r := range b.Rows {
		fmt.Fprintf(&out, "%q", r.Series.Key())
		for i, f := range r.Layout.Fields {
			w := b.Values[int(r.First)+i]
			if f.Type == model.String {
				fmt.Fprintf(&out, " %q=%q", f.Key, column.StringAt(w, b.Strings))
			} else {
				fmt.Fprintf(&out, " %q=%v %x", f.Key, f.Type, w)
			}
		}
		fmt.Fprintf(&out, " @%d\n", r.Time)
	}
	return out.String()
}

// TestRoundTrip: every point that can be stored is read back as it was, and
// written again gives the same bytes.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 3))
	pick := func(s []string) string { return s[r.IntN(len(s))] }
	alphabet := []string{"a", "b", "\\", "\\", "\"", ",", "=", " ", "#", "é", "\u0085", "i", "1", "/", "'", "{", "\n", "\\\n", "\r", "\t", "\x00", "\x7f", "\xff", "\xe4", "\xed\xa0"}
	name := func() string {
		var s strings.Builder
		for range 1 + r.IntN(8) {
			s.WriteString(pick(alphabet))
		}
		return s.String()
	}
	bytesOf := []string{"a", "\\", "\"", "\n", "\r", "\t", "\x00", ",", "=", " ", "#", "é", "\xff", "\xc3", "\\n"}
	floats := []float64{
		0, math.Copysign(0, -1), 1, 0.1, 1e21, -1e-7, math.MaxFloat64, math.SmallestNonzeroFloat64, 123456789.125, 1 << 53, 1e100,
		math.NaN(), math.Inf(1), math.Inf(-1), math.Float64frombits(0x7ff0_0000_0000_0002), math.Float64frombits(0xffff_0123_4567_89ab),
	}
	integers := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1e18}
	refused := map[string]int{}
	rounds := 20_000
	if testing.Short() {
		rounds /= 10
	}
	for range rounds {
		var batch point.Batch
		b := point.NewBuilder(point.NewTable(1), &batch)
		for range 1 + r.IntN(4) {
			var tags model.Tags
			for range r.IntN(4) {
				tags = append(tags, model.Tag{Key: name(), Value: name()})
			}
			_ = b.Series(name(), tags)
			for range 1 + r.IntN(4) {
				key := name()
				switch r.IntN(7) {
				case 0:
					b.AnyFloat(key, floats[r.IntN(len(floats))])
				case 1:
					if f := math.Float64frombits(r.Uint64()); f-f == 0 {
						b.Float(key, f)
					}
				case 2:
					b.Integer(key, integers[r.IntN(len(integers))])
				case 3:
					b.Unsigned(key, []uint64{0, math.MaxUint64, 1 << 63, r.Uint64()}[r.IntN(4)])
				case 4:
					b.Boolean(key, r.IntN(2) == 0)
				default:
					var s strings.Builder
					for range r.IntN(12) {
						s.WriteString(pick(bytesOf))
					}
					b.String(key, s.String())
				}
			}
			at := []int64{0, -1, model.MinTime, model.MaxTime, r.Int64()}[r.IntN(5)]
			if err := b.Row(at); err != nil {
				refused[err.Error()[max(0, len(err.Error())-12):]]++
			}
		}
		lines := encode(&batch)
		var p lineproto.Parser
		var read point.Batch
		_, err := p.Parse(&read, point.NewTable(1), lines, lineproto.Options{})
		if got, want := render(&read), render(&batch); err != nil || got != want {
			t.Fatalf("%q: %v\nread\n%swant\n%s", lines, err, got, want)
		}
		if again := encode(&read); !bytes.Equal(again, lines) {
			t.Fatalf("written again\n%q, first\n%q", again, lines)
		}
	}
	t.Log(refused)
}

// FuzzRoundTrip: what the parser accepts is written so that it reads the same.
func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{
		`m,t=a v=1,w=-1i,u=2u,b=t,s="x" 1`, `m\ \,\"\=,a\ \,\=b=\=c f\"\ \=\,g="\"\\ \n" -5`, "m\\\\\"x s=\"a\nb\rc\td\xff\"", `m\\=x,t=\\=y v\\"x=1`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var p lineproto.Parser
		var first, second point.Batch
		_, _ = p.Parse(&first, point.NewTable(1), slices.Clone(body), lineproto.Options{Now: 1})
		lines := encode(&first)
		_, err := p.Parse(&second, point.NewTable(1), lines, lineproto.Options{Now: 2})
		if got, want := render(&second), render(&first); err != nil || got != want {
			t.Fatalf("%q\nwritten as\n%q: %v\nread\n%swant\n%s", body, lines, err, got, want)
		}
	})
}

// TestFinite leaves out the floats that InfluxDB cannot read, and rows of nothing else.
func TestFinite(t *testing.T) {
	var batch point.Batch
	b := point.NewBuilder(point.NewTable(1), &batch)
	_ = b.Series("m", model.Tags{{Key: "a", Value: "b"}})
	for _, row := range [][]float64{{math.NaN(), 1, math.Inf(1)}, {2, math.Inf(-1)}, {math.NaN()}, {3}} {
		for i, v := range row {
			b.AnyFloat(string(rune('x'+i)), v)
		}
		if err := b.Row(int64(len(row))); err != nil {
			t.Fatal(err)
		}
	}
	f := func(finite bool, want string) {
		t.Helper()
		e := wire.Encoder{Finite: finite}
		var got []byte
		for i := range batch.Rows {
			got = e.AppendRow(got, &batch, &batch.Rows[i])
		}
		if string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(true, "m,a=b y=1 3\nm,a=b x=2 2\nm,a=b x=3 1\n")
	f(false, "m,a=b x=0x7ff8000000000001,y=1,z=0x7ff0000000000000 3\nm,a=b x=2,y=0xfff0000000000000 2\nm,a=b x=0x7ff8000000000001 1\nm,a=b x=3 1\n")
}
