package portion

import (
	"context"
	"sort"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/series/keyorder"
	"tsdbd/shard/moves"
	"tsdbd/tsm"
)

// File is a file that moves concern.
type File struct {
	*tsm.Reader
	Gone *roaring.Bitmap // series that it has no more; nil: none
	// Sound reads all rows of a series of a file that is known to be damaged; nil: the file
	// is not.
	Sound func(id model.SeriesID) error
}

// Request says of what to choose.
type Request struct {
	Files []File      // the oldest of a shard, in their order
	Door  *moves.Door // to the files; its moves are to be applied, and concern no other file
	Keys  keyorder.Keys
	Bytes int64 // that a portion has at most, if it is more than one series and those connected with it
}

// Portion is what one merge takes.
type Portion struct {
	Series *roaring.Bitmap
	InFile []*roaring.Bitmap // by file: those of Series that it has
	// All says that Series are all series of the files that the moves concern.
	All bool
	// Unsound is how many series are left out because rows of them, or of series connected
	// with them, cannot be read. Damage is why, the first time.
	Unsound int
	Damage  error
}

// chooser chooses the series of a portion.
type chooser struct {
	*Request
	out   *Portion
	entry tsm.Series
}

// Choose returns the next portion, in the order of keys. It is empty if nothing that can
// be read is left.
func Choose(ctx context.Context, r *Request) (_ *Portion, err error) {
	defer vfs.CatchFault(&err)()
	c := chooser{Request: r, out: &Portion{Series: roaring.New(), All: true}}
	all, err := c.concerned()
	if err != nil {
		return nil, err
	}
	size, damaged := int64(0), false
	for _, f := range r.Files {
		size += f.Info().Size
		damaged = damaged || f.Sound != nil
	}
	if size <= r.Bytes && !damaged {
		c.out.Series = all
	} else if err := c.some(ctx, all); err != nil {
		return nil, err
	}
	for _, f := range r.Files {
		found, err := f.those(ctx, c.out.Series)
		if err != nil {
			return nil, err
		}
		c.out.InFile = append(c.out.InFile, found)
	}
	return c.out, nil
}

// concerned returns the series that the moves concern: sources, targets, and those whose
// field is renamed.
func (c *chooser) concerned() (*roaring.Bitmap, error) {
	all := c.Door.Involved()
	for _, measurement := range c.Door.Renamed() {
		for i := range c.Files {
			if err := c.Files[i].named(measurement, all); err != nil {
				if c.Files[i].Sound == nil || !binio.Damaged(err) {
					return nil, err
				}
				c.left(err, 1)
			}
		}
	}
	return all, nil
}

// left notes that rows of so many series cannot be read.
func (c *chooser) left(err error, series int) {
	c.out.All = false
	if c.out.Unsound += series; c.out.Damage == nil {
		c.out.Damage = err
	}
}

// some chooses of all, in the order of keys, as many as have Bytes in the files. Series that
// are connected stay together.
func (c *chooser) some(ctx context.Context, all *roaring.Bitmap) error {
	ids := make([]model.SeriesID, 0, all.GetCardinality())
	for it := all.Iterator(); it.HasNext(); {
		ids = append(ids, model.SeriesID(it.Next()))
	}
	order, err := keyorder.New(c.Keys, ids)
	if err != nil {
		return err
	}
	seen, size := roaring.New(), int64(0)
	var next []keyorder.Series
	var together []model.SeriesID
	for n := 0; ; n++ {
		if n&255 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if next, err = order.Next(next[:0], 1); err != nil || len(next) == 0 {
			return err
		}
		if together = c.Door.Connected(together[:0], next[0].ID, seen); len(together) == 0 {
			continue
		}
		bytes, damage, err := c.measure(ctx, together)
		switch {
		case err != nil:
			return err
		case damage != nil:
			c.left(damage, len(together))
			continue
		case size > 0 && size+bytes > c.Bytes:
			c.out.All = false
			return nil
		}
		size += bytes
		for _, id := range together {
			c.out.Series.Add(uint32(id))
		}
	}
}

// measure returns the bytes that series have in the files, or the damage by which a file
// that is known to be damaged has lost rows of them.
func (c *chooser) measure(ctx context.Context, ids []model.SeriesID) (n int64, damage, err error) {
	for k, id := range ids {
		if k&255 == 255 && ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		for i := range c.Files {
			bytes, err := c.bytes(&c.Files[i], id)
			switch {
			case err == nil:
				n += bytes
			case c.Files[i].Sound != nil && binio.Damaged(err):
				return 0, err, nil
			default:
				return 0, nil, err
			}
		}
	}
	return n, nil, nil
}

// bytes returns the bytes that a series has in a file.
func (c *chooser) bytes(f *File, id model.SeriesID) (n int64, err error) {
	if f.Gone != nil && f.Gone.Contains(uint32(id)) {
		return 0, nil
	}
	if f.Sound != nil {
		defer vfs.CatchFault(&err)()
	}
	at, found, err := f.Find(id)
	if err != nil || !found {
		return 0, err
	}
	if err := f.Load(at, &c.entry); err != nil {
		return 0, err
	}
	for k := range c.entry.Chunks {
		n += int64(c.entry.Chunks[k].Bytes)
	}
	if f.Sound != nil {
		err = f.Sound(id)
	}
	return n, err
}

// named adds to set the series of a measurement that a file has.
func (f *File) named(measurement string, set *roaring.Bitmap) (err error) {
	if f.Sound != nil {
		defer vfs.CatchFault(&err)()
	}
	bare := string(model.AppendSeriesKey(nil, measurement, nil))
	for _, first := range []string{bare, bare + ","} { // keys of other measurements may be between
		at := sort.Search(f.Len(), func(i int) bool {
			key, failed := f.Key(i)
			if failed != nil {
				err = failed
			}
			return key >= first
		})
		for ; err == nil && at < f.Len(); at++ {
			var key string
			if key, err = f.Key(at); err != nil || key != first && (first == bare || !strings.HasPrefix(key, first)) {
				break
			}
			var id model.SeriesID
			if id, err = f.ID(at); err == nil && (f.Gone == nil || !f.Gone.Contains(uint32(id))) {
				set.Add(uint32(id))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// those returns those series of a portion that the file has.
func (f *File) those(ctx context.Context, set *roaring.Bitmap) (*roaring.Bitmap, error) {
	out := roaring.New()
	each := Each
	if f.Sound != nil {
		each = eachFound // what a portion has was found before
	}
	err := each(ctx, f.Reader, set, func(_ int, id model.SeriesID) error {
		if f.Gone == nil || !f.Gone.Contains(uint32(id)) {
			out.Add(uint32(id))
		}
		return nil
	})
	out.RunOptimize()
	return out, err
}

// Each calls fn with the place and id of each series of a set that a file has.
func Each(ctx context.Context, r *tsm.Reader, set *roaring.Bitmap, fn func(i int, id model.SeriesID) error) error {
	if set.GetCardinality() < uint64(r.Len())/16 {
		return eachFound(ctx, r, set, fn)
	}
	var page []model.SeriesID
	for i := 0; i < r.Len(); i += len(page) {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		if page, err = r.IDs(i, page[:0]); err != nil {
			return err
		}
		for k, id := range page {
			if set.Contains(uint32(id)) {
				if err := fn(i+k, id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// eachFound is Each for few series: it looks for each of them.
func eachFound(ctx context.Context, r *tsm.Reader, set *roaring.Bitmap, fn func(i int, id model.SeriesID) error) error {
	it := set.Iterator()
	for n := 0; it.HasNext(); n++ {
		if n&1023 == 1023 && ctx.Err() != nil {
			return ctx.Err()
		}
		id := model.SeriesID(it.Next())
		i, ok, err := r.Find(id)
		if err == nil && ok {
			err = fn(i, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
