package series

import (
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
