package store

import "tsdbd/store/content"

// Cut holds what the store has between two entries of the log: that of Applied. It
// waits for an entry that is being applied, and costs a copy of what the caches know
// of each series, not of the points. A database that does not open is an error.
func (s *Store) Cut() (*content.Cut, error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	if err := s.errClosed(); err != nil {
		return nil, err
	}
	c := &content.Cut{Sequence: s.applying.sequence, Catalog: s.catalog.Data()}
	var held []func()
	c.Release = func() {
		for _, release := range held {
			release()
		}
	}
	for _, d := range c.Catalog.Databases {
		db, err := s.lookUp(d.ID)
		if err != nil {
			c.Release()
			return nil, err
		}
		if db == nil || !db.acquire() {
			continue // it never had a point
		}
		held = append(held, func() { _ = db.release() })
		for id, at := range d.Shards() {
			e := s.shard(id)
			if e == nil {
				continue
			}
			if v := e.Cut(); v != nil {
				held = append(held, v.Release)
				c.Parts = append(c.Parts, content.Part{Database: d.Name, RetentionPolicy: at.Policy.Name, Shard: v, Key: db.file().Key})
			}
		}
	}
	return c, nil
}
