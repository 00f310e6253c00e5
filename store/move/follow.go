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

// ByShard returns what a logged move does in each of its shards, one after the other.
func ByShard(sequence uint64, e *entry.Move) (map[uint64][]*moves.Move, error) {
	parts := map[uint64][]*moves.Move{}
	for i := range e.Changes {
		m, err := moves.Decode(sequence, e.Changes[i].Change)
		if err != nil {
			return nil, err
		}
		for _, sh := range e.Changes[i].Shards {
			set, err := movedIn(sh)
			if err != nil {
				return nil, err
			}
			moved := *m
			moved.Pairs = m.Pairs.Only(set)
			parts[sh.Shard] = append(parts[sh.Shard], &moved)
		}
	}
	return parts, nil
}

// movedIn returns the series that are moved in a shard.
func movedIn(at entry.MovedShard) (*roaring.Bitmap, error) {
	set := roaring.New()
	if err := set.UnmarshalBinary(at.Series); err != nil {
		return nil, fmt.Errorf("read the series to move in shard %d: %w", at.Shard, err)
	}
	return set, nil
}

// Claimed returns the targets of moves from the first claim on, none if there is no
// claim.
func Claimed(list []*moves.Move, first model.SeriesID) []model.SeriesID {
	if first == 0 {
		return nil
	}
	set := moves.Targets(list)
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
	for i := range e.Move.Changes {
		c := &e.Move.Changes[i]
		m, err := moves.Decode(e.Sequence, c.Change)
		if err != nil {
			return err
		}
		sources := roaring.New()
		for _, at := range c.Shards {
			if wanted(at.Shard) {
				set, err := movedIn(at)
				if err != nil {
					return err
				}
				sources.Or(set)
			}
		}
		sources.And(m.Pairs.Sources())
		err = targets(m, idsOf(sources), file, restore)
		if errors.Is(err, series.ErrNotFound) {
			return binio.Corruptf("", -1, "entry %d moves series that database %d does not have: %v", e.Sequence, e.Move.Database, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// targets is Targets of some sources of one change.
func targets(m *moves.Move, sources []model.SeriesID, file Series, restore func(ids []model.SeriesID, keys []string) error) error {
	var key []byte
	var tags model.Tags
	for len(sources) > 0 {
		n := min(len(sources), chunk)
		ids, keys := make([]model.SeriesID, n), make([]string, n)
		err := file.Keys(sources[:n], func(i int, source string) error {
			ids[i], _ = m.Pairs.To(sources[i])
			key, tags = m.Change.AppendKey(key[:0], source, tags)
			keys[i] = string(key)
			return nil
		})
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
