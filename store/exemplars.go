package store

import (
	"context"

	"tsdbd/model"
	"tsdbd/store/exemplars"
	"tsdbd/wal/entry"
)

// WriteExemplars keeps exemplars of series that a database has. It returns how many are
// kept, those among them that it had before, and how many are older than what it has of
// their series. What it returned as kept survives a crash while the log has it.
func (s *Store) WriteExemplars(ctx context.Context, database string, list []model.Exemplar) (kept, older int, err error) {
	if s.exemplars.Most() == 0 || len(list) == 0 {
		return 0, 0, nil
	}
	size := exemplars.Memory(list)
	if !s.admit(size) {
		return 0, 0, s.refuseRows(len(list))
	}
	defer s.memory.reserved.Add(-size)
	s.gate.RLock()
	defer s.gate.RUnlock()
	if err := s.writable(); err != nil {
		return 0, 0, err
	}
	db, err := s.database(database)
	if err != nil {
		return 0, 0, err
	}
	known, err := exemplars.Known(ctx, db.id, list, s.opt.Now(), db.file())
	if err != nil {
		return 0, 0, err
	}
	fresh, repeated, older := s.exemplars.Fresh(known)
	if len(fresh) > 0 {
		err = s.log.Append(&entry.Entry{Exemplars: &entry.Exemplars{Database: db.id, List: exemplars.Append(nil, fresh)}})
		if err != nil {
			return 0, 0, s.refusal(err)
		}
	}
	s.counters.Exemplars.Add(int64(len(fresh)))
	s.counters.OlderExemplars.Add(int64(older))
	return len(fresh) + repeated, older, nil
}

// Exemplars returns the exemplars of a database between two times in milliseconds, both
// inclusive, those of a series in order. It charges for them first.
func (s *Store) Exemplars(ctx context.Context, database string, start, end int64, charge func(bytes int64) error) ([]model.Exemplar, error) {
	db, err := s.acquire(database)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.release() }()
	return s.exemplars.Named(ctx, db.id, start, end, db.file(), charge)
}
