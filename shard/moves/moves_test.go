package moves

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/proc"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
)

var update = flag.Bool("update", false, "write golden files of formats that have none")

// pairsOf makes pairs of a map; the sources of a target ascend.
func pairsOf(t testing.TB, m map[model.SeriesID]model.SeriesID) *Pairs {
	t.Helper()
	sources := slices.SortedFunc(maps.Keys(m), func(a, b model.SeriesID) int {
		if m[a] != m[b] {
			return int(m[a]) - int(m[b])
		}
		return int(a) - int(b)
	})
	var b Builder
	for _, from := range sources {
		b.Add(from, m[from])
	}
	p, err := b.Pairs()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// randomPairs returns pairs among ids below n: runs, several sources of a target, cycles.
func randomPairs(r *rand.Rand, n int) map[model.SeriesID]model.SeriesID {
	m := map[model.SeriesID]model.SeriesID{}
	for range 1 + r.IntN(4) {
		from, to, step := 1+r.IntN(n), 1+r.IntN(n), r.IntN(2)
		for k := range 1 + r.IntN(6) {
			a, b := model.SeriesID(from+k), model.SeriesID(to+step*k)
			if a != b && int(a) < n && int(b) < n {
				m[a] = b
			}
		}
	}
	return m
}

func (p *Pairs) text() string {
	var b strings.Builder
	for i := range p.runs {
		r := &p.runs[i]
		for k := range r.n {
			fmt.Fprintf(&b, "%d>%d ", r.from+k, r.to+r.step*k)
		}
	}
	return b.String()
}

// TestPairs compares pairs with a map, also after they were written and read.
func TestPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for range 2000 {
		n := 2 + r.IntN(40)
		want := randomPairs(r, n)
		p := pairsOf(t, want)
		d := binio.NewDecoder(appendPairs(nil, p))
		again := decodePairs(&d)
		if d.Err() != nil || d.Len() > 0 || again.text() != p.text() {
			t.Fatalf("%s read as %s: %v", p.text(), again.text(), d.Err())
		}
		half := roaring.New()
		for id := range uint32(n) {
			if r.IntN(2) == 0 {
				half.Add(id)
			}
		}
		for _, c := range []struct {
			p    *Pairs
			want map[model.SeriesID]model.SeriesID
		}{{again, want}, {again.Only(half), mapOnly(want, half)}} {
			got := map[model.SeriesID]model.SeriesID{}
			last := model.SeriesID(0)
			if err := c.p.All(func(from, to model.SeriesID) error {
				if from <= last {
					return errors.New("sources do not ascend")
				}
				got[from], last = to, from
				return nil
			}); err != nil || !maps.Equal(got, c.want) || c.p.Len() != len(c.want) {
				t.Fatalf("pairs %v, want %v: %v", got, c.want, err)
			}
			for id := model.SeriesID(0); int(id) <= n; id++ {
				to, ok := c.p.To(id)
				if want, has := c.want[id]; ok != has || to != want {
					t.Fatalf("%d to %d of %s", id, to, c.p.text())
				}
				var from []model.SeriesID
				c.p.From(id, func(id model.SeriesID) bool { from = append(from, id); return true })
				if n := 0; len(from) > 0 && (c.p.From(id, func(model.SeriesID) bool { n++; return n < len(from) }) || n != len(from)) {
					t.Fatalf("%d of %d sources of %d before the end", n, len(from), id)
				}
				var sources []model.SeriesID
				for a, b := range c.want {
					if b == id {
						sources = append(sources, a)
					}
				}
				slices.Sort(sources)
				if !slices.Equal(from, sources) || c.p.Targets().Contains(uint32(id)) != (len(from) > 0) {
					t.Fatalf("from %v to %d of %s", from, id, c.p.text())
				}
			}
		}
	}
}

func mapOnly(m map[model.SeriesID]model.SeriesID, set *roaring.Bitmap) map[model.SeriesID]model.SeriesID {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(from, _ model.SeriesID) bool { return !set.Contains(uint32(from)) })
	return out
}

// TestPairsRefused has pairs that no move makes.
func TestPairsRefused(t *testing.T) {
	for what, pairs := range map[string][][2]model.SeriesID{
		"a source twice":         {{1, 5}, {1, 6}},
		"a source twice in runs": {{1, 5}, {2, 6}, {3, 7}, {2, 9}},
		"itself":                 {{7, 7}},
		"itself in a run":        {{5, 6}, {6, 6}},
		"targets that descend":   {{1, 6}, {9, 5}},
		"no source":              {{0, 5}},
		"no target":              {{5, 0}},
	} {
		var b Builder
		for _, p := range pairs {
			b.Add(p[0], p[1])
		}
		if p, err := b.Pairs(); err == nil {
			t.Errorf("%s: %s", what, p.text())
		}
	}
	var b Builder
	b.Add(math.MaxUint32-1, 7)
	b.Add(math.MaxUint32, 8)
	p, err := b.Pairs()
	if err != nil || p.Len() != 2 {
		t.Fatalf("the last series: %v", err)
	}
	d := binio.NewDecoder(appendPairs(nil, p))
	if again := decodePairs(&d); d.Err() != nil || again.text() != p.text() {
		t.Errorf("the last series: %v", d.Err())
	}
}

// TestPlaces compares a list with rows that are moved one by one: which part has the rows
// of a series, under which series and field, and in which order; what a tombstone hides;
// what the series are called when files are repaired.
func TestPlaces(t *testing.T) {
	type row struct {
		part  int
		id    model.SeriesID
		field string
	}
	r := rand.New(rand.NewPCG(testseed.Of(t), 2))
	const n, measurement = 12, "m"
	for range 2000 {
		rows := map[model.SeriesID][]row{} // present rows of each series, older first
		fields := map[row]string{}
		var l *List
		var next []int
		var ends []uint64 // of the parts
		count, sequence := 0, uint64(10)
		for range 1 + r.IntN(6) {
			for range r.IntN(3) { // parts between two moves
				part := len(next)
				next, ends = append(next, count), append(ends, sequence)
				for id := model.SeriesID(1); id < n; id++ {
					if r.IntN(2) == 0 {
						x := row{part, id, "f"}
						rows[id] = append(rows[id], x)
						fields[x] = "f"
					}
				}
				sequence++
			}
			sequence++
			count++
			if r.IntN(5) == 0 {
				to := fmt.Sprint("g", count)
				for x, name := range fields {
					if name == "f" {
						fields[x] = to
					}
				}
				l = l.With(&Move{Sequence: sequence, Change: model.Change{Measurement: measurement, To: measurement, RenameField: model.Rename{From: "f", To: to}}, Pairs: pairsOf(t, nil)})
				continue
			}
			m := randomPairs(r, n)
			l = l.With(&Move{Sequence: sequence, Change: model.Change{Measurement: measurement, To: measurement}, Pairs: pairsOf(t, m)})
			moved := maps.Clone(rows)
			for from := range m {
				delete(moved, from)
			}
			for _, from := range slices.Sorted(maps.Keys(m)) {
				moved[m[from]] = append(slices.Clone(moved[m[from]]), rows[from]...)
			}
			rows = moved
		}
		for i := range next {
			if next[i] = min(next[i], l.Len()); next[i] != l.After(ends[i]) {
				t.Fatalf("part %d, which ends at %d, is concerned by the moves from %d on, not %d", i, ends[i], next[i], l.After(ends[i]))
			}
		}
		checkWithout(t, r, l, n, ends)
		if again := l.With(l.moves[0]); again != l {
			t.Fatal("a move came twice")
		}
		for id := model.SeriesID(1); id < n; id++ {
			var got, want []string
			d := l.Door(ends...)
			places(d, len(ends), id, func(at Place) bool {
				name := at.Renames.Current("f")
				if at.Renames.Original(name) != "f" {
					t.Fatalf("%q is %q", name, at.Renames.Original(name))
				}
				if slices.Contains(rows[id], row{at.Part, at.ID, "f"}) {
					got = append(got, fmt.Sprint(at.Part, at.ID, name))
				}
				if set := d.Original(at.Part, roaring.BitmapOf(uint32(id)), math.MaxUint64); !set.Contains(uint32(at.ID)) {
					t.Fatalf("%d of %v is not %d", at.ID, set, id)
				}
				series := d.Name(at.Part, at.ID)
				if now := series.At(math.MaxUint64); now != id {
					t.Fatalf("%d is %d, not %d", at.ID, now, id)
				}
				last := model.SeriesID(0)
				f, err := d.Present(at.Part, at.ID, measurement, []column.Field{{Key: "f"}}, func(id model.SeriesID, _ string) error { last = id; return nil })
				if err != nil || last != id {
					t.Fatalf("%d is repaired as %d, not %d", at.ID, last, id)
				}
				if len(f) != 1 || f[0].Key != name {
					t.Fatalf("fields %v, want %s", f, name)
				}
				return true
			})
			most := 1 + r.IntN(4)
			calls := 0
			places(d, len(ends), id, func(Place) bool { calls++; return calls < most })
			if calls > most {
				t.Fatalf("%d places after the end at %d", calls, most)
			}
			for _, x := range rows[id] {
				want = append(want, fmt.Sprint(x.part, x.id, fields[x]))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("series %d is at %v, want %v", id, got, want)
			}
		}
	}
}

// checkWithout takes series away from a list, with those that they are connected with: the
// places of all others stay. n is above the ids, ends are the sequences of the parts.
func checkWithout(t *testing.T, r *rand.Rand, l *List, n int, ends []uint64) {
	text := func(l *List, id model.SeriesID) (out []string) {
		places(l.Door(ends...), len(ends), id, func(at Place) bool {
			out = append(out, fmt.Sprint(at))
			return true
		})
		return out
	}
	until := r.IntN(l.Len() + 1)
	sequence := uint64(0)
	if until > 0 {
		sequence = l.moves[until-1].Sequence
	}
	seen, taken, d := roaring.New(), roaring.New(), l.Door(0).Until(sequence)
	for id := model.SeriesID(1); int(id) < n; id++ {
		together := d.Connected(nil, id, seen)
		for _, id := range together {
			if !seen.Contains(uint32(id)) || taken.Contains(uint32(id)) {
				t.Fatalf("series %d comes twice", id)
			}
		}
		if r.IntN(2) == 0 {
			for _, id := range together {
				taken.Add(uint32(id))
			}
		}
	}
	rest := l.Without(taken, sequence, false)
	for i, m := range rest.All() {
		if m.Sequence <= sequence && m.Pairs.involved.Intersects(taken) {
			t.Fatalf("move %d still has series that were taken: %s", i, m.Pairs.text())
		}
		if m.Sequence <= sequence && m.Pairs.Len() == 0 && !m.Change.Fields() {
			t.Fatalf("move %d is left without pairs", i)
		}
	}
	for id := model.SeriesID(1); int(id) < n && until == l.Len(); id++ {
		if got, want := text(rest, id), text(l, id); !taken.Contains(uint32(id)) && !slices.Equal(got, want) {
			t.Fatalf("series %d is at %v without %v, was at %v", id, got, taken, want)
		}
	}
	if whole := l.Without(taken, sequence, true); whole.Len() != l.Len()-until || whole.Len() > 0 && whole.moves[0] != l.moves[until] {
		t.Fatalf("%d moves of %d, when %d are made", whole.Len(), l.Len(), until)
	}
}

// TestName follows a series through moves, and finds out which tombstones name it.
func TestName(t *testing.T) {
	l := NewList([]*Move{
		{Sequence: 30, Pairs: pairsOf(t, map[model.SeriesID]model.SeriesID{2: 3})},
		{Sequence: 20, Pairs: pairsOf(t, map[model.SeriesID]model.SeriesID{1: 2})},
	})
	d := l.Door(5)
	name := d.Name(0, 1)
	for _, c := range [][2]uint64{{10, 1}, {20, 1}, {21, 2}, {30, 2}, {31, 3}} {
		if got := name.At(c[0]); uint64(got) != c[1] {
			t.Errorf("at %d it is %d, want %d", c[0], got, c[1])
		}
	}
	for sequence, want := range map[uint64]int{19: 0, 20: 1, 29: 1, 30: 2} {
		if got := l.After(sequence); got != want {
			t.Errorf("after %d: %d, want %d", sequence, got, want)
		}
	}
	for sequence, want := range map[uint64]model.SeriesID{20: 3, 21: 3, 30: 3, 31: 1} {
		set := d.Original(0, roaring.BitmapOf(3), sequence)
		if !set.Contains(uint32(want)) || set.Contains(2) != (sequence > 30) {
			t.Errorf("series 3 as of %d was %v", sequence, set)
		}
	}
	if !d.Moved(3) || d.Moved(4) || d.Until(20).Involved().Contains(3) || !d.Involved().Contains(3) || l.Bytes() == 0 {
		t.Error("involved are the wrong series")
	}
	if !d.MovedAny(roaring.BitmapOf(3, 9)) || d.MovedAny(roaring.BitmapOf(4, 9)) {
		t.Error("involved are the wrong sets")
	}
}

// TestClosedDoor asks where no move waits: series and fields are what the parts say.
func TestClosedDoor(t *testing.T) {
	l := NewList([]*Move{{Sequence: 20, Pairs: pairsOf(t, map[model.SeriesID]model.SeriesID{1: 2})}})
	var none *List
	for what, d := range map[string]*Door{"no moves": none.Door(5), "no parts": l.Door(), "newer parts": l.Door(20, 30)} {
		if d != nil || d.Until(40) != nil {
			t.Errorf("%s: the door is open", what)
		}
		set, fields := roaring.BitmapOf(1), []column.Field{{Key: "f"}}
		if d.Moved(1) || d.MovedAny(set) || d.Renames(0, "m") != nil || d.Name(0, 1) != (Name{id: 1}) || !d.Original(0, set, 50).Equals(set) {
			t.Errorf("%s: a closed door has moved series", what)
		}
		var keys []string
		got, err := d.Present(0, 1, "m", fields, func(id model.SeriesID, key string) error {
			keys = append(keys, fmt.Sprint(id, key))
			return nil
		})
		if err != nil || !slices.Equal(got, fields) || !slices.Equal(keys, []string{"1m"}) {
			t.Errorf("%s: %v, %v, %v", what, got, keys, err)
		}
	}
	if d := l.Door(5, 30).Until(10); d.Moved(1) {
		t.Error("a merge makes a move that is not its own")
	}
	if d := l.Door(5, 30); !d.Moved(1) {
		t.Error("the door to an older part is closed")
	}
}

func example(t testing.TB) *Move {
	return &Move{Sequence: 9, Pairs: pairsOf(t, map[model.SeriesID]model.SeriesID{1: 100, 2: 101, 3: 102, 10: 103, 11: 103, 300: 7}), Change: model.Change{
		Measurement: "cpu", To: "cpus", Set: model.Tags{{Key: "dc", Value: "fra"}, {Key: "rack", Value: "r 1"}}, Drop: []string{"host", "os"},
		RenameTag: model.Rename{From: "a", To: "b"}, RenameField: model.Rename{From: "x", To: "y"},
	}}
}

// TestMoveGolden holds the format still.
func TestMoveGolden(t *testing.T) {
	const name = "testdata/move1.golden"
	got := example(t).Append(nil)
	if _, err := os.Stat(name); *update && err != nil {
		if err := os.WriteFile(name, []byte(hex.Dump(got)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if hex.Dump(got) != string(want) {
		t.Errorf("bytes changed:\n%s\nwant\n%s", hex.Dump(got), want)
	}
	m, err := Decode(9, got)
	if err != nil || m.Sequence != 9 || !bytes.Equal(m.Append(nil), got) {
		t.Fatalf("%+v, %v", m, err)
	}
	for i := range got {
		if m, err := Decode(9, got[:i]); !errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("cut at %d: %+v, %v", i, m, err)
		}
	}
	if _, err := Decode(9, append(got, 0)); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("a byte behind the end: %v", err)
	}
}

// FuzzMove feeds the reader of moves: what it reads it writes as it was read, and it
// takes no memory out of proportion.
func FuzzMove(f *testing.F) {
	f.Add(example(f).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(1, b)
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if n := m.Pairs.Bytes(); n > int64(200*len(b)+1<<16) {
			t.Fatalf("%d bytes of memory for %d", n, len(b))
		}
		again, err := Decode(1, m.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), m.Append(nil)) {
			t.Fatalf("read again: %v", err)
		}
	})
}

// TestBlocks compares what blocks find with a look at all moves, in lists that grow and lose
// moves at both ends.
func TestBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 4))
	var l *List
	for sequence := uint64(1); sequence < 200; sequence++ {
		l = l.With(&Move{Sequence: sequence, Pairs: pairsOf(t, randomPairs(r, 30))})
		switch r.IntN(20) {
		case 0:
			l = l.From(r.IntN(l.Len()))
		case 1:
			l = l.Without(roaring.BitmapOf(1, 2, 3, 4, 5), sequence-uint64(r.IntN(20)), false)
		}
		id := model.SeriesID(r.IntN(32))
		lo := r.IntN(l.Len() + 1)
		hi := lo + r.IntN(l.Len()+1-lo)
		involves := func(m *Move) bool { return m.Pairs.involved.Contains(uint32(id)) }
		first, last := hi, lo
		if i := slices.IndexFunc(l.moves[lo:hi], involves); i >= 0 {
			first = lo + i
		}
		for i := hi; i > lo && last == lo; i-- {
			if involves(l.moves[i-1]) {
				last = i
			}
		}
		if a, b := l.blocks.after(id, lo, hi), l.blocks.before(id, lo, hi); a != first || b != last {
			t.Fatalf("%d moves, series %d in [%d, %d): %d and %d, want %d and %d", l.Len(), id, lo, hi, a, b, first, last)
		}
		all := roaring.New()
		for _, m := range l.moves {
			all.Or(m.Pairs.involved)
		}
		if !all.Equals(l.involved) {
			t.Fatalf("%d moves involve %v, want %v", l.Len(), l.involved, all)
		}
	}
}

// chain returns so many moves of a measurement's series, each of which takes all of them on.
func chain(moves, series int) *List {
	var list []*Move
	for i := range moves {
		var b Builder
		for k := range series {
			b.Add(model.SeriesID(1+i*series+k), model.SeriesID(1+(i+1)*series+k))
		}
		p, err := b.Pairs()
		if err != nil {
			panic(err)
		}
		list = append(list, &Move{Sequence: uint64(i + 1), Change: model.Change{Measurement: "m", To: "m"}, Pairs: p})
	}
	return NewList(list)
}

// places calls fn with the places of a series of m behind a door to so many parts.
func places(d *Door, parts int, id model.SeriesID, fn func(Place) bool) {
	if d != nil {
		d.Places(id, "m", fn)
		return
	}
	for part := 0; part < parts && fn(Place{Part: part, ID: id}); part++ {
	}
}

// countPlaces returns the number of places of all series behind a chain, with a part at each
// end.
func countPlaces(l *List, moves, series int) (n int) {
	d := l.Door(0, uint64(moves))
	for k := range series {
		d.Places(model.SeriesID(1+moves*series+k), "m", func(Place) bool { n++; return true })
	}
	return n
}

// TestPlacesAreLinear compares the CPU time of places behind chains of moves: eight times the
// moves take eight times as long, and not sixty-four times.
func TestPlacesAreLinear(t *testing.T) {
	const series, few, many = 200, 64, 512
	short, long := chain(few, series), chain(many, series)
	took := func(l *List, moves int) time.Duration {
		least := time.Duration(math.MaxInt64)
		for range 5 {
			start := proc.CPUTime()
			if n := countPlaces(l, moves, series); n != (moves+2)*series {
				t.Fatalf("%d places", n)
			}
			least = min(least, proc.CPUTime()-start)
		}
		return max(least, time.Microsecond)
	}
	took(short, few)
	if a, b := took(short, few), took(long, many); b > 30*a {
		t.Errorf("%d moves take %v of CPU, %d take %v", few, a, many, b)
	}
}

// BenchmarkPlaces finds the rows of 2,000 series behind a chain of moves.
func BenchmarkPlaces(b *testing.B) {
	for _, moves := range []int{16, 32, 64, 120, 250, 1000} {
		l := chain(moves, 2000)
		b.Run(fmt.Sprint("moves=", moves), func(b *testing.B) {
			for b.Loop() {
				countPlaces(l, moves, 2000)
			}
		})
	}
}
