package store

import (
	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/wal/entry"
)

// applyDelete applies one logged delete.
func (s *Store) applyDelete(sequence uint64, d *entry.Delete) {
	sh := s.shard(d.Shard)
	if sh == nil {
		return
	}
	set := roaring.New()
	if err := set.UnmarshalBinary(d.Series); err != nil {
		// The log's checksum held, so this was written so: a bug of ours.
		s.logger.Error("delete in log unreadable", "shard", d.Shard, "err", err)
		return
	}
	err := sh.Delete(sequence, set, d.Range)
	s.dirty(sh)
	s.count(sh, sh.Bytes())
	sh.compactIdle.Store(false)
	if err != nil {
		s.logger.Error("delete applied, but the index may still list series without rows", "shard", d.Shard, "err", err)
	}
}
