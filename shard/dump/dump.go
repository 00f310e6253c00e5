package dump

import (
	"context"

	"tsdbd/cache"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/series/keyorder"
	"tsdbd/tsm"
)

// Cache writes the living rows of a cache to a TSM file. Without any
// the file is removed and the Info has no rows.
func Cache(ctx context.Context, c *cache.Cache, keys keyorder.Keys, fs vfs.FS, path string, opt tsm.WriterOptions) (_ tsm.Info, err error) {
	w, err := tsm.Create(fs, path, opt)
	if err != nil {
		return tsm.Info{}, err
	}
	defer func() {
		if err != nil {
			w.Abort()
		}
	}()
	order, err := keyorder.New(keys, c.Series())
	if err != nil {
		return tsm.Info{}, err
	}
	g := cache.NewGatherer(c)
	var rows column.Rows
	var cols []column.Vector
	var part []keyorder.Series
	var warm []model.SeriesID
	wrote := false
	for {
		if ctx.Err() != nil {
			return tsm.Info{}, ctx.Err()
		}
		if part, err = order.Next(part[:0], cache.WarmSeries); err != nil {
			return tsm.Info{}, err
		}
		if len(part) == 0 {
			break
		}
		warm = warm[:0]
		for _, k := range part {
			warm = append(warm, k.ID)
		}
		g.Warm(warm)
		for _, k := range part {
			fields, ok := g.Start(k.ID)
			if !ok {
				continue
			}
			if err := w.Series(k.ID, k.Key, fields); err != nil {
				return tsm.Info{}, err
			}
			for n := tsm.FullChunk(len(fields)); g.Next(&rows, n); {
				if ctx.Err() != nil {
					return tsm.Info{}, ctx.Err()
				}
				for lo, hi := 0, 0; lo < rows.Len(); lo = hi {
					hi, _ = tsm.CutChunk(&rows, lo)
					part := rows.Slice(lo, hi, cols)
					cols = part.Cols
					if err := w.Append(part.Times, part.Cols); err != nil {
						return tsm.Info{}, err
					}
				}
			}
			wrote = true
		}
	}
	if !wrote {
		w.Abort()
		return tsm.Info{}, nil
	}
	return w.Finish()
}
