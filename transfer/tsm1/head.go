package tsm1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"tsdbd/internal/binio"
)

// seriesStream reads the index of a file series by series.
type seriesStream struct {
	keys   *indexStream
	key    indexKey // the next one, if more is set
	more   bool
	names  namer
	err    error // why the index ended, nil at its end
	raw    []byte
	name   name // of the series, with memory of its own
	offset int64
}

const (
	indexWindow = 128 << 10 // of a stream of all series
	lateWindow  = 4 << 10   // of one series
)

// newSeriesStream returns the series from the key at an offset on.
func newSeriesStream(f *tsmFile, offset int64, window int) *seriesStream {
	s := &seriesStream{keys: f.stream(offset, window)}
	s.step()
	return s
}

func (s *seriesStream) step() {
	key, err := s.keys.next()
	s.key, s.more = key, err == nil
	if err != nil && err != io.EOF {
		s.err = err
	}
}

// next goes to the next series.
func (s *seriesStream) next() bool {
	s.each(func(*indexKey) {})
	if !s.more {
		return false
	}
	s.raw, s.offset = append(s.raw[:0], s.key.series...), s.key.offset
	n := s.names.name(s.raw)
	s.name = name{key: append(s.name.key[:0], n.key...), reason: n.reason}
	return true
}

// each calls fn for the keys of the series that it was not called for yet.
func (s *seriesStream) each(fn func(k *indexKey)) {
	for s.more && bytes.Equal(s.key.series, s.raw) {
		fn(&s.key)
		s.step()
	}
}

// lateSeries is a series whose canonical key is below one that precedes it in the index:
// InfluxDB orders by another spelling, and by what follows the series in the key of a
// column.
type lateSeries struct {
	key    string
	offset int64 // of its first key in the index
}

// lateBytes is about what a late series takes in memory besides its key.
const lateBytes = 64

// fileHead hands out the series of a file in ascending order of canonical keys.
type fileHead struct {
	file    *tsmFile
	rank    int
	deletes *deletes // nil: none
	main    *seriesStream
	more    bool   // of main
	highest []byte // key of main
	late    []lateSeries
	cut     int64 // series from this offset on are left out; 0: none
}

// survey reads the whole index once: it finds the late series, which may take maxLate
// bytes, and counts types.
func (h *fileHead) survey(ctx context.Context, kinds *kindTable, maxLate int, damage func(path string, offset int64, err error)) error {
	f := h.file
	s := newSeriesStream(f, f.index, indexWindow)
	var highest []byte
	bytes, first, last := 0, f.index, int64(headerBytes)
	for n := 0; s.next(); n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if text(s.name.key) <= text(highest) {
			if bytes += len(s.name.key) + lateBytes; bytes > maxLate {
				h.cut = s.offset
				damage(f.path, s.offset, errors.New("too many series out of order, those that follow are left out"))
				break
			}
			h.late = append(h.late, lateSeries{string(s.name.key), s.offset})
		} else {
			highest = append(highest[:0], s.name.key...)
		}
		s.each(func(k *indexKey) {
			if k.disorder {
				damage(f.path, k.offset, fmt.Errorf("field %q of series %q is out of order: its name, or the one before it, is damaged", k.field, s.raw))
			}
			kinds.add(s.name.key, k.field, k.kind, int64(k.count())*usualRows)
			b := k.ref(0)
			first = min(first, b.offset)
			b = k.ref(k.count() - 1)
			last = max(last, b.offset+int64(b.size))
		})
	}
	slices.SortStableFunc(h.late, func(a, b lateSeries) int { return strings.Compare(a.key, b.key) })
	switch {
	case s.err != nil:
		damage(f.path, offsetOf(s.err), fmt.Errorf("index, its further series are lost: %w", s.err))
	case h.cut == 0 && (first != headerBytes || last != f.index):
		damage(f.path, f.size-footerBytes, binio.Corruptf("", -1,
			"the index names blocks from %d to %d in a file with blocks from %d to %d, series are lost", first, last, headerBytes, f.index))
	}
	return nil
}

// count counts the types of a file again.
func (h *fileHead) count(ctx context.Context, kinds *kindTable) error {
	s := newSeriesStream(h.file, h.file.index, indexWindow)
	for n := 0; s.next(); n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s.each(func(k *indexKey) { kinds.add(s.name.key, k.field, k.kind, int64(k.count())*usualRows) })
	}
	return nil
}

// usualRows is the number of values of most full blocks.
const usualRows = 1000

// begin goes to the first series.
func (h *fileHead) begin() {
	h.main = newSeriesStream(h.file, h.file.index, indexWindow)
	h.step()
}

// step goes to the next series of the main stream, past the late ones.
func (h *fileHead) step() {
	for h.more = h.main.next(); h.more; h.more = h.main.next() {
		if h.cut > 0 && h.main.offset >= h.cut {
			h.more = false
			return
		}
		if text(h.main.name.key) > text(h.highest) {
			h.highest = append(h.highest[:0], h.main.name.key...)
			return
		}
	}
}

// next returns the key of the next series, "" at the end.
func (h *fileHead) next() string {
	if len(h.late) > 0 && (!h.more || h.late[0].key <= text(h.main.name.key)) {
		return h.late[0].key
	}
	if h.more {
		return text(h.main.name.key)
	}
	return ""
}

// take calls fn for the columns of a series, and passes it.
func (h *fileHead) take(key string, fn func(s *seriesStream, k *indexKey)) {
	for len(h.late) > 0 && h.late[0].key == key {
		s := newSeriesStream(h.file, h.late[0].offset, lateWindow)
		if s.next() {
			s.each(func(k *indexKey) { fn(s, k) })
		}
		h.late = h.late[1:]
	}
	if h.more && text(h.main.name.key) == key {
		h.main.each(func(k *indexKey) { fn(h.main, k) })
		h.step()
	}
}
