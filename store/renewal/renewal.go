// Package renewal has a store put the files of another node in place of those of a shard
// that has damage, while it serves.
//
// It goes in these steps. Flush the shard. Ask for a cut of the other node's shard. Once
// this node has applied as much as the cut has, flush again, in sequences that begin behind
// the cut: the rows of earlier entries that this flush has are in the cut as well, and
// are the same. Fetch the files, which takes long; flushes go on meanwhile. Then change from one
// manifest to the other while nothing is applied. No merge runs in the shard from the first
// step to the last. Package renew has the manifest.
//
// A failure or a crash at any place leaves the shard as it was, or renewed.
package renewal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/shard/manifest"
	"tsdbd/shard/renew"
)

// Deletes are those that came to a shard while it was renewed. The zero value notes none.
type Deletes struct {
	mu    sync.Mutex
	noted bool
	list  []*manifest.Tombstone
}

// Note begins to note deletes, until end.
func (d *Deletes) Note() (end func()) {
	d.set(true)
	return func() { d.set(false) }
}

func (d *Deletes) set(noted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noted, d.list = noted, nil
}

// Delete notes a delete.
func (d *Deletes) Delete(sequence uint64, series *roaring.Bitmap, times model.TimeRange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.noted {
		d.list = append(d.list, &manifest.Tombstone{Sequence: sequence, Range: times, Series: series})
	}
}

// List returns what was noted.
func (d *Deletes) List() []*manifest.Tombstone {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list
}

// Fetch fetches the files of a shard. It calls begun with the sequence of the cut before it
// does, and use with the files, which nobody needs when that returns. It ends with their errors.
type Fetch func(ctx context.Context, begun func(cut uint64) error, use func(f *renew.Files) error) error

// Shard is a shard to renew, by what the store does for it.
type Shard struct {
	// Applied returns up to which sequence the log is applied, Flushed up to which the files of
	// the shard have it.
	Applied, Flushed func() uint64
	// Flush flushes all that the shard has. In its sequences, what it writes begins behind above.
	Flush func(above uint64) error
	// Change changes from the files that the shard has to others.
	Change func(f *renew.Files) error
}

// Run renews a shard. The error is a renew.ErrNotNow if the shard changed meanwhile in a way
// that the files do not fit to.
func Run(ctx context.Context, s Shard, fetch Fetch) error {
	if err := s.Flush(0); err != nil {
		return err
	}
	flushed := s.Flushed()
	begun := func(cut uint64) error {
		if cut < flushed {
			return fmt.Errorf("%w: the other node has entries up to %d, files of this one up to %d", renew.ErrNotNow, cut, flushed)
		}
		for s.Applied() < cut {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
		if s.Flushed() != flushed {
			return fmt.Errorf("%w: it was flushed", renew.ErrNotNow)
		}
		return s.Flush(cut)
	}
	return fetch(ctx, begun, func(f *renew.Files) error {
		if err := s.Flush(0); err != nil { // most of what Change would have to wait for
			return err
		}
		return s.Change(f)
	})
}
