package rows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/lineproto"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/remote"
)

var update = flag.Bool("update", false, "write the golden file")

// text returns the rows of a batch, a line each.
func text(b *point.Batch, list []point.Row) string {
	var out strings.Builder
	for _, r := range list {
		fmt.Fprintf(&out, "%q", r.Series.Key())
		for i, f := range r.Layout.Fields {
			w := b.Values[int(r.First)+i]
			if f.Type == model.String {
				fmt.Fprintf(&out, " %q=%q", f.Key, column.StringAt(w, b.Strings))
			} else {
				fmt.Fprintf(&out, " %q=%v %x", f.Key, f.Type, w)
			}
		}
		fmt.Fprintf(&out, " %q %d\n", r.Layout.Measurement, r.Time)
	}
	return out.String()
}

// parse returns the rows of lines, those without a time at point.NoTime.
func parse(t testing.TB, table *point.Table, lines string) *point.Batch {
	t.Helper()
	var p lineproto.Parser
	b := &point.Batch{Untimed: 1000}
	if _, err := p.Parse(b, table, []byte(lines), lineproto.Options{Unit: 1000, Now: point.NoTime}); err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(message []byte, table *point.Table) (*point.Batch, error) {
	m, err := Open(message)
	if err != nil {
		return nil, err
	}
	b := new(point.Batch)
	return b, m.Decode(table, b)
}

const lines = `cpu,host=a usage=0.5,n=-3i,big=18446744073709551615u,up=true,name="a \"b\" c" 1700000000000
cpu,host=a usage=1.5,n=4i,big=1u,up=false,name="" 1700000000010
cpu,host=b usage=2
mem,host=a free=1i
cpu,host=b usage=3 -5
m\ x,a\,b=c\=d f\ 1=1 7
`

// TestGolden pins the bytes of a message: nodes of two versions speak to each other.
func TestGolden(t *testing.T) {
	b := parse(t, point.NewTable(7), lines)
	got := new(Encoder).Append(nil, b, b.Rows)
	const name = "testdata/rows-v1.golden"
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the bytes have changed: give the form a new version\n%x", got)
	}
	again, err := decode(want, point.NewTable(7))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := text(again, again.Rows), text(b, b.Rows); got != want || again.Untimed != 1000 || again.Database != 7 {
		t.Errorf("decoded\n%s, want\n%s", got, want)
	}
	again.GiveTime(1_700_000_000_123_456_789)
	if got := text(again, again.Rows[2:4]); strings.Count(got, " 1700000000123456000\n") != 2 {
		t.Errorf("the rows without a time have another than the leader's, in whole units:\n%s", got)
	}
}

// TestGoldenFromNow: a leader that does not know times which count from its own refuses them.
func TestGoldenFromNow(t *testing.T) {
	b := parse(t, point.NewTable(7), "m,a=b s=\"x\" 0\nm,a=c s=\"y\" 1\n")
	b.Untimed = point.FromNow
	got := new(Encoder).Append(nil, b, b.Rows)
	const name = "testdata/rows-v2.golden"
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) || got[0] != 2 {
		t.Errorf("the bytes have changed: give the form a new version\n%x", got)
	}
	again, err := decode(want, point.NewTable(7))
	if err != nil || again.Untimed != point.FromNow {
		t.Errorf("%v, unit %d", err, again.Untimed)
	}
}

// random makes a batch of random rows.
func random(rnd *rand.Rand, table *point.Table) *point.Batch {
	b := new(point.Batch)
	to := point.NewBuilder(table, b)
	name := func(n int) string { return fmt.Sprintf("n%d", rnd.IntN(n)) }
	for range rnd.IntN(200) {
		_ = to.Series(name(3), model.Tags{{Key: name(2), Value: name(9)}, {Key: "t", Value: name(2)}})
		for i := range 1 + rnd.IntN(4) {
			key := fmt.Sprint("f", i)
			switch rnd.IntN(5) {
			case 0:
				to.AnyFloat(key, math.Float64frombits(rnd.Uint64()))
			case 1:
				to.Integer(key, int64(rnd.Uint64()))
			case 2:
				to.Unsigned(key, rnd.Uint64())
			case 3:
				to.Boolean(key, rnd.IntN(2) == 0)
			case 4:
				to.String(key, strings.Repeat("\x00é", rnd.IntN(40)))
			}
		}
		if err := to.Row(int64(rnd.Uint64() >> rnd.IntN(64) &^ (1 << 63))); err != nil {
			panic(err)
		}
		if rnd.IntN(5) == 0 {
			b.Untimed = 1
			b.Rows[len(b.Rows)-1].Time = point.NoTime
		}
	}
	return b
}

// TestRandom: any rows come out as they went in, any part of a batch too, in a table that
// knows some of their series.
func TestRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	from, to := point.NewTable(3), point.NewTable(3)
	var e Encoder
	var out point.Batch
	for range 300 {
		b := random(rnd, from)
		part := b.Rows[:rnd.IntN(len(b.Rows)+1)]
		part = part[rnd.IntN(len(part)+1):]
		most := rnd.IntN(1 << 14)
		n, size := Part(b, part, most)
		if without, _ := Part(b, part[:max(n-1, 0)], most); without < n-1 || n == 0 && len(part) > 0 {
			t.Fatalf("%d of %d rows go together, or %d", n, len(part), without)
		}
		part = part[:n]
		message := e.Append([]byte("before"), b, part)[len("before"):]
		if len(message) > size || len(e.series)+len(e.layouts) > 0 {
			t.Fatalf("%d bytes, Part said %d; %d series and %d layouts are kept", len(message), size, len(e.series), len(e.layouts))
		}
		m, err := Open(message)
		if err == nil {
			err = m.Decode(to, &out)
		}
		if got, want := text(&out, out.Rows), text(b, part); err != nil || got != want {
			t.Fatalf("%v, decoded\n%s, want\n%s", err, got, want)
		}
	}
}

// TestDamage: no change of a byte and no cut is taken for rows.
func TestDamage(t *testing.T) {
	b := parse(t, point.NewTable(7), lines)
	message := new(Encoder).Append(nil, b, b.Rows)
	for i := range message {
		for _, bit := range []byte{1, 0x80} {
			bad := bytes.Clone(message)
			bad[i] ^= bit
			if _, err := decode(bad, point.NewTable(7)); err == nil {
				t.Fatalf("byte %d changed: no error", i)
			}
		}
		if _, err := decode(message[:i], point.NewTable(7)); err == nil {
			t.Fatalf("cut at %d: no error", i)
		}
	}
	if _, err := decode(message, point.NewTable(8)); !errors.Is(err, ErrDatabase) {
		t.Errorf("another database: %v", err)
	}
	message[0] = Newest + 1
	if _, err := decode(message, point.NewTable(7)); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
}

// FuzzDecode gives any bytes a right checksum: what is decoded is rows that can be encoded
// and decoded again, and takes no more memory than Bytes says.
func FuzzDecode(f *testing.F) {
	b := parse(f, point.NewTable(7), lines)
	message := new(Encoder).Append(nil, b, b.Rows)
	f.Add(message[:len(message)-checksumBytes])
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		b := random(rnd, point.NewTable(7))
		message := new(Encoder).Append(nil, b, b.Rows)
		f.Add(message[:len(message)-checksumBytes])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		message := binary.LittleEndian.AppendUint32(bytes.Clone(body), binio.Checksum(body))
		m, err := Open(message)
		if err != nil {
			return
		}
		limit := m.Bytes()
		b := new(point.Batch)
		if m.Decode(point.NewTable(7), b) != nil {
			return
		}
		if used := 32*len(b.Rows) + 8*len(b.Values) + len(b.Strings); used > limit {
			t.Fatalf("%d bytes, Bytes said %d", used, limit)
		}
		again, err := decode(new(Encoder).Append(nil, b, b.Rows), point.NewTable(7))
		if err != nil || text(again, again.Rows) != text(b, b.Rows) {
			t.Fatalf("encoded again: %v", err)
		}
	})
}

func benchmarkBatch(b *testing.B) (*point.Batch, []byte) {
	var body strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&body, "cpu,arch=x64,datacenter=eu-west-1b,hostname=host_%d,os=Ubuntu16.10,rack=%d,region=eu-west-1,service=%d", i%1000, i%100, i%20)
		for f := range 10 {
			fmt.Fprintf(&body, "%cusage_%d=%di", " ,"[min(f, 1)], f, (i*f)%100)
		}
		fmt.Fprintf(&body, " %d\n", 1_700_000_000_000_000+int64(i)/1000*10_000_000)
	}
	return parse(b, point.NewTable(1), body.String()), []byte(body.String())
}

// BenchmarkEncode, Decode and Parse have 5,000 rows of ten integers.
func BenchmarkEncode(b *testing.B) {
	batch, _ := benchmarkBatch(b)
	var e Encoder
	var out []byte
	for b.Loop() {
		out = e.Append(out[:0], batch, batch.Rows)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch.Rows)), "ns/row")
	b.ReportMetric(float64(len(out))/float64(len(batch.Rows)), "bytes/row")
}

func BenchmarkDecode(b *testing.B) {
	batch, _ := benchmarkBatch(b)
	message := new(Encoder).Append(nil, batch, batch.Rows)
	table := point.NewTable(1)
	var out point.Batch
	for b.Loop() {
		m, err := Open(message)
		if err == nil {
			err = m.Decode(table, &out)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch.Rows)), "ns/row")
}

func BenchmarkParse(b *testing.B) {
	_, body := benchmarkBatch(b)
	table := point.NewTable(1)
	var p lineproto.Parser
	var out point.Batch
	for b.Loop() {
		out.Reset()
		if _, err := p.Parse(&out, table, body, lineproto.Options{Unit: 1000}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*5000), "ns/row")
}

// benchmarkSamples has a request of remote write, as Prometheus sends it: 2,000 series of
// ten labels, with a sample each.
func benchmarkSamples(b *testing.B) (request []byte) {
	label := func(dst []byte, name, value string) []byte {
		l := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		l = protowire.AppendString(protowire.AppendTag(l, 2, protowire.BytesType), value)
		return protowire.AppendBytes(protowire.AppendTag(dst, 1, protowire.BytesType), l)
	}
	var message []byte
	for i := range 2000 {
		series := label(nil, "__name__", fmt.Sprintf("http_requests_%d_total", i%50))
		for l := range 9 {
			series = label(series, fmt.Sprintf("label_%d", l), fmt.Sprintf("value-%d-%d", l, i>>l))
		}
		sample := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(float64(i)))
		sample = protowire.AppendVarint(protowire.AppendTag(sample, 2, protowire.VarintType), 1_700_000_000_000+uint64(i))
		series = protowire.AppendBytes(protowire.AppendTag(series, 2, protowire.BytesType), sample)
		message = protowire.AppendBytes(protowire.AppendTag(message, 1, protowire.BytesType), series)
	}
	return snappy.Encode(nil, message)
}

func readSamples(b *testing.B, request []byte, table *point.Table, out *point.Batch) {
	message, err := snappy.Decode(nil, request)
	if err == nil {
		out.Reset()
		_, err = remote.Write(message, &prom.Rows{Builder: point.NewBuilder(table, out)})
	}
	if err != nil || len(out.Rows) != 2000 {
		b.Fatal(err, len(out.Rows))
	}
}

// BenchmarkReadSamples is what a leader spends on a request of remote write that it gets as
// it came, BenchmarkDecodeSamples on its rows.
func BenchmarkReadSamples(b *testing.B) {
	request, table := benchmarkSamples(b), point.NewTable(1)
	var out point.Batch
	for b.Loop() {
		readSamples(b, request, table, &out)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*2000), "ns/sample")
	b.ReportMetric(float64(len(request))/2000, "bytes/sample")
}

func BenchmarkDecodeSamples(b *testing.B) {
	var batch, out point.Batch
	readSamples(b, benchmarkSamples(b), point.NewTable(1), &batch)
	message := new(Encoder).Append(nil, &batch, batch.Rows)
	table := point.NewTable(1)
	for b.Loop() {
		m, err := Open(message)
		if err == nil {
			err = m.Decode(table, &out)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*2000), "ns/sample")
	b.ReportMetric(float64(len(message))/2000, "bytes/sample")
}
