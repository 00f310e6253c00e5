package shard

import (
	"strings"

	"tsdbd/model"
	"tsdbd/series"
)

// keyed is a series with its key.
type keyed struct {
	key string
	id  model.SeriesID
}

// keyOrder gives series in the order of their keys. Ids are handed out in the
// order of the keys of each write, so that series by id are runs that are
// sorted already, and as many as there were writes with new series: merging
// them takes a comparison per doubling of the runs, not of the series, and the
// keys in memory are those next in each run.
type keyOrder struct {
	keys func(ids []model.SeriesID, fn func(i int, key string) error) error
	runs []keyRun // a heap by the first key
}

// keyRun is what is left of a run.
type keyRun struct {
	window []keyed // at least one
	rest   []model.SeriesID
}

// keyWindow is how many keys of a run are read at once: half a block of the
// series log.
const keyWindow = 64

// newKeyOrder reads the keys of ids, which ascend and must not change.
func newKeyOrder(series *series.File, ids []model.SeriesID) (*keyOrder, error) {
	return orderByKey(series.Keys, ids)
}

func orderByKey(keys func([]model.SeriesID, func(int, string) error) error, ids []model.SeriesID) (*keyOrder, error) {
	o := &keyOrder{keys: keys}
	var last []byte
	start := 0
	run := func(end int) {
		if start < end {
			o.runs = append(o.runs, keyRun{rest: ids[start:end]})
		}
		start = end
	}
	if err := keys(ids, func(i int, key string) error {
		if key < string(last) {
			run(i)
		}
		last = append(last[:0], key...)
		return nil
	}); err != nil {
		return nil, err
	}
	run(len(ids))
	for i := range o.runs {
		if err := o.load(&o.runs[i]); err != nil {
			return nil, err
		}
	}
	for i := len(o.runs)/2 - 1; i >= 0; i-- {
		o.sink(i)
	}
	return o, nil
}

// load reads the next keys of a run that has some.
func (o *keyOrder) load(r *keyRun) error {
	n := min(keyWindow, len(r.rest))
	r.window = make([]keyed, n)
	err := o.keys(r.rest[:n], func(i int, key string) error {
		r.window[i] = keyed{strings.Clone(key), r.rest[i]}
		return nil
	})
	r.rest = r.rest[n:]
	return err
}

// next appends up to n series to dst; none at the end.
func (o *keyOrder) next(dst []keyed, n int) ([]keyed, error) {
	for ; n > 0 && len(o.runs) > 0; n-- {
		first := &o.runs[0]
		dst = append(dst, first.window[0])
		switch first.window = first.window[1:]; {
		case len(first.window) > 0:
		case len(first.rest) > 0:
			if err := o.load(first); err != nil {
				return nil, err
			}
		default:
			last := len(o.runs) - 1
			o.runs[0], o.runs[last] = o.runs[last], keyRun{}
			o.runs = o.runs[:last]
		}
		o.sink(0)
	}
	return dst, nil
}

// sink moves run i down to its place in the heap.
func (o *keyOrder) sink(i int) {
	key := func(i int) string { return o.runs[i].window[0].key }
	for {
		child := 2*i + 1
		if child >= len(o.runs) {
			return
		}
		if child+1 < len(o.runs) && key(child+1) < key(child) {
			child++
		}
		if key(i) <= key(child) {
			return
		}
		o.runs[i], o.runs[child] = o.runs[child], o.runs[i]
		i = child
	}
}
