package build

import (
	"context"

	"tsdbd/cache"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/series/keyorder"
	"tsdbd/shard/manifest"
	"tsdbd/tsm"
)

// Dump writes the living rows of a cache to a file, if there are any. keys appends the keys
// of series. It aborts the run if it returns an error.
func Dump(ctx context.Context, w Run, keys keyorder.Keys, c *cache.Cache) (_ []manifest.File, err error) {
	w.MaxFile = 0
	defer func() {
		if err != nil {
			w.Abort()
		}
	}()
	order, err := keyorder.New(keys, c.Series())
	if err != nil {
		return nil, err
	}
	g := cache.NewGatherer(c)
	var rows column.Rows
	var part []keyorder.Series
	var warm []model.SeriesID
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if part, err = order.Next(part[:0], cache.WarmSeries); err != nil {
			return nil, err
		}
		if len(part) == 0 {
			return w.Finish()
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
			w.Series(k.ID, k.Key, fields, nil)
			for n := tsm.FullChunk(len(fields)); g.Next(&rows, n); {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				if err := w.Write(&rows); err != nil {
					return nil, err
				}
			}
		}
	}
}
