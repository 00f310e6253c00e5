package series

import (
	"errors"
	"slices"
	"strings"

	"tsdbd/model"
	"tsdbd/model/point"
)

// ClaimSeries is Claim for series that have no id, and gives them theirs. Some may be
// in the list twice.
func (f *File) ClaimSeries(fresh []*point.Series) error {
	type named struct {
		key    string
		series *point.Series
	}
	list := make([]named, len(fresh))
	for i, sr := range fresh {
		list[i] = named{sr.Key(), sr}
	}
	slices.SortFunc(list, func(a, b named) int { return strings.Compare(a.key, b.key) })
	list = slices.CompactFunc(list, func(a, b named) bool { return a.series == b.series })
	keys := make([]string, len(list))
	ids := make([]model.SeriesID, len(list))
	for i := range list {
		keys[i] = list[i].key
	}
	if err := f.Claim(keys, ids); err != nil {
		return err
	}
	for i := range list {
		list[i].series.SetID(ids[i])
	}
	return nil
}

// Create returns the id of a key, confirmed. It is for series that do not come through
// the log. The key is kept.
func (f *File) Create(key string) (model.SeriesID, error) {
	keys, ids := [1]string{key}, [1]model.SeriesID{}
	for {
		if err := f.Claim(keys[:], ids[:]); err != nil {
			return 0, err
		}
		if settled, err := f.settle(ids[:], key); settled || err != nil {
			return ids[0], err
		}
	}
}

// settle confirms the id that Claim has given a key. It returns false if DropClaims came
// between, so that the id may be another key's.
func (f *File) settle(ids []model.SeriesID, key string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	have, err := f.keyLocked(uint32(ids[0]))
	if errors.Is(err, ErrNotFound) || err == nil && have != key {
		return false, nil
	}
	if err == nil {
		f.confirmLocked(ids)
	}
	return err == nil, err
}
