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

// CreateAll sets ids[i] to the id of keys[i], confirmed. It is for series that do not come
// through the log. The keys are kept.
func (f *File) CreateAll(keys []string, ids []model.SeriesID) error {
	for {
		if err := f.Claim(keys, ids); err != nil {
			return err
		}
		if settled, err := f.settle(keys, ids); settled || err != nil {
			return err
		}
	}
}

// settle confirms the ids that Claim has given keys. It returns false if DropClaims came
// between, so that an id may be another key's.
func (f *File) settle(keys []string, ids []model.SeriesID) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, id := range ids {
		have, err := f.keyLocked(uint32(id))
		if errors.Is(err, ErrNotFound) || err == nil && have != keys[i] {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	f.confirmLocked(ids)
	return true, nil
}
