package repair

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/series"
	"tsdbd/shard/moves"
	"tsdbd/tsi"
	"tsdbd/tsm"
)

// Index collects series and their fields for a TSI file that replaces damaged
// ones.
type Index struct {
	index *tsi.Index
	table *point.Table
}

// NewIndex returns an empty index. The caller closes it.
func NewIndex() (*Index, error) {
	x, err := tsi.NewIndex(tsi.IndexOptions{})
	if err != nil {
		return nil, err
	}
	return &Index{index: x, table: point.NewTable(0)}, nil
}

// Close releases the index.
func (x *Index) Close() { x.index.Close() }

// Add adds a series and its fields. A field that was added with another type
// keeps its type.
func (x *Index) Add(id model.SeriesID, key string, fields []column.Field) {
	x.index.AddSeries(id, key)
	l := x.table.Layout(model.SeriesMeasurement(key), fields)
	conflicts := x.index.RegisterFields(l)
	if len(conflicts) == 0 {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(fields), func(f column.Field) bool {
		return slices.ContainsFunc(conflicts, func(c tsi.FieldConflict) bool { return c.Field == f })
	})
	if len(rest) > 0 {
		x.index.RegisterFields(x.table.Layout(l.Measurement, rest))
	}
}

// AddKnown adds series whose keys a series file has. fields returns those of a measurement.
func (x *Index) AddKnown(ids *roaring.Bitmap, from *series.File, fields func(measurement string) []column.Field) error {
	list := make([]model.SeriesID, 0, ids.GetCardinality())
	for it := ids.Iterator(); it.HasNext(); {
		list = append(list, model.SeriesID(it.Next()))
	}
	return from.Keys(list, func(i int, key string) error {
		x.Add(list[i], key, fields(model.SeriesMeasurement(key)))
		return nil
	})
}

// File is a TSM file with the series that it has no more, and the door to its rows.
type File struct {
	*tsm.Reader
	Gone *roaring.Bitmap // nil: none
	Door *moves.Door     // to the file
}

// AddFiles adds the series of TSM files, newest file first, that have living
// rows. If a field has two types, it gets the newest file's: a delete freed the
// older type. AddFiles restores series that the series file has lost. It leaves
// out and logs those of damaged parts of a file.
func (x *Index) AddFiles(files []File, to *series.File, living func(id model.SeriesID) (bool, error), logger *slog.Logger) (err error) {
	defer vfs.CatchFault(&err)()
	var entry tsm.Series
	none := roaring.New() // series without living rows
	add := func(r File, i int, id model.SeriesID, key string) error {
		if r.Gone != nil && r.Gone.Contains(uint32(id)) {
			return nil
		}
		if err := r.Load(i, &entry); err != nil {
			return err
		}
		var ids []model.SeriesID
		var keys []string
		fields, _ := r.Door.Present(0, id, key, entry.Fields, func(k model.SeriesID, name string) error {
			ids, keys = append(ids, k), append(keys, name)
			id, key = k, name
			return nil
		})
		if none.Contains(uint32(id)) {
			return nil
		}
		if has, err := living(id); err != nil {
			return err
		} else if !has {
			none.Add(uint32(id))
			return nil
		}
		if err := to.RestoreAll(ids, keys); err != nil {
			return err
		}
		x.Add(id, key, fields)
		return nil
	}
	for _, r := range files {
		n, err := r.each(func(i int, id model.SeriesID, key string) error { return add(r, i, id, key) })
		if err != nil {
			logger.Error("series left out of the rebuilt index", "path", r.Path(), "series", r.Len()-n, "err", err)
		}
	}
	return to.Sync()
}

// Empty reports whether no series was added.
func (x *Index) Empty() bool { return x.index.SeriesCount() == 0 }

// Write writes the TSI file. The caller syncs its directory.
func (x *Index) Write(fsys vfs.FS, path string, logger *slog.Logger) (tsi.FileInfo, error) {
	info, err := x.index.Freeze().WriteFile(fsys, path)
	if err != nil {
		return info, fmt.Errorf("write index %s: %w", path, err)
	}
	logger.Info("index rebuilt", "series", info.Series, "path", info.Path)
	return info, nil
}

// Series restores the keys and ids of the series of TSM files in a series file.
// It returns how many there are. It continues after an error and returns the
// first.
func Series(files []File, to *series.File) (n int, first error) {
	defer vfs.CatchFault(&first)()
	for _, r := range files {
		k, err := r.each(func(_ int, id model.SeriesID, key string) error {
			_, err := r.Door.Present(0, id, key, nil, to.Restore)
			return err
		})
		n, first = n+k, cmp.Or(first, err)
	}
	return n, first
}

// each calls fn with the place, id and key of each series of the file. It continues after an
// error, and returns the first, and for how many series there was none.
func (f *File) each(fn func(i int, id model.SeriesID, key string) error) (n int, first error) {
	for i := range f.Len() {
		id, err := f.ID(i)
		key := ""
		if err == nil {
			key, err = f.Key(i)
		}
		if err == nil {
			err = fn(i, id, key)
		}
		if err == nil {
			n++
		}
		first = cmp.Or(first, err)
	}
	return n, first
}
