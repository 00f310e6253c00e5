package store

import (
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/shard/manifest"
)

// notedDeletes are the deletes that came to a shard while it was renewed. The zero value
// notes none.
type notedDeletes struct {
	sync.Mutex
	noted bool
	all   []*manifest.Tombstone
}

// begin begins to note deletes, until end.
func (d *notedDeletes) begin() (end func()) {
	set := func(noted bool) {
		d.Lock()
		defer d.Unlock()
		d.noted, d.all = noted, nil
	}
	set(true)
	return func() { set(false) }
}

func (d *notedDeletes) note(sequence uint64, series *roaring.Bitmap, times model.TimeRange) {
	d.Lock()
	defer d.Unlock()
	if d.noted {
		d.all = append(d.all, &manifest.Tombstone{Sequence: sequence, Range: times, Series: series})
	}
}

func (d *notedDeletes) list() []*manifest.Tombstone {
	d.Lock()
	defer d.Unlock()
	return d.all
}
