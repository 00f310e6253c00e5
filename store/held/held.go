// Package held has what a store holds for a backup.
package held

import (
	"tsdbd/meta"
	"tsdbd/series"
	"tsdbd/shard"
)

// Set is the store as of one sequence, held: its files stay on disk
// until Release.
type Set struct {
	// Sequence is the log position: everything up to it is in the files,
	// nothing after it.
	Sequence uint64
	Catalog  *meta.Data // as of the end of the flush; shards made since Sequence are empty
	Shards   []*shard.Export
	Series   []series.Export // of each database in the catalog
}

// Release gives everything back.
func (b *Set) Release() {
	for _, e := range b.Shards {
		e.Release()
	}
	for _, f := range b.Series {
		_ = f.File.Close()
	}
	b.Shards, b.Series = nil, nil
}
