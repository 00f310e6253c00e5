// Package entrytest makes entries for tests, and renders them to be compared.
package entrytest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/wal/entry"
)

// World hands out series and layouts as the parser and the store do.
type World struct {
	rng     *rand.Rand
	series  map[uint32][]*point.Series
	layouts []*point.Layout
}

// Rand returns the generator that the world draws from.
func (w *World) Rand() *rand.Rand { return w.rng }

// NewWorld returns a world that draws from rng.
func NewWorld(rng *rand.Rand) *World {
	w := &World{rng: rng, series: map[uint32][]*point.Series{}}
	for i := range 12 {
		l := &point.Layout{Measurement: fmt.Sprintf("m%d", i)}
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

func (w *World) pick(db uint32) *point.Series {
	list := w.series[db]
	if len(list) == 0 || w.rng.IntN(4) == 0 && len(list) < 300 {
		id := uint32(len(list) + 1)
		if w.rng.IntN(8) == 0 {
			id = math.MaxUint32 - uint32(len(list)) // ids need not be dense
		}
		s := point.NewSeries(fmt.Sprintf("cpu,host=h%d,db=%d,pad=%s", len(list), db, strings.Repeat("x", w.rng.IntN(60))))
		s.SetID(model.SeriesID(id))
		w.series[db] = append(list, s)
		return s
	}
	return list[w.rng.IntN(len(list))]
}

func (w *World) value(t model.FieldType, strings *[]byte) uint64 {
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

// bytes makes n random bytes.
func (w *World) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(w.rng.Uint32())
	}
	return b
}

// Entry makes a random entry of up to rows rows per write.
func (w *World) Entry(rows int) *entry.Entry {
	e := &entry.Entry{}
	if w.rng.IntN(8) == 0 {
		e.Command = w.bytes(1 + w.rng.IntN(20))
		return e
	}
	if w.rng.IntN(8) == 0 {
		e.Move = &entry.Move{Database: uint32(w.rng.IntN(3))}
		for range w.rng.IntN(4) {
			x := entry.MoveChange{Change: w.bytes(1 + w.rng.IntN(50))}
			for range w.rng.IntN(4) {
				x.Shards = append(x.Shards, entry.MovedShard{Shard: w.rng.Uint64() >> w.rng.IntN(64), Series: w.bytes(w.rng.IntN(40))})
			}
			e.Move.Changes = append(e.Move.Changes, x)
		}
		return e
	}
	if w.rng.IntN(8) == 0 {
		e.Exemplars = &entry.Exemplars{Database: uint32(w.rng.IntN(3)), List: w.bytes(w.rng.IntN(50))}
		return e
	}
	var values []uint64
	var text []byte
	for range w.rng.IntN(3) {
		wr := entry.Write{Database: uint32(1 + w.rng.IntN(3)), Shard: w.rng.Uint64() >> w.rng.IntN(64)}
		time := int64(w.rng.Uint64())
		step := int64(1e10)
		for range w.rng.IntN(rows + 1) {
			l := w.layouts[w.rng.IntN(len(w.layouts))]
			r := point.Row{Series: w.pick(wr.Database), Layout: l, Time: time, First: uint32(len(values))}
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
		e.Deletes = append(e.Deletes, entry.Delete{
			Database: uint32(w.rng.IntN(3)), Shard: uint64(w.rng.IntN(9)), Series: w.bytes(w.rng.IntN(40)),
			Range: model.TimeRange{Min: int64(w.rng.Uint64()), Max: int64(w.rng.Uint64())},
		})
	}
	return e
}

// Text renders all of an entry but its sequence.
func Text(e *entry.Entry) string {
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
	if len(e.Command) > 0 {
		fmt.Fprintf(&b, "command %x\n", e.Command)
	}
	if m := e.Move; m != nil {
		fmt.Fprintf(&b, "move %d\n", m.Database)
		for i := range m.Changes {
			fmt.Fprintf(&b, "  change %x\n", m.Changes[i].Change)
			for _, s := range m.Changes[i].Shards {
				fmt.Fprintf(&b, "    shard %d %x\n", s.Shard, s.Series)
			}
		}
	}
	if x := e.Exemplars; x != nil {
		fmt.Fprintf(&b, "exemplars %d %x\n", x.Database, x.List)
	}
	for _, d := range e.Deletes {
		fmt.Fprintf(&b, "delete %d %d %x %v\n", d.Database, d.Shard, d.Series, d.Range)
	}
	return b.String()
}

// Note is a small entry: one point with a text of n bytes, by which it is known.
func Note(s *point.Series, shard uint64, n int, mark string) *entry.Entry {
	body := []byte(mark + strings.Repeat(".", max(0, n-len(mark))))
	return &entry.Entry{Writes: []entry.Write{{
		Database: 1, Shard: shard,
		Rows:    []point.Row{{Series: s, Layout: noteLayout, Time: 1000}},
		Values:  []uint64{column.StringWord(0, len(body))},
		Strings: body,
	}}}
}

var noteLayout = &point.Layout{Measurement: "note", Fields: []column.Field{{Key: "text", Type: model.String}}}

// Series returns a series of its own with an id.
func Series(id uint32) *point.Series {
	s := point.NewSeries(fmt.Sprintf("note,n=%d", id))
	s.SetID(model.SeriesID(id))
	return s
}

// Golden returns the entries of the golden files: a row of each type, a run
// of rows, a delete, a command, a move, and exemplars.
func Golden() []*entry.Entry {
	layout := &point.Layout{Measurement: "cpu", Fields: []column.Field{
		{Key: "f", Type: model.Float},
		{Key: "i", Type: model.Integer},
		{Key: "u", Type: model.Unsigned},
		{Key: "s", Type: model.String},
		{Key: "b", Type: model.Boolean},
	}}
	one := &point.Layout{Measurement: "mem", Fields: []column.Field{{Key: "used", Type: model.Integer}}}
	var series []*point.Series
	for id := range 3 {
		s := point.NewSeries(fmt.Sprintf("cpu,host=%c", 'a'+id))
		s.SetID(model.SeriesID(id + 1))
		series = append(series, s)
	}
	minus := int64(-3)
	values := []uint64{math.Float64bits(1.5), uint64(minus), 7, column.StringWord(0, 2), 1, 10, 11, 12}
	const t0 = 1_000_000_000
	return []*entry.Entry{
		{Writes: []entry.Write{{Database: 1, Shard: 2, Values: values, Strings: []byte("ok"), Rows: []point.Row{
			{Series: series[0], Layout: layout, Time: t0, First: 0},
			{Series: series[0], Layout: one, Time: t0, First: 5},
			{Series: series[1], Layout: one, Time: t0, First: 6},
			{Series: series[2], Layout: one, Time: 2 * t0, First: 7},
		}}}},
		{Deletes: []entry.Delete{{Database: 1, Shard: 2, Series: []byte{0x3a, 0x30}, Range: model.TimeRange{Min: 0, Max: t0}}}},
		{Command: []byte("DropShard {\"ID\":2}")},
		{Move: &entry.Move{Database: 1, Changes: []entry.MoveChange{
			{Change: []byte("cpu to cpus"), Shards: []entry.MovedShard{{Shard: 2, Series: []byte{0x3a, 0x30}}, {Shard: 3}}},
			{Change: []byte("f to g"), Shards: []entry.MovedShard{{Shard: 3}}},
		}}},
		{Exemplars: &entry.Exemplars{Database: 1, List: []byte("trace")}},
	}
}

// Scrape returns the entry of a scrape: rows of 10 fields, one per series, at
// the same time.
func Scrape(kind string, rows int, at int64) *entry.Entry {
	rng := rand.New(rand.NewPCG(1, 2))
	l := &point.Layout{Measurement: "cpu"}
	t := model.Float
	if kind == "tsbs" || kind == "mem" {
		t = model.Integer
	}
	for i := range 10 {
		l.Fields = append(l.Fields, column.Field{Key: fmt.Sprintf("usage_%d", i), Type: t})
	}
	w := entry.Write{Database: 1, Shard: 1}
	for r := range rows {
		s := point.NewSeries(Series(uint32(r+1)).Key() + ",region=eu-central-1,datacenter=eu-central-1a,rack=6,os=Ubuntu15.10,arch=x86,team=SF,service=19,service_version=1,service_environment=test")
		s.SetID(model.SeriesID(r + 1))
		w.Rows = append(w.Rows, point.Row{Series: s, Layout: l, Time: at, First: uint32(len(w.Values))})
		for range l.Fields {
			var v uint64
			switch kind {
			case "tsbs":
				v = uint64(rng.IntN(101))
			case "mem":
				v = uint64(rng.Int64N(100_000_000_000))
			case "dec2":
				v = math.Float64bits(float64(rng.IntN(10000)) / 100)
			case "tele":
				v = math.Float64bits(rng.Float64() * 100)
			}
			w.Values = append(w.Values, v)
		}
	}
	return &entry.Entry{Writes: []entry.Write{w}}
}
