package shard

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/tsi"
	"tsdbd/tsm"
)

// rebuildIndex writes TSI file number from the TSM files of a view: the series
// that have living rows, and their fields. It returns nil when there are none.
// A field that stands with two types gets the newest file's: the older type
// was freed by a delete. Series that the series file has lost are restored in
// it; those of damaged parts of a TSM file are left out, and logged.
func (s *Shard) rebuildIndex(v *View, number uint64) (_ *fileRecord, err error) {
	defer vfs.CatchFault(&err)()
	b, err := newIndexBuilder()
	if err != nil {
		return nil, err
	}
	defer b.index.Close()
	c := v.open(nil)
	var entry tsm.Series
	none := roaring.New()
	for i := len(v.set.files) - 1; i >= 0; i-- {
		r := v.set.files[i].reader
		skipped := 0
		var first error
		for k := range r.Len() {
			key, err := r.Key(k)
			if err == nil {
				err = r.Load(k, &entry)
			}
			if err == nil && !none.Contains(uint32(entry.ID)) {
				var has bool
				if has, err = c.hasRows(entry.ID); !has && err == nil {
					none.Add(uint32(entry.ID))
				}
			}
			if err == nil && none.Contains(uint32(entry.ID)) {
				continue
			}
			if err == nil {
				err = s.series.Restore(entry.ID, key)
			}
			if err != nil {
				if skipped++; first == nil {
					first = err
				}
				continue
			}
			b.add(entry.ID, key, entry.Fields)
		}
		if skipped > 0 {
			s.logger.Error("series left out of the rebuilt index", "shard", s.id, "path", r.Path(), "series", skipped, "err", first)
		}
	}
	if b.index.SeriesCount() == 0 {
		return nil, nil
	}
	if err := s.series.Sync(); err != nil {
		return nil, fmt.Errorf("rebuild index of shard %d: %w", s.id, err)
	}
	info, err := b.write(s, number)
	if err != nil {
		return nil, err
	}
	return &fileRecord{number: number, size: info.Bytes, checksum: info.Hash}, nil
}

// indexBuilder collects the series of a TSI file in memory.
type indexBuilder struct {
	index *tsi.Index
	table *point.Table
}

func newIndexBuilder() (*indexBuilder, error) {
	x, err := tsi.NewIndex(tsi.IndexOptions{})
	if err != nil {
		return nil, fmt.Errorf("rebuild index: %w", err)
	}
	return &indexBuilder{index: x, table: point.NewTable(0)}, nil
}

// add adds a series and those of its fields whose keys stand with no other
// type yet.
func (b *indexBuilder) add(id model.SeriesID, key string, fields []column.Field) {
	b.index.AddSeries(id, key)
	l := b.table.Layout(model.SeriesMeasurement(key), fields)
	conflicts := b.index.RegisterFields(l)
	if len(conflicts) == 0 {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(fields), func(f column.Field) bool {
		return slices.ContainsFunc(conflicts, func(c tsi.FieldConflict) bool { return c.Field == f })
	})
	if len(rest) > 0 {
		b.index.RegisterFields(b.table.Layout(l.Measurement, rest))
	}
}

func (b *indexBuilder) write(s *Shard, number uint64) (tsi.FileInfo, error) {
	info, err := b.index.Freeze().WriteFile(s.fs, s.path(tsiName(number)))
	if err != nil {
		return info, fmt.Errorf("rebuild index of shard %d: %w", s.id, err)
	}
	s.logger.Info("index rebuilt", "shard", s.id, "series", info.Series, "path", info.Path)
	return info, nil
}

// NamedSeries adds the ids of the series that the shard's index names, the
// deleted ones too.
func (s *Shard) NamedSeries(ids *roaring.Bitmap) { ids.Or(s.index.Named()) }

// RestoreSeries gives the series file the keys and ids of the shard's TSM
// files and returns how many it was given. It goes on after an error.
func (s *Shard) RestoreSeries() (n int, first error) {
	defer vfs.CatchFault(&first)()
	v := s.View()
	if v == nil {
		return 0, nil
	}
	defer v.Release()
	for _, f := range v.set.files {
		for k := range f.reader.Len() {
			key, err := f.reader.Key(k)
			if err == nil {
				var id model.SeriesID
				if id, err = f.reader.ID(k); err == nil {
					err = s.series.Restore(id, key)
				}
			}
			if err == nil {
				n++
			} else if first == nil {
				first = err
			}
		}
	}
	return n, first
}
