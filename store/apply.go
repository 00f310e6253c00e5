package store

import (
	"time"

	"tsdbd/wal/entry"
)

// apply makes a durable entry readable. The log calls it in sequence order.
func (s *Store) apply(e *entry.Entry) {
	s.applying.Lock()
	defer s.applying.Unlock()
	if len(e.Command) > 0 {
		s.applyCommand(e)
	}
	for i := range e.Writes {
		w := &e.Writes[i]
		sh := s.shard(w.Shard)
		if sh == nil {
			continue // dropped meanwhile
		}
		if first := sh.db.series.FirstClaim(); first != 0 {
			s.confirm(sh.db, first, w.Rows)
		}
		sh.Apply(e.Sequence, w.Rows, w.Values, w.Strings)
		s.dirty(sh)
		s.count(sh, sh.Bytes())
		if s.held() > s.opt.CacheBytes/2 || sh.ActiveBytes() > s.opt.FlushBytes {
			wake(s.wakeFlush)
		}
	}
	for i := range e.Deletes {
		s.applyDelete(e.Sequence, &e.Deletes[i])
	}
	s.applying.sequence = max(s.applying.sequence, e.Sequence)
	s.applying.at = time.Now()
}
