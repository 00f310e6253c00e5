package move

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
)

// Copy is a shard of the target of a downsample.
type Copy struct {
	Downsample meta.Downsample
	Gone       bool              // the downsample was dropped
	Lost       []model.TimeRange // whose rows nothing can compute again
}

// Copies returns the shards that have rows which nothing can compute again.
func Copies(db *meta.Database) map[uint64]Copy {
	out := map[uint64]Copy{}
	if db == nil {
		return out
	}
	for t, gone := range db.Makers() {
		for _, g := range db.RetentionPolicy(t.Into).ShardGroups {
			lost := []model.TimeRange{g.TimeRange()}
			if !gone {
				lost = t.Lost(db, g.TimeRange())
			}
			if len(lost) > 0 {
				for _, sh := range g.Shards {
					out[sh.ID] = Copy{*t, gone, lost}
				}
			}
		}
	}
	return out
}

// Include reports whether what was folded in had includes what is to be folded in now.
func Include(had, now map[uint64]Copy) bool {
	for id, c := range now {
		old, ok := had[id]
		if !ok || old.Downsample.ID != c.Downsample.ID {
			return false
		}
		for _, r := range c.Lost {
			if !slices.ContainsFunc(old.Lost, func(o model.TimeRange) bool { return o.Min <= r.Min && r.Max <= o.Max }) {
				return false
			}
		}
	}
	return true
}

// fold works out the rows of series that become one where the rows of all of them are the only
// copies of aggregates: those of equal times are folded, field by field. Rows of one series
// alone, and fields that are no aggregates, are left out. They need only be moved.
func (r *Request) fold(ctx context.Context, copies map[uint64]Copy, to *stage) (err error) {
	defer vfs.CatchFault(&err)()
	for i := range r.Shards {
		sh := &r.Shards[i]
		c, ok := copies[sh.View.ID()]
		if !ok || sh.moved == nil || sh.moved.IsEmpty() {
			continue
		}
		f := folder{Request: r, sh: sh, target: &c, to: to}
		if err := f.shard(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Of a folder.
const (
	foldedCells = 1 << 19 // values that are folded at once
	foldedRows  = 1 << 13 // rows at most
	cellBytes   = 9
	rowBytes    = 64
	textBytes   = 16
	textRows    = 1 << 8 // rows at most if there are texts, which may be long
)

// folder folds the rows of a shard.
type folder struct {
	*Request
	sh      *Shard
	target  *Copy
	to      *stage
	staying *roaring.Bitmap
	rows    *point.Builder

	columns    []foldedColumn
	names      []string         // of columns
	definition *meta.Definition // of the latest row

	// What is folded at once: the earliest rows of all series that become one series.
	limit  int           // of rows
	slots  map[int64]int // by time
	times  []int64       // by slot
	values []uint64      // len(columns) of each slot; of a text its place in texts
	texts  []string      // sketches
	held   int64         // bytes of texts
	counts []uint8       // how many values were folded: 0, 1, or more
	until  int64         // rows from this time on are folded later
	place  []int         // scratch: slots of the rows at hand
}

// foldedColumn is a field of the target, an aggregate.
type foldedColumn struct {
	column.Field
	function string
	fold     func(t model.FieldType, a, b uint64) uint64 // nil: it is not folded as a number
	unite    func(a, b string) (string, error)           // nil: it is not folded as a text
	ours     bool                                        // of folder.definition
}

// shard folds the rows of all series that become one.
func (f *folder) shard(ctx context.Context) error {
	pairs := f.pairs.Only(f.sh.moved)
	f.staying = roaring.AndNot(f.sh.View.AllSeries(), f.sh.moved)
	meeting := pairs.Targets()
	if int(meeting.GetCardinality()) == pairs.Len() {
		meeting.And(f.staying)
	} else {
		several, seen := roaring.And(meeting, f.staying), roaring.New()
		_ = pairs.All(func(_, to model.SeriesID) error {
			if !seen.CheckedAdd(uint32(to)) {
				several.Add(uint32(to))
			}
			return nil
		})
		meeting = several
	}
	takes := f.target.Downsample.Takes()
	if !takes(f.Change.Measurement) && !takes(f.Change.To) {
		return nil // it has no aggregates
	}
	if f.findColumns(); len(f.columns) == 0 || meeting.IsEmpty() {
		return nil
	}
	var err error
	if f.rows, err = f.to.begin(f.sh.View.ID(), f.target); err != nil {
		return err
	}
	f.limit = min(max(foldedCells/len(f.columns), 64), foldedRows)
	if slices.ContainsFunc(f.columns, func(c foldedColumn) bool { return c.unite != nil }) {
		f.limit = min(f.limit, textRows)
	}
	if err := f.Charge(int64(f.limit) * int64(len(f.columns)*cellBytes+rowBytes)); err != nil {
		return err
	}
	bounds, _ := f.sh.View.TimeBounds(nil)
	for it := meeting.Iterator(); it.HasNext(); {
		to := model.SeriesID(it.Next())
		sources := roaring.New()
		pairs.From(to, func(from model.SeriesID) bool { sources.Add(uint32(from)); return true })
		for _, r := range f.target.Lost {
			r = model.TimeRange{Min: max(r.Min, bounds.Min), Max: min(r.Max, bounds.Max)}
			if r.Empty() {
				continue
			}
			if err := f.series(ctx, to, sources, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// findColumns finds the fields that are aggregates.
func (f *folder) findColumns() {
	for _, name := range slices.Compact([]string{f.Change.Measurement, f.Change.To}) {
		for _, field := range f.sh.View.Fields(name) {
			function := functionOf(&f.target.Downsample, field.Key)
			if function == "" || slices.Contains(f.names, field.Key) {
				continue
			}
			f.columns = append(f.columns, foldedColumn{Field: field, function: function, fold: foldOf(function, field.Type), unite: uniteOf(function, field.Type)})
			f.names = append(f.names, field.Key)
		}
	}
}

// series folds the rows that become those of one series.
func (f *folder) series(ctx context.Context, to model.SeriesID, sources *roaring.Bitmap, r model.TimeRange) error {
	named := false
	for {
		f.slots, f.times, f.values, f.counts, f.until = map[int64]int{}, f.times[:0], f.values[:0], f.counts[:0], math.MaxInt64
		if err := f.hold(-f.held); err != nil {
			return err
		}
		f.texts = nil
		if err := f.scan(ctx, f.Change.Measurement, sources, r); err != nil {
			return err
		}
		if f.staying.Contains(uint32(to)) {
			if err := f.scan(ctx, f.Change.To, roaring.BitmapOf(uint32(to)), r); err != nil {
				return err
			}
		}
		for _, slot := range f.ordered() {
			if slices.Max(f.counts[slot*len(f.columns):(slot+1)*len(f.columns)]) < 2 {
				continue
			}
			if !named {
				key, err := f.Series.Key(to)
				if err != nil {
					return err
				}
				_, tags := model.ParseSeriesKey(key, nil)
				_ = f.rows.Series(meta.StagedPrefix+f.Change.To, tags) // Row returns the error, too
				named = true
			}
			if err := f.row(slot); err != nil {
				return err
			}
		}
		if f.until > r.Max {
			return nil
		}
		r.Min = f.until
	}
}

// ordered returns the slots in order of time.
func (f *folder) ordered() []int {
	slots := make([]int, len(f.times))
	for i := range slots {
		slots[i] = i
	}
	slices.SortFunc(slots, func(a, b int) int { return cmp.Compare(f.times[a], f.times[b]) })
	return slots
}

// row passes a folded row on, if values meet in it that are aggregates of its time.
func (f *folder) row(slot int) error {
	at := f.times[slot]
	if d := f.target.Downsample.At(at); d != f.definition {
		f.definition = d
		for i := range f.columns {
			f.columns[i].ours = slices.Contains(d.Columns(), f.columns[i].function)
		}
	}
	some := false
	for i := range f.columns {
		c, cell := &f.columns[i], slot*len(f.columns)+i
		if f.counts[cell] < 2 || !c.ours {
			continue
		}
		if c.fold == nil && c.unite == nil {
			return f.refused(c)
		}
		some = true
		switch word := f.values[cell]; c.Type {
		case model.Float:
			v := math.Float64frombits(word)
			if math.IsInf(v, 0) || math.IsNaN(v) {
				return fmt.Errorf("series of %q would become one in policy %s, and their %s at %s would be more than a float can hold",
					f.Change.Measurement, f.target.Downsample.Into, c.Key, time.Unix(0, at).UTC().Format(time.RFC3339Nano))
			}
			f.rows.Float(c.Key, v)
		case model.Integer:
			f.rows.Integer(c.Key, int64(word))
		case model.Unsigned:
			f.rows.Unsigned(c.Key, word)
		case model.Boolean:
			f.rows.Boolean(c.Key, word != 0)
		case model.String:
			f.rows.String(c.Key, f.texts[word])
		}
	}
	if !some {
		return nil
	}
	if err := f.rows.Row(at); err != nil {
		return fmt.Errorf("fold rows of %q in policy %s: %w", f.Change.To, f.target.Downsample.Into, err)
	}
	return f.to.added()
}

// refused returns why values of a field that meet keep the move from being made.
func (f *folder) refused(c *foldedColumn) error {
	t := &f.target.Downsample
	var drop []string
	for _, column := range t.Columns() {
		if meta.Fold(column) == "" || foldOf(column, model.Float) == nil && uniteOf(column, model.String) == nil {
			drop = append(drop, column)
		}
	}
	why := fmt.Errorf("series of %q would become one in policy %s, which has %s of rows that have expired. Values of %s cannot be folded", f.Change.Measurement, t.Into, c.Key, c.function)
	if foldOf(c.function, model.Float) != nil || uniteOf(c.function, model.String) != nil {
		return fmt.Errorf("%w, because they are of type %s", why, c.Type)
	}
	first := ""
	if f.target.Gone {
		first = " delete them, or create the downsample again that made them, and then"
	}
	return fmt.Errorf("%w:%s leave them out with ALTER DOWNSAMPLE ON %s FROM %s INTO %s DROP %s", why, first, f.Database, t.From, t.Into, strings.Join(drop, ", "))
}

// scan folds rows of some series into those that were scanned before.
func (f *folder) scan(ctx context.Context, measurement string, set *roaring.Bitmap, r model.TimeRange) error {
	held := int64(0)
	hold := func(bytes int64) error {
		bytes = max(bytes, -held) // what was refused is given back, too
		err := f.Charge(bytes)
		if err == nil {
			held += bytes
		}
		return err
	}
	cur, err := f.sh.View.Scan(ctx, scan.Request{Measurement: measurement, Series: set, Fields: f.names, Range: r, Charge: hold, Hold: hold})
	if err != nil {
		return err
	}
	defer cur.Close()
	for {
		if _, ok := cur.NextSeries(); !ok {
			return cur.Err()
		}
		for chunk := cur.NextChunk(); chunk != nil && chunk.Min() < f.until; chunk = cur.NextChunk() {
			if err := f.add(chunk); err != nil {
				return err
			}
		}
		if f.until <= r.Max {
			cur.Narrow(model.TimeRange{Min: r.Min, Max: f.until - 1})
		}
	}
}

// add folds the rows of a chunk.
func (f *folder) add(chunk scan.Chunk) error {
	times, err := chunk.Times()
	if err != nil {
		return err
	}
	for lo := 0; lo < len(times) && times[lo] < f.until; {
		hi := min(lo+f.limit/2, len(times))
		f.shrink(hi - lo)
		f.place = f.place[:0]
		for _, t := range times[lo:hi] {
			if t >= f.until {
				break
			}
			f.place = append(f.place, f.slot(t))
		}
		for i := range f.columns {
			v, err := chunk.Column(i)
			if err != nil {
				return err
			}
			if err := f.addColumn(i, v, lo); err != nil {
				return err
			}
		}
		lo = hi
	}
	return nil
}

// slot returns the slot of a time, a new one if there is none.
func (f *folder) slot(t int64) int {
	slot, ok := f.slots[t]
	if !ok {
		slot = len(f.times)
		f.slots[t] = slot
		f.times = append(f.times, t)
		f.values = append(f.values, make([]uint64, len(f.columns))...)
		f.counts = append(f.counts, make([]uint8, len(f.columns))...)
	}
	return slot
}

// shrink makes room for n rows. It leaves later rows to the next pass.
func (f *folder) shrink(n int) {
	if len(f.times)+n <= f.limit {
		return
	}
	slots := f.ordered()
	keep := f.limit - n
	f.until = f.times[slots[keep]]
	for _, slot := range slots[keep:] {
		for i := range f.columns {
			if at := slot*len(f.columns) + i; f.columns[i].unite != nil && f.counts[at] > 0 {
				_ = f.hold(-int64(len(f.texts[f.values[at]])) - textBytes)
				f.texts[f.values[at]] = ""
			}
		}
	}
	old := *f
	f.slots, f.times, f.values, f.counts = map[int64]int{}, nil, nil, nil
	w := len(f.columns)
	for _, slot := range slots[:keep] {
		f.slots[old.times[slot]] = len(f.times)
		f.times = append(f.times, old.times[slot])
		f.values = append(f.values, old.values[slot*w:(slot+1)*w]...)
		f.counts = append(f.counts, old.counts[slot*w:(slot+1)*w]...)
	}
}

// addColumn folds values of a column, which begin at a row, into the slots of f.place.
func (f *folder) addColumn(i int, v *column.Vector, row int) error {
	c := &f.columns[i]
	if v.Type != c.Type {
		return nil // a field that these series do not have
	}
	for k, slot := range f.place {
		if !v.IsValid(row + k) {
			continue
		}
		at := slot*len(f.columns) + i
		if c.Type == model.String {
			if err := f.addText(c, slot, at, v.Strings[row+k]); err != nil {
				return err
			}
			continue
		}
		word := v.Word(row + k)
		switch {
		case f.counts[at] == 0:
			f.values[at] = word
		case c.fold != nil:
			f.values[at] = c.fold(c.Type, f.values[at], word)
		}
		f.counts[at] = min(f.counts[at]+1, 2)
	}
	return nil
}

// addText folds a text into a cell of a slot. Texts that are not folded are not held.
func (f *folder) addText(c *foldedColumn, slot, cell int, text string) error {
	f.counts[cell]++
	if f.counts[cell] = min(f.counts[cell], 2); c.unite == nil {
		return nil
	}
	if f.counts[cell] == 1 {
		f.values[cell] = uint64(len(f.texts))
		f.texts = append(f.texts, strings.Clone(text))
		return f.hold(int64(len(text)) + textBytes)
	}
	held := &f.texts[f.values[cell]]
	both, err := c.unite(*held, text)
	if err != nil {
		return fmt.Errorf("series of %q would become one in policy %s, and of one of them %s at %s cannot be folded: %w", f.Change.Measurement, f.target.Downsample.Into,
			c.Key, time.Unix(0, f.times[slot]).UTC().Format(time.RFC3339Nano), err)
	}
	grown := int64(len(both) - len(*held))
	*held = both
	return f.hold(grown)
}

// hold charges the bytes of texts.
func (f *folder) hold(bytes int64) error {
	err := f.Charge(bytes)
	if err == nil {
		f.held += bytes
	}
	return err
}
