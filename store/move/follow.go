package move

import (
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/series"
	"tsdbd/shard/moves"
	"tsdbd/wal/entry"
)

// Parts calls fn with the part of a logged move that concerns each of its shards. It
// continues after an error.
func Parts(sequence uint64, e *entry.Move, fn func(shard uint64, part *moves.Move) error) error {
	m, err := moves.Decode(sequence, e.Change)
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range e.Shards {
		set := roaring.New()
		if err := set.UnmarshalBinary(at.Series); err != nil {
			errs = append(errs, fmt.Errorf("read the series to move in shard %d: %w", at.Shard, err))
			continue
		}
		part := *m
		part.Pairs = m.Pairs.Only(set)
		if err := fn(at.Shard, &part); err != nil {
			errs = append(errs, fmt.Errorf("shard %d: %w", at.Shard, err))
		}
	}
	return errors.Join(errs...)
}

// Claimed returns the targets of a move from the first claim on, none if there is no
// claim.
func Claimed(m *moves.Move, first model.SeriesID) []model.SeriesID {
	if first == 0 {
		return nil
	}
	set := m.Pairs.Targets()
	set.RemoveRange(0, uint64(first))
	return idsOf(set)
}

func idsOf(set *roaring.Bitmap) []model.SeriesID {
	ids := make([]model.SeriesID, 0, set.GetCardinality())
	for it := set.Iterator(); it.HasNext(); {
		ids = append(ids, model.SeriesID(it.Next()))
	}
	return ids
}

// Targets calls restore with the ids and keys of the targets that a logged move gives to
// series of the wanted shards, some at a time. The keys follow from those of the sources.
func Targets(e *entry.Entry, wanted func(shard uint64) bool, file Series, restore func(ids []model.SeriesID, keys []string) error) error {
	m, err := moves.Decode(e.Sequence, e.Move.Change)
	if err != nil {
		return err
	}
	set := roaring.New()
	if err := Parts(e.Sequence, e.Move, func(shard uint64, part *moves.Move) error {
		if wanted(shard) {
			set.Or(part.Pairs.Sources())
		}
		return nil
	}); err != nil {
		return err
	}
	var key []byte
	var tags model.Tags
	for sources := idsOf(set); len(sources) > 0; {
		n := min(len(sources), chunk)
		ids, keys := make([]model.SeriesID, n), make([]string, n)
		err := file.Keys(sources[:n], func(i int, source string) error {
			ids[i], _ = m.Pairs.To(sources[i])
			key, tags = m.Change.AppendKey(key[:0], source, tags)
			keys[i] = string(key)
			return nil
		})
		if errors.Is(err, series.ErrNotFound) {
			return binio.Corruptf("", -1, "entry %d moves series that database %d does not have: %v", e.Sequence, e.Move.Database, err)
		}
		if err != nil {
			return err
		}
		if err := restore(ids, keys); err != nil {
			return err
		}
		sources = sources[n:]
	}
	return nil
}

// Series is the series file of a database. Noted is called with its errors, and returns
// those that callers get.
type Series struct {
	*series.File
	Noted func(error) error
}

// Key returns the key of a series.
func (s Series) Key(id model.SeriesID) (string, error) {
	key, err := s.File.Key(id)
	return key, s.Noted(err)
}

// Claim gives ids to keys.
func (s Series) Claim(keys []string, ids []model.SeriesID) error {
	return s.Noted(s.File.Claim(keys, ids))
}

// Keys calls fn with the keys of series, which ascend.
func (s Series) Keys(ids []model.SeriesID, fn func(i int, key string) error) error {
	return s.Noted(s.File.Keys(ids, fn))
}
