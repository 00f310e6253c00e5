package block_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/tsm1/block"
	"tsdbd/transfer/tsm1/tsm1test"
)

var allTypes = []model.FieldType{model.Float, model.Integer, model.Unsigned, model.String, model.Boolean}

// decode decodes a whole block.
func decode(raw []byte) ([]int64, *column.Vector, error) {
	b, err := block.Parse(raw)
	if err != nil {
		return nil, nil, err
	}
	var d block.Decoder
	times, err := d.AppendTimes(nil, b.Times)
	if err != nil {
		return nil, nil, err
	}
	var v column.Vector
	return times, &v, d.Values(&b, &v, len(times))
}

// same compares values by their bits.
func same(a, b *column.Vector) bool {
	bits := func(v *column.Vector) (out []uint64) {
		for _, f := range v.Floats {
			out = append(out, math.Float64bits(f))
		}
		return out
	}
	return a.Type == b.Type && slices.Equal(bits(a), bits(b)) && slices.Equal(a.Ints, b.Ints) && slices.Equal(a.Uints, b.Uints) &&
		slices.Equal(a.Strings, b.Strings) && slices.Equal(a.Bools, b.Bools)
}

// TestBlock decodes what was encoded, in all encodings.
func TestBlock(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	used := map[[2]byte]int{}
	for range 2000 {
		kind := allTypes[r.IntN(len(allTypes))]
		want, _ := tsm1test.Rows(r, kind, r.Int64N(1e18)-5e17, 1+r.IntN(1100)*r.IntN(2))
		raw := tsm1test.Block(want.Times, &want.Cols[0])
		b, err := block.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		used[[2]byte{'t', b.Times[0] >> 4}]++
		used[[2]byte{byte('0' + kind), b.Data[0] >> 4}]++
		if n, err := b.Count(); n != len(want.Times) || err != nil {
			t.Fatalf("count %d of %d: %v", n, len(want.Times), err)
		}
		times, v, err := decode(raw)
		if err != nil || !slices.Equal(times, want.Times) || !same(v, &want.Cols[0]) {
			t.Fatalf("%s: %v: %v, want %v", kind, err, v, want)
		}
	}
	if len(used) != 3+1+3+3+1+1 {
		t.Errorf("%d encodings were used: %v", len(used), used)
	}
}

// TestFlips flips each bit of blocks. The checksum finds it; and with a right checksum
// there is an error or another value, but never a panic.
func TestFlips(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, kind := range allTypes {
		for range 6 {
			rows, _ := tsm1test.Rows(r, kind, 1e18, 1+r.IntN(60))
			raw := tsm1test.Block(rows.Times, &rows.Cols[0])
			for i := range 8 * len(raw) {
				bad := slices.Clone(raw)
				bad[i/8] ^= 1 << (i % 8)
				if _, _, err := decode(bad); !errors.Is(err, binio.ErrCorrupt) {
					t.Fatalf("bit %d of %s: %v", i, kind, err)
				}
				if i < 32 {
					continue
				}
				if times, v, err := decode(tsm1test.Sum(bad)); err == nil && (v.Len() != len(times) || !slices.IsSorted(times)) {
					t.Fatalf("bit %d of %s: %d values for %v", i, kind, v.Len(), times)
				} else if err != nil && !errors.Is(err, binio.ErrCorrupt) {
					t.Fatalf("bit %d of %s: %v", i, kind, err)
				}
			}
			for n := range raw {
				cut := slices.Clone(raw[:n])
				if n > 4 {
					cut = tsm1test.Sum(cut)
				}
				_, v, err := decode(cut)
				if kind != model.Float && err == nil {
					t.Fatalf("%s cut to %d of %d bytes: %v", kind, n, len(raw), v)
				}
			}
		}
	}
}

// TestHuge decodes blocks that claim more than they may have.
func TestHuge(t *testing.T) {
	many := binary.AppendUvarint(binary.AppendUvarint(append([]byte{2 << 4}, make([]byte, 8)...), 1), 1<<40)
	words := append([]byte{1 << 4}, make([]byte, 8+1<<16)...) // words of 240 values
	snappy := append([]byte{1 << 4}, 0xff, 0xff, 0xff, 0x7f, 0)
	one := tsm1test.Times([]int64{7})
	for name, c := range map[string]struct {
		kind        byte
		times, data []byte
	}{
		"times": {1, many, nil}, "packed times": {1, words, nil}, "integers": {1, one, many}, "packed integers": {1, one, words},
		"booleans": {2, one, binary.AppendUvarint([]byte{1 << 4}, 1<<50)}, "strings": {3, one, snappy},
		"floats": {0, one, append([]byte{1 << 4}, make([]byte, 1<<12)...)},
	} {
		b := append(make([]byte, 4), c.kind)
		b = append(append(binary.AppendUvarint(b, uint64(len(c.times))), c.times...), c.data...)
		binary.BigEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
		allocated := testing.AllocsPerRun(1, func() {
			if _, _, err := decode(b); !errors.Is(err, binio.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if allocated > 100 {
			t.Errorf("%s: %v allocations", name, allocated)
		}
	}
}

// FuzzBlock decodes any bytes below a right checksum.
func FuzzBlock(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, kind := range allTypes {
		for range 5 {
			rows, _ := tsm1test.Rows(r, kind, 1e18, 1+r.IntN(30))
			f.Add(tsm1test.Block(rows.Times, &rows.Cols[0])[4:])
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		times, v, err := decode(tsm1test.Sum(append(make([]byte, 4), body...)))
		switch {
		case err != nil && !errors.Is(err, binio.ErrCorrupt):
			t.Fatal(err)
		case err != nil:
			return
		case v.Len() != len(times) || len(times) > block.MaxRows || !slices.IsSorted(times):
			t.Fatalf("%d values, times %v", v.Len(), times)
		}
		if v.Type == model.Float && slices.ContainsFunc(v.Floats, func(f float64) bool { return f != f }) || len(times) == 0 {
			return // the encoder ends at a NaN
		}
		again, w, err := decode(tsm1test.Block(times, v))
		if err != nil || !reflect.DeepEqual(again, times) || !same(v, w) {
			t.Fatalf("written again: %v\n%v\n%v", err, v, w)
		}
	})
}

// BenchmarkDecode decodes blocks of 1,000 values.
func BenchmarkDecode(b *testing.B) {
	const n = 1000
	random := rand.New(rand.NewPCG(1, 1))
	regular, irregular := make([]int64, n), make([]int64, n)
	var f, g, i, u, s, o column.Vector
	f.Type, g.Type, i.Type, u.Type, s.Type, o.Type = model.Float, model.Float, model.Integer, model.Unsigned, model.String, model.Boolean
	walk := 50.0
	for k := range n {
		regular[k], irregular[k] = 1e18+int64(k)*10e9, 1e18+int64(k)*10e9+random.Int64N(1e6)
		walk += random.NormFloat64()
		f.Floats = append(f.Floats, math.Round(walk))
		g.Floats = append(g.Floats, walk)
		i.Ints = append(i.Ints, random.Int64N(1000))
		u.Uints = append(u.Uints, uint64(k))
		s.Strings = append(s.Strings, []string{"ok", "degraded", "failed"}[random.IntN(3)])
		o.Bools = append(o.Bools, random.IntN(2) == 0)
	}
	for _, c := range []struct {
		name  string
		times []int64
		v     *column.Vector
	}{
		{"floats of whole numbers", regular, &f},
		{"floats", regular, &g},
		{"integers", regular, &i},
		{"unsigned as a run", regular, &u},
		{"strings", regular, &s},
		{"booleans", regular, &o},
		{"booleans at irregular times", irregular, &o},
	} {
		b.Run(c.name, func(b *testing.B) {
			raw := tsm1test.Block(c.times, c.v)
			var times []int64
			var out column.Vector
			var d block.Decoder
			for b.Loop() {
				p, err := block.Parse(raw)
				if err == nil {
					times, err = d.AppendTimes(times[:0], p.Times)
				}
				if err == nil {
					err = d.Values(&p, &out, len(times))
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
		})
	}
}
