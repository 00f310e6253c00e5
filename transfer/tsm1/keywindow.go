package tsm1

import (
	"maps"
	"slices"
)

// keyWindow holds what a log says of the series from a key on, as many series as its
// memory allows. Its owner reads the log again for the next ones, so that a log of any
// size is read in bounded memory.
type keyWindow[T any] struct {
	limit  int    // bytes; a single series may take more
	from   string // the first key that is wanted
	to     string // if cut: the first key that did not fit
	cut    bool
	series map[string]*windowed[T]
	bytes  int
}

type windowed[T any] struct {
	value T
	bytes int
}

// windowedBytes is about what a series takes in the map besides its key.
const windowedBytes = 160

// reset empties the window for series from a key on.
func (w *keyWindow[T]) reset(from string) {
	w.from, w.to, w.cut, w.series, w.bytes = from, "", false, map[string]*windowed[T]{}, 0
}

// slot returns the value of a series, which is about to grow by so many bytes, or nil if
// the series is not in the window.
func (w *keyWindow[T]) slot(key []byte, bytes int) *T {
	if text(key) < w.from || w.cut && text(key) >= w.to {
		return nil
	}
	s := w.series[string(key)]
	if s == nil {
		s = &windowed[T]{}
		w.series[string(key)] = s
		bytes += windowedBytes + len(key)
	}
	s.bytes += bytes
	if w.bytes += bytes; w.bytes > w.limit && len(w.series) > 1 {
		w.trim()
		if text(key) >= w.to {
			return nil
		}
	}
	return &s.value
}

// find returns the value of a series, or nil.
func (w *keyWindow[T]) find(key string) *T {
	if s := w.series[key]; s != nil {
		return &s.value
	}
	return nil
}

// trim drops the upper half of the series.
func (w *keyWindow[T]) trim() {
	keys := w.keys()
	half := len(keys) / 2
	w.to, w.cut = keys[half], true
	for _, k := range keys[half:] {
		w.bytes -= w.series[k].bytes
		delete(w.series, k)
	}
}

// keys returns the series of the window in order.
func (w *keyWindow[T]) keys() []string { return slices.Sorted(maps.Keys(w.series)) }
