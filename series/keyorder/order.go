package keyorder

import (
	"errors"
	"strings"

	"tsdbd/model"
)

// Series is a series with its key.
type Series struct {
	Key string
	ID  model.SeriesID
}

// Keys calls fn with the key of each id, as series.File.Keys does.
type Keys func(ids []model.SeriesID, fn func(i int, key string) error) error

// Order gives series in the order of their keys.
type Order struct {
	keys Keys
	runs []run // a heap by the first key
}

// run is what is left of a run.
type run struct {
	window []Series // at least one
	rest   []model.SeriesID
}

// windowKeys is how many keys of a run are read at once, and windowText the bytes of keys
// above which it is fewer: half a block of the series log.
const (
	windowKeys = 64
	windowText = 32 << 10
)

// errFull ends a walk of keys whose window is full.
var errFull = errors.New("window is full")

// New reads the keys of ids, which ascend and must not change.
func New(keys Keys, ids []model.SeriesID) (*Order, error) {
	o := &Order{keys: keys}
	var last []byte
	start := 0
	end := func(at int) {
		if start < at {
			o.runs = append(o.runs, run{rest: ids[start:at]})
		}
		start = at
	}
	if err := keys(ids, func(i int, key string) error {
		if key < string(last) {
			end(i)
		}
		last = append(last[:0], key...)
		return nil
	}); err != nil {
		return nil, err
	}
	end(len(ids))
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
func (o *Order) load(r *run) error {
	n, text := min(windowKeys, len(r.rest)), 0
	r.window = make([]Series, 0, n)
	err := o.keys(r.rest[:n], func(i int, key string) error {
		if text > windowText {
			return errFull
		}
		text += len(key)
		r.window = append(r.window, Series{strings.Clone(key), r.rest[i]})
		return nil
	})
	r.rest = r.rest[len(r.window):]
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// Next appends up to n series to dst; none at the end.
func (o *Order) Next(dst []Series, n int) ([]Series, error) {
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
			o.runs[0], o.runs[last] = o.runs[last], run{}
			o.runs = o.runs[:last]
		}
		o.sink(0)
	}
	return dst, nil
}

// sink moves run i down to its place in the heap.
func (o *Order) sink(i int) {
	key := func(i int) string { return o.runs[i].window[0].Key }
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
