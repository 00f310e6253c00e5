package wal

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
)

var updateFlag = flag.Bool("update", false, "rewrite golden files and generated documentation")

// newRand returns a generator whose seed is printed when the test fails.
func newRand(t testing.TB) *rand.Rand {
	seed := testseed.Of(t)
	return rand.New(rand.NewPCG(seed, 1))
}

// world hands out series and layouts as the parser and the store do.
type world struct {
	rng     *rand.Rand
	series  map[uint32][]*column.Series
	layouts []*column.Layout
}

func newWorld(rng *rand.Rand) *world {
	w := &world{rng: rng, series: map[uint32][]*column.Series{}}
	for i := range 12 {
		l := &column.Layout{Measurement: fmt.Sprintf("m%d", i)}
		for j := range 1 + rng.IntN(9) {
			t := model.FieldType(1 + rng.IntN(5))
			if i < 5 {
				t = model.FieldType(1 + i) // layouts of one type
			}
			l.Fields = append(l.Fields, column.Field{Key: fmt.Sprintf("f%d", j), Type: t})
		}
		w.layouts = append(w.layouts, l)
	}
	return w
}

func (w *world) pick(db uint32) *column.Series {
	list := w.series[db]
	if len(list) == 0 || w.rng.IntN(4) == 0 && len(list) < 300 {
		id := uint32(len(list) + 1)
		if w.rng.IntN(8) == 0 {
			id = math.MaxUint32 - uint32(len(list)) // ids need not be dense
		}
		s := column.NewSeries(fmt.Sprintf("cpu,host=h%d,db=%d,pad=%s", len(list), db, strings.Repeat("x", w.rng.IntN(60))))
		s.SetID(model.SeriesID(id))
		w.series[db] = append(list, s)
		return s
	}
	return list[w.rng.IntN(len(list))]
}

func (w *world) value(t model.FieldType, strings *[]byte) uint64 {
	switch t {
	case model.Boolean:
		return uint64(w.rng.IntN(2))
	case model.String:
		n := w.rng.IntN(20)
		switch w.rng.IntN(20) {
		case 0:
			n = 0
		case 1:
			n = w.rng.IntN(3000)
		}
		at := len(*strings)
		for range n {
			*strings = append(*strings, byte(w.rng.Uint32()))
		}
		return column.StringWord(at, n)
	case model.Float:
		switch w.rng.IntN(4) {
		case 0:
			return math.Float64bits([]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64, math.MaxFloat64, 1, 0.1}[w.rng.IntN(9)])
		case 1:
			return math.Float64bits(float64(w.rng.IntN(10000)) / 100)
		}
	}
	switch w.rng.IntN(4) {
	case 0:
		return []uint64{0, 1, math.MaxUint64, 1 << 63, 1<<63 - 1, 0xff, 0x100}[w.rng.IntN(7)]
	case 1:
		return uint64(int64(w.rng.IntN(200) - 100))
	}
	return w.rng.Uint64() >> w.rng.IntN(64)
}

// entry makes a random entry of up to rows rows per write.
func (w *world) entry(rows int) *Entry {
	e := &Entry{}
	var values []uint64
	var text []byte
	for range w.rng.IntN(3) {
		wr := Write{Database: uint32(1 + w.rng.IntN(3)), Shard: w.rng.Uint64() >> w.rng.IntN(64)}
		time := int64(w.rng.Uint64())
		step := int64(1e10)
		for range w.rng.IntN(rows + 1) {
			l := w.layouts[w.rng.IntN(len(w.layouts))]
			r := column.Row{Series: w.pick(wr.Database), Layout: l, Time: time, First: uint32(len(values))}
			for i := range l.Fields {
				values = append(values, w.value(l.Fields[i].Type, &text))
			}
			wr.Rows = append(wr.Rows, r)
			switch w.rng.IntN(8) {
			case 0:
				time = int64(w.rng.Uint64())
			case 1:
				step = int64(w.rng.Uint64() >> w.rng.IntN(64))
				fallthrough
			case 2, 3, 4:
				time += step
			}
		}
		e.Writes = append(e.Writes, wr)
	}
	for i := range e.Writes {
		e.Writes[i].Values, e.Writes[i].Strings = values, text
	}
	for range w.rng.IntN(3) / 2 {
		set := make([]byte, w.rng.IntN(40))
		for i := range set {
			set[i] = byte(w.rng.Uint32())
		}
		e.Deletes = append(e.Deletes, Delete{
			Database: uint32(w.rng.IntN(3)), Shard: uint64(w.rng.IntN(9)), Series: set,
			Range: model.TimeRange{Min: int64(w.rng.Uint64()), Max: int64(w.rng.Uint64())},
		})
	}
	return e
}

// text renders all of an entry but its sequence.
func text(e *Entry) string {
	var b strings.Builder
	for _, w := range e.Writes {
		fmt.Fprintf(&b, "write %d %d\n", w.Database, w.Shard)
		for _, r := range w.Rows {
			fmt.Fprintf(&b, "  %d %q %q %d", r.Series.ID(), r.Series.Key(), r.Layout.Measurement, r.Time)
			for i, f := range r.Layout.Fields {
				v := w.Values[int(r.First)+i]
				if f.Type == model.String {
					fmt.Fprintf(&b, " %s:%v=%x", f.Key, f.Type, column.StringAt(v, w.Strings))
				} else {
					fmt.Fprintf(&b, " %s:%v=%x", f.Key, f.Type, v)
				}
			}
			b.WriteByte('\n')
		}
	}
	for _, d := range e.Deletes {
		fmt.Fprintf(&b, "delete %d %d %x %v\n", d.Database, d.Shard, d.Series, d.Range)
	}
	return b.String()
}

// segments returns the paths of the segment files in "w".
func segments(fs *vfstest.FS) []string {
	var out []string
	names, _ := fs.List("w")
	for _, n := range names {
		if strings.HasSuffix(n, segmentSuffix) {
			out = append(out, path.Join("w", n))
		}
	}
	return out
}

func put(t testing.TB, fs *vfstest.FS, name string, data []byte) {
	t.Helper()
	if err := fs.Put(name, data); err != nil {
		t.Fatal(err)
	}
}

// stride is how far tests of every byte go at once.
func stride() int {
	if testing.Short() {
		return 7
	}
	return 1
}

// errShort stands for writes that stop in the middle, out of space.
var errShort = errors.New("short write")

func shortWrite(op vfstest.Op) error {
	return &vfstest.ShortWrite{Bytes: op.Size / 2, Err: syscall.ENOSPC}
}

// open opens a log in "w" of fs and replays it; the texts of its entries are
// returned by sequence.
func open(t testing.TB, opt Options) (*Log, map[uint64]string) {
	t.Helper()
	l, err := Open("w", opt)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint64]string{}
	last := uint64(0)
	if err := l.Replay(func(e *Entry) error {
		if e.Sequence <= last {
			t.Errorf("sequence %d after %d", e.Sequence, last)
		}
		last = e.Sequence
		got[e.Sequence] = text(e)
		return nil
	}); err != nil {
		l.Close()
		t.Fatal(err)
	}
	return l, got
}

// mustAppend appends and returns the entry's text.
func mustAppend(t testing.TB, l *Log, e *Entry) string {
	t.Helper()
	if err := l.Append(e); err != nil {
		t.Fatal(err)
	}
	return text(e)
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkGoroutines fails when goroutines of the package are left over.
func checkGoroutines(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		b := make([]byte, 1<<20)
		stacks := string(b[:runtime.Stack(b, true)])
		n := strings.Count(stacks, "wal.(*Log).")
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines left:\n%s", stacks)
		}
	}
}

// note is a small entry: one point with a text of n bytes, by which it is known.
func note(s *column.Series, shard uint64, n int, mark string) *Entry {
	body := []byte(mark + strings.Repeat(".", max(0, n-len(mark))))
	return &Entry{Writes: []Write{{
		Database: 1, Shard: shard,
		Rows:    []column.Row{{Series: s, Layout: noteLayout, Time: 1000}},
		Values:  []uint64{column.StringWord(0, len(body))},
		Strings: body,
	}}}
}

var noteLayout = &column.Layout{Measurement: "note", Fields: []column.Field{{Key: "text", Type: model.String}}}

func testSeries(id uint32) *column.Series {
	s := column.NewSeries(fmt.Sprintf("note,n=%d", id))
	s.SetID(model.SeriesID(id))
	return s
}
