package store

import (
	"cmp"
	"errors"
	"fmt"

	"tsdbd/meta"
	"tsdbd/shard"
)

// OpenShard returns an open shard, whose database stays open until release.
func (s *Store) OpenShard(id uint64) (sh *shard.Shard, release func(), err error) {
	if e := s.shard(id); e != nil && e.db.acquire() {
		return e.Shard, func() { _ = e.db.release() }, nil
	}
	if at, ok := s.catalog.Data().Shard(id); ok {
		_, err = s.lookUp(at.Database.ID)
	}
	return nil, nil, cmp.Or(err, fmt.Errorf("%w: %d", meta.ErrShardNotFound, id))
}

// CheckMeta reads the files beside the catalog, and writes those again that are damaged or
// gone: memory has all of them. It returns the damage, and what else went wrong.
func (s *Store) CheckMeta() (damage []error, err error) {
	for _, check := range []func() ([]error, error){s.catalog.Check, s.ledger.Check, s.touched.Check} {
		found, failed := check()
		damage, err = append(damage, found...), errors.Join(err, failed)
	}
	return damage, err
}
