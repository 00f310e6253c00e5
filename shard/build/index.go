package build

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/shard/manifest"
	"tsdbd/tsi"
)

// indexer gives series their ids and writes the index of the shard. Its goroutine sees
// the batches before the tables do.
type indexer struct {
	opt    *Options
	number uint64 // of the file
	index  *tsi.Index
	parts  []manifest.File // files with a part of the index each
	last   model.SeriesID  // of the latest series
	sets   map[string]*roaring.Bitmap
	set    *roaring.Bitmap // of measurement
	// measurement is that of the latest series.
	measurement string
}

// take gives the series of a batch their ids.
func (x *indexer) take(p *batch) error {
	p.keys = p.keys[:0]
	for i := range p.series {
		if p.series[i].begins {
			p.keys = append(p.keys, p.series[i].key)
		}
	}
	p.ids = append(p.ids[:0], make([]model.SeriesID, len(p.keys))...)
	if err := x.opt.Series.CreateAll(p.keys, p.ids); err != nil {
		return err
	}
	x.index.AddKeys(p.ids, p.keys)
	next := 0
	for i := range p.series {
		s := &p.series[i]
		if s.begins {
			x.last = p.ids[next]
			next++
			if x.set == nil || s.measurement != x.measurement {
				x.measurement = s.measurement
				if x.set = x.sets[s.measurement]; x.set == nil {
					x.set = roaring.New()
					x.sets[s.measurement] = x.set
				}
			}
			x.set.Add(uint32(x.last))
		}
		s.id = x.last
	}
	if x.opt.Series.PendingBytes() >= keyBytes {
		if err := x.opt.Series.Sync(); err != nil {
			return err
		}
	}
	if x.index.MutableBytes() >= x.opt.IndexBytes {
		return x.endPart(fmt.Sprintf("%08d.part%d.tmp", x.number, len(x.parts)))
	}
	return nil
}

// endPart writes what the index has in memory to a file.
func (x *indexer) endPart(name string) error {
	snap := x.index.Freeze()
	if snap.Empty() {
		return nil
	}
	path := x.opt.Dir + "/" + name
	info, err := snap.WriteFile(x.opt.FS, path)
	if err != nil {
		return err
	}
	x.parts = append(x.parts, manifest.File{Name: name, Size: info.Bytes, Checksum: info.Hash})
	f, err := tsi.OpenFile(x.opt.FS, path)
	if err != nil {
		return err
	}
	x.index.Publish(snap, f)
	return nil
}

// finish returns the file of the index, if there are series.
func (x *indexer) finish() ([]manifest.File, error) {
	name := manifest.TSIName(x.number)
	if len(x.parts) == 0 {
		err := x.endPart(name)
		return x.parts, err
	}
	if err := x.endPart(fmt.Sprintf("%08d.part%d.tmp", x.number, len(x.parts))); err != nil {
		return nil, err
	}
	info, err := tsi.MergeFiles(x.opt.FS, x.opt.Dir+"/"+name, x.index.Files(), tsi.MergeOptions{Complete: true})
	if err != nil {
		return nil, err
	}
	x.parts = append(x.parts, manifest.File{Name: name, Size: info.Bytes, Checksum: info.Hash})
	for ; len(x.parts) > 1; x.parts = x.parts[1:] {
		if err := x.opt.FS.Remove(x.opt.Dir + "/" + x.parts[0].Name); err != nil {
			return nil, err
		}
	}
	return x.parts, nil
}
