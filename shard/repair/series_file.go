package repair

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/series"
)

// Shard is a shard of the database whose series file is repaired.
type Shard interface {
	ID() uint64
	// NamedSeries adds the ids of the series that the shard's index names.
	NamedSeries(ids *roaring.Bitmap)
	// RestoreSeries restores the keys and ids of the series in the shard's TSM files.
	RestoreSeries() (n int, err error)
}

// SeriesFile makes the series file of a database whole again where its log is
// damaged or has lost its end: the TSM files of the shards carry the keys and
// ids of their series. Ids that any file names are never given to another key,
// or its rows would be taken for the other's. The damaged log is kept in the
// database's quarantine. damage is what reads of the file have met since it was
// opened.
func SeriesFile(f *series.File, shards []Shard, damage []error, quarantine *Quarantine, logger *slog.Logger) error {
	all := f.Damage()
	log := "series/" + series.LogName
	named := roaring.New()
	for _, e := range shards {
		e.NamedSeries(named)
	}
	if n := named.GetCardinality(); n > 0 {
		last := model.SeriesID(named.Maximum())
		_, err := f.Key(last)
		if err != nil && !errors.Is(err, series.ErrNotFound) && !errors.Is(err, binio.ErrCorrupt) {
			return fmt.Errorf("read series: %w", err)
		}
		if next := f.NextID(); err != nil || next != 0 && last >= next || uint64(f.Len()) < n {
			// A cut looks like the end that an unfinished sync leaves.
			all = append(all, binio.Corruptf(quarantine.dir+"/"+log, -1, "series log lacks series that files name, the last of them %d", last))
		}
		f.Reserve(uint64(last) + 1)
	}
	if all = append(all, damage...); len(all) == 0 {
		return nil
	}
	const effect = "The series were restored from the shards' files and the log."
	keep := func() error { return quarantine.Copy(log, all[0], LossSeries, effect) }
	if err := f.CopyLog(keep); err != nil {
		return fmt.Errorf("repair series: %w", err)
	}
	restored := 0
	for _, e := range shards {
		n, err := e.RestoreSeries()
		restored += n
		if err != nil {
			logger.Error("not all series could be restored", "shard", e.ID(), "err", err)
		}
	}
	if err := f.Rewrite(false); err != nil {
		return fmt.Errorf("repair series: %w", err)
	}
	logger.Error("series file was damaged, restored from the shards' files", "series", restored, "err", errors.Join(all...))
	return nil
}
