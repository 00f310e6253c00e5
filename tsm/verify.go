package tsm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/tsm/stats"
)

// Verify lists so many damages, and names so many series of each.
const (
	maxDamages     = 64
	maxDamagedKeys = 16
)

// Verify reads the whole file: it recomputes the content checksum, checks all
// others, decodes every key, index entry, time and value, and compares counts,
// order, ranges, ids and statistics with what the file says of them. It continues
// after damage and returns up to maxDamages damages, joined. A damage of times or values
// names the series that cannot be read for it, up to maxDamagedKeys, and counts the others.
func (r *Reader) Verify(ctx context.Context) (err error) {
	defer vfs.CatchFault(&err)()
	sum, err := r.contentSum(ctx)
	if err != nil {
		return err
	}
	v := verifier{r: r, c: Chunk{Ctx: ctx}, info: Info{Range: model.TimeRange{Min: 1, Max: 0}}}
	v.keys.Reset(r)
	// Blocks first: their errors say where.
	s := &r.foot.sec
	for b := uint64(0); b*blockSize < s.checksums-s.keys; b++ {
		v.add(r.checkBlock(b), "")
	}
	for i := 0; i < r.Len() && len(v.damages) < maxDamages; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := v.series(i); errors.Is(err, binio.ErrCorrupt) {
			v.add(err, "")
		} else if err != nil {
			return err // what the body is in cannot be reached
		}
	}
	if len(v.damages) > 0 {
		errs := make([]error, len(v.damages))
		for i := range v.damages {
			errs[i] = v.damages[i].error()
		}
		return errors.Join(errs...)
	}
	want, got := &r.foot.info, &v.info
	if got.Chunks != want.Chunks || got.Rows != want.Rows || got.Values != want.Values || got.Range != want.Range || got.MinKey != want.MinKey || got.MaxKey != want.MaxKey {
		return binio.Corruptf(r.Path(), int64(s.footer), "tsm: footer does not match content")
	}
	if sum != want.Checksum {
		return binio.Corruptf(r.blamed(), int64(s.footer), "tsm: content checksum %016x, footer says %016x", sum, want.Checksum)
	}
	return nil
}

type verifier struct {
	r    *Reader
	info Info
	keys KeyCursor
	last string
	s    Series
	c    Chunk
	vals column.Vector

	damages []damage
}

// damage is one that was found, and the series whose chunks it is in.
type damage struct {
	at   int64 // offset in the file, or -1
	err  error
	keys []string
	more int // series beyond keys
}

// add notes a damage, of the chunks of a series if there is a key. What was found before is
// the same damage: a bad block fails every series in it, and times all that share them.
func (v *verifier) add(err error, key string) {
	if err == nil {
		return
	}
	at := int64(-1)
	var c *binio.CorruptError
	if errors.As(err, &c) {
		at = c.Offset
	}
	i := slices.IndexFunc(v.damages, func(d damage) bool { return d.at == at })
	if i < 0 {
		if len(v.damages) == maxDamages {
			return
		}
		i = len(v.damages)
		v.damages = append(v.damages, damage{at: at, err: err})
	}
	switch d := &v.damages[i]; {
	case key == "":
	case len(d.keys) == maxDamagedKeys:
		d.more++
	default:
		d.keys = append(d.keys, key)
	}
}

func (d *damage) error() error {
	var c *binio.CorruptError
	if len(d.keys) == 0 || !errors.As(d.err, &c) {
		return d.err
	}
	names := strings.Join(d.keys, " ")
	if d.more > 0 {
		names += fmt.Sprintf(" and %d more", d.more)
	}
	return binio.Corruptf(c.Path, c.Offset, "%s, in series %s", c.Reason, names)
}

func (v *verifier) series(i int) error {
	r := v.r
	key, err := v.keys.Key(i)
	if err != nil {
		return err
	}
	if string(key) <= v.last {
		return binio.Corruptf(r.Path(), int64(r.foot.sec.keys), "tsm: key of series %d is not in order", i)
	}
	v.last = string(key)
	if i == 0 {
		v.info.MinKey = v.last
	}
	v.info.MaxKey = v.last
	if err := r.Load(i, &v.s); err != nil {
		return err
	}
	o, ok, err := r.Find(v.s.ID)
	if err != nil {
		return err
	}
	if !ok || o != i {
		return binio.Corruptf(r.Path(), int64(r.foot.sec.idDir), "tsm: id %d of series %d is not found there", v.s.ID, i)
	}
	for k := range v.s.Chunks {
		if err := v.chunk(k); err != nil {
			if !errors.Is(err, binio.ErrCorrupt) {
				return err
			}
			v.add(err, v.last)
		}
	}
	rng := v.s.TimeRange()
	if v.info.Range.Empty() {
		v.info.Range = rng
	}
	v.info.Range = v.info.Range.Union(rng)
	return nil
}

func (v *verifier) chunk(k int) error {
	c := &v.c
	if err := v.r.Chunk(&v.s, k, c); err != nil {
		return err
	}
	times, err := c.Times()
	if err != nil {
		return err
	}
	for i := 1; i < len(times); i++ {
		if times[i] <= times[i-1] {
			return c.corrupt(0, "times are not in order")
		}
	}
	rows := c.Len()
	v.info.Chunks++
	v.info.Rows += int64(rows)
	for f := range v.s.Fields {
		col, err := c.Column(f)
		if err != nil {
			return err
		}
		want := scan.Stats{Count: rows, LastRow: rows - 1}
		if col.Valid != nil {
			want.Count = col.Valid.Count(rows)
			want.FirstRow, want.LastRow = runLength(col.Valid, 0, rows, false), lastSet(col.Valid, rows)
		}
		v.info.Values += int64(want.Count)
		if rows < StatsRows {
			continue
		}
		var got scan.Stats
		if !v.s.Stats(k, f, &got) {
			return c.corrupt(0, "bad statistics")
		}
		switch {
		case want.Count == 0:
			want = scan.Stats{}
		default:
			first, last := want.FirstRow, want.LastRow
			if want.Count < rows {
				gather(&v.vals, col, rows)
				col = &v.vals
			}
			want = stats.Of(col)
			want.FirstRow, want.LastRow = first, last
		}
		if math.Float64bits(got.SumError) == math.Float64bits(want.SumError) {
			got.SumError = want.SumError // NaN equals nothing
		}
		if got != want && !(math.IsNaN(got.SumError) && math.IsNaN(want.SumError)) {
			return c.corrupt(0, "statistics do not match values")
		}
	}
	return nil
}
