package shard

import (
	"strings"

	"tsdbd/model"
	"tsdbd/tsi"
)

// keyed is a series with its key.
type keyed struct {
	key string
	id  model.SeriesID
}

// keyOrder gives series in the order of their keys. Ids are handed out in the
// order of the keys of each write, so that series by id are runs that are
// sorted already, and as many as there were writes with new series: merging
// them takes a comparison per doubling of the runs, not of the series.
type keyOrder struct {
	runs [][]keyed // what is left of each; a heap by the first key
}

// newKeyOrder reads the keys of ids, which ascend.
func newKeyOrder(series *tsi.SeriesFile, ids []model.SeriesID) (*keyOrder, error) {
	all := make([]keyed, 0, len(ids))
	if err := series.Keys(ids, func(i int, key string) error {
		all = append(all, keyed{key, ids[i]})
		return nil
	}); err != nil {
		return nil, err
	}
	return orderByKey(all), nil
}

func orderByKey(all []keyed) *keyOrder {
	o := &keyOrder{}
	start := 0
	for i := 1; i <= len(all); i++ {
		if i == len(all) || all[i].key < all[i-1].key {
			o.runs = append(o.runs, all[start:i])
			start = i
		}
	}
	for i := len(o.runs)/2 - 1; i >= 0; i-- {
		o.sink(i)
	}
	return o
}

// next appends up to n series to dst; none at the end.
func (o *keyOrder) next(dst []keyed, n int) []keyed {
	for ; n > 0 && len(o.runs) > 0; n-- {
		first := &o.runs[0]
		dst = append(dst, (*first)[0])
		if *first = (*first)[1:]; len(*first) == 0 {
			last := len(o.runs) - 1
			o.runs[0] = o.runs[last]
			o.runs = o.runs[:last]
		}
		o.sink(0)
	}
	return dst
}

// sink moves run i down to its place in the heap.
func (o *keyOrder) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(o.runs) {
			return
		}
		if child+1 < len(o.runs) && strings.Compare(o.runs[child+1][0].key, o.runs[child][0].key) < 0 {
			child++
		}
		if strings.Compare(o.runs[i][0].key, o.runs[child][0].key) <= 0 {
			return
		}
		o.runs[i], o.runs[child] = o.runs[child], o.runs[i]
		i = child
	}
}
