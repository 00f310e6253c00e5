package tsm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// newRand returns a generator whose seed a failing test prints.
func newRand(t testing.TB) *rand.Rand {
	seed := testseed.Of(t)
	return rand.New(rand.NewPCG(seed, 1))
}

// testSeries is the oracle: what was written.
type testSeries struct {
	id     model.SeriesID
	key    string
	fields []column.Field
	chunks []testChunk
}

type testChunk struct {
	times []int64
	cols  []column.Vector
}

func (s *testSeries) values() (n int64) {
	for i := range s.chunks {
		for j := range s.chunks[i].cols {
			v := &s.chunks[i].cols[j]
			for k := range v.Len() {
				if v.IsValid(k) {
					n++
				}
			}
		}
	}
	return n
}

// writeSeries writes series to path.
func writeSeries(t testing.TB, path string, opt WriterOptions, series []testSeries) Info {
	t.Helper()
	w, err := Create(vfs.OS, path, opt)
	if err != nil {
		t.Fatal(err)
	}
	for i := range series {
		s := &series[i]
		if err := w.Series(s.id, s.key, s.fields); err != nil {
			t.Fatal(err)
		}
		for _, c := range s.chunks {
			if err := w.Append(c.times, c.cols); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func openFile(t testing.TB, path string) *Reader {
	t.Helper()
	r, err := Open(vfs.OS, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

var hostileFloats = []float64{
	0, math.Copysign(0, -1), 1, -1, 0.1, 1e300, -1e300, math.MaxFloat64, math.SmallestNonzeroFloat64,
	math.Inf(1), math.Inf(-1), math.NaN(), 1 << 53, 1<<53 + 2, 123456.789, 1e-7,
}
var hostileInts = []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1 << 40, -1 << 40, 127, 128}

func randomVector(rng *rand.Rand, t model.FieldType, rows int) column.Vector {
	v := column.Vector{Type: t}
	style := rng.IntN(6)
	base := rng.Int64N(1000)
	words := []string{"", "a", "ok", "warning", strings.Repeat("x", rng.IntN(400)), "Grüße\x00\xff"}
	for i := range rows {
		switch t {
		case model.Float:
			x := float64(base)
			switch style {
			case 0:
				x = hostileFloats[rng.IntN(len(hostileFloats))]
			case 1:
				x = rng.NormFloat64() * 1e3
			case 2:
				x = math.Round(rng.Float64()*10000) / 100
			case 3:
				x = float64(base) + float64(i)*0.25
			}
			v.Floats = append(v.Floats, x)
		case model.Integer:
			x := base
			switch style {
			case 0:
				x = hostileInts[rng.IntN(len(hostileInts))]
			case 1:
				x = int64(rng.Uint64())
			case 2:
				x = base + int64(i)*10
			case 3:
				x = rng.Int64N(200) - 100
			}
			v.Ints = append(v.Ints, x)
		case model.Unsigned:
			x := uint64(base)
			switch style {
			case 0:
				x = uint64(hostileInts[rng.IntN(len(hostileInts))])
			case 1:
				x = rng.Uint64()
			case 2:
				x = uint64(base) + uint64(i)
			}
			v.Uints = append(v.Uints, x)
		case model.String:
			x := words[2]
			switch style {
			case 0:
				x = words[rng.IntN(len(words))]
			case 1:
				x = fmt.Sprint(rng.Uint64())
			}
			v.Strings = append(v.Strings, x)
		case model.Boolean:
			v.Bools = append(v.Bools, style == 0 || style > 1 && rng.IntN(2) == 0)
		}
	}
	switch rng.IntN(5) {
	case 0: // sparse, at random
		p := rng.Float64()
		v.Valid = column.NewBitmap(rows)
		for i := range rows {
			if rng.Float64() < p {
				v.Valid.Set(i)
			}
		}
	case 1: // sparse, a run
		v.Valid = column.NewBitmap(rows)
		lo := rng.IntN(rows)
		for i := lo; i < rows && rng.IntN(50) > 0; i++ {
			v.Valid.Set(i)
		}
	case 2: // explicit but full
		v.Valid = column.NewBitmap(rows)
		for i := range rows {
			v.Valid.Set(i)
		}
	}
	return v
}

func randomTimes(rng *rand.Rand, from int64, rows int) []int64 {
	unit := timeUnits[rng.IntN(4)]
	from = floorDiv(from, unit)*unit + unit
	step := unit * (1 + rng.Int64N(60))
	style := rng.IntN(4)
	out := make([]int64, rows)
	for i := range out {
		out[i] = from
		switch style {
		case 0, 1:
			from += step
		case 2:
			from += step + rng.Int64N(1000)
		case 3:
			from += unit * (1 + rng.Int64N(5))
		}
	}
	return out
}

// randomSeries makes n series with hostile keys, types, values and times.
func randomSeries(rng *rand.Rand, n int) []testSeries {
	keys := map[string]bool{}
	for len(keys) < n {
		k := fmt.Sprintf("m%d,host=h%03d", rng.IntN(3), rng.IntN(n*2))
		switch rng.IntN(12) {
		case 0:
			k += ",long=" + strings.Repeat("v", rng.IntN(3000))
		case 1:
			k = string([]byte{byte(1 + rng.IntN(255)), byte(rng.IntN(256))})
		}
		keys[k] = true
	}
	sorted := make([]string, 0, n)
	for k := range keys {
		sorted = append(sorted, k)
	}
	sort.Strings(sorted)
	ids := map[uint32]bool{}
	out := make([]testSeries, n)
	spread := []uint32{uint32(2 * n), 1 << 20, math.MaxUint32}[rng.IntN(3)]
	consecutive := rng.IntN(3) == 0
	lists := make([][]column.Field, 1+rng.IntN(5))
	for i := range lists {
		for j := range rng.IntN(12) {
			if rng.IntN(3) > 0 {
				lists[i] = append(lists[i], column.Field{Key: fmt.Sprintf("f%02d", j), Type: model.FieldType(1 + rng.IntN(5))})
			}
		}
	}
	for i := range out {
		s := &out[i]
		s.key = sorted[i]
		s.id = model.SeriesID(i + 1)
		for !consecutive {
			id := 1 + rng.Uint32N(spread)
			if !ids[id] {
				ids[id] = true
				s.id = model.SeriesID(id)
				break
			}
		}
		s.fields = lists[rng.IntN(len(lists))]
		at := rng.Int64N(2e18) - 1e18
		for range 1 + rng.IntN(4) {
			rows := []int{1, 1 + rng.IntN(9), 1 + rng.IntN(100), 1 + rng.IntN(1100)}[rng.IntN(4)]
			c := testChunk{times: randomTimes(rng, at, rows)}
			at = c.times[rows-1] + rng.Int64N(1e12)
			for _, f := range s.fields {
				c.cols = append(c.cols, randomVector(rng, f.Type, rows))
			}
			s.chunks = append(s.chunks, c)
		}
	}
	return out
}

// diffVector tells how got differs from want, null rows apart.
func diffVector(want, got *column.Vector, rows int) error {
	if got.Type != want.Type || got.Len() != rows {
		return fmt.Errorf("%s of %d rows, want %s of %d", got.Type, got.Len(), want.Type, rows)
	}
	for i := range rows {
		if got.IsValid(i) != want.IsValid(i) {
			return fmt.Errorf("row %d: valid %v", i, got.IsValid(i))
		}
		if !want.IsValid(i) {
			continue
		}
		ok := true
		switch want.Type {
		case model.Float:
			ok = math.Float64bits(got.Floats[i]) == math.Float64bits(want.Floats[i])
		case model.Integer:
			ok = got.Ints[i] == want.Ints[i]
		case model.Unsigned:
			ok = got.Uints[i] == want.Uints[i]
		case model.String:
			ok = got.Strings[i] == want.Strings[i]
		case model.Boolean:
			ok = got.Bools[i] == want.Bools[i]
		}
		if !ok {
			return fmt.Errorf("row %d differs", i)
		}
	}
	return nil
}

// readSeries compares series i of r with the oracle. An error that is not
// damage found by the reader is of type wrongData.
type wrongData struct{ error }

func compareSeries(r *Reader, i int, want *testSeries, s *Series, c *Chunk) error {
	wrong := func(format string, args ...any) error {
		return wrongData{fmt.Errorf("series %d: %s", i, fmt.Sprintf(format, args...))}
	}
	key, err := r.Key(i)
	if err != nil {
		return err
	}
	if key != want.key {
		return wrong("key %q, want %q", key, want.key)
	}
	o, ok, err := r.Find(want.id)
	if err != nil {
		return err
	}
	if !ok || o != i {
		return wrong("id %d found at %d, %v", want.id, o, ok)
	}
	id, err := r.ID(i)
	if err != nil {
		return err
	}
	if err := r.Load(i, s); err != nil {
		return err
	}
	if id != want.id || s.ID != want.id || !slices.Equal(s.Fields, want.fields) || len(s.Chunks) != len(want.chunks) {
		return wrong("id %d, %d, fields %v, %d chunks", id, s.ID, s.Fields, len(s.Chunks))
	}
	if last := want.chunks[len(want.chunks)-1]; s.TimeRange() != (model.TimeRange{Min: want.chunks[0].times[0], Max: last.times[len(last.times)-1]}) {
		return wrong("range %v", s.TimeRange())
	}
	for k := range s.Chunks {
		w := &want.chunks[k]
		e := &s.Chunks[k]
		rows := len(w.times)
		if e.Rows != rows || e.Min != w.times[0] || e.Max != w.times[rows-1] {
			return wrong("chunk %d entry %+v", k, e)
		}
		if err := r.Chunk(s, k, c); err != nil {
			return err
		}
		if c.Len() != rows || c.Min() != w.times[0] || c.Max() != w.times[rows-1] {
			return wrong("chunk %d of %d rows from %d to %d", k, c.Len(), c.Min(), c.Max())
		}
		times, err := c.Times()
		if err != nil {
			return err
		}
		if !slices.Equal(times, w.times) {
			return wrong("chunk %d: times", k)
		}
		if st := c.Step(); st != 0 && w.times[1]-w.times[0] != st {
			return wrong("chunk %d: step %d", k, st)
		}
		for f := range want.fields {
			v, err := c.Column(f)
			if err != nil {
				return err
			}
			if err := diffVector(&w.cols[f], v, rows); err != nil {
				return wrong("chunk %d column %d: %v", k, f, err)
			}
			if all := validCount(&w.cols[f], rows) == rows; c.AllValid(f) != all {
				return wrong("chunk %d column %d: all valid %v", k, f, c.AllValid(f))
			}
			var st scan.Stats
			ok := c.Stats(f, &st)
			if ok != (rows >= StatsRows) {
				return wrong("chunk %d column %d: stats %v", k, f, ok)
			}
			if ok {
				if err := diffStats(&w.cols[f], rows, st); err != nil {
					return wrong("chunk %d column %d: %v", k, f, err)
				}
			}
		}
	}
	return nil
}

func compareFile(r *Reader, series []testSeries) error {
	if r.Len() != len(series) {
		return wrongData{fmt.Errorf("%d series, want %d", r.Len(), len(series))}
	}
	var s Series
	var c Chunk
	for i := range series {
		if err := compareSeries(r, i, &series[i], &s, &c); err != nil {
			return err
		}
	}
	return nil
}

func tempFile(t testing.TB) string { return filepath.Join(t.TempDir(), "000001.tsm") }

func readAll(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
