package tsm1

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/tsm1/block"
)

// The kinds of entries of a WAL segment. An entry is its kind, the length of what
// follows in 4 bytes, and a snappy block.
const (
	walWrite       = 1
	walDelete      = 2
	walDeleteRange = 3
)

// walTypes are the types of values by their numbers in a write, from 1 on.
var walTypes = [...]model.FieldType{1: model.Float, 2: model.Integer, 3: model.Boolean, 4: model.String, 5: model.Unsigned}

// walSink takes what a WAL says, in its order. What it gets is valid during the call.
type walSink struct {
	// write takes the values of a column: n times, each followed by a value.
	write func(key []byte, kind model.FieldType, n int, values []byte)
	// drop takes a delete of a column; nil: nobody does.
	drop func(key []byte, times model.TimeRange)
}

// readSegment gives the entries of a segment to a sink. It returns the offset behind the
// last entry that is whole. InfluxDB ignores a segment from its first damaged entry on,
// and so does readSegment.
func readSegment(f io.Reader, size int64, sink walSink) (int64, error) {
	r := bufio.NewReaderSize(f, 256<<10)
	var packed, entry []byte
	at := int64(0)
	for {
		var head [5]byte
		if n, err := io.ReadFull(r, head[:]); err == io.EOF {
			return at, nil
		} else if err != nil {
			return at, binio.Corruptf("", at, "entry ends after %d bytes", n)
		}
		n := int64(binary.BigEndian.Uint32(head[1:]))
		if n > size-at-5 {
			return at, binio.Corruptf("", at, "entry of %d bytes in %d", n, size-at-5)
		}
		packed = grow(packed, int(n))
		if _, err := io.ReadFull(r, packed); err != nil {
			return at, binio.Corruptf("", at, "entry of %d bytes is cut", n)
		}
		var err error
		if entry, err = block.Uncompress(entry[:cap(entry)], packed); err != nil {
			return at, binio.Corruptf("", at, "%s", binio.Reason(err))
		}
		if err := readEntry(head[0], entry, sink); err != nil {
			return at, binio.Corruptf("", at, "%s", binio.Reason(err))
		}
		at += 5 + n
	}
}

// readEntry gives an entry to a sink, after it has found it whole.
func readEntry(kind byte, b []byte, sink walSink) error {
	none := walSink{func([]byte, model.FieldType, int, []byte) {}, func([]byte, model.TimeRange) {}}
	if err := parseEntry(kind, b, none); err != nil {
		return err
	}
	if sink.drop == nil {
		sink.drop = none.drop
	}
	return parseEntry(kind, b, sink)
}

// parseEntry gives an entry to a sink as far as it is whole.
func parseEntry(kind byte, b []byte, sink walSink) error {
	switch kind {
	case walWrite:
		return readWrite(b, sink.write)
	case walDelete:
		all := model.TimeRange{Min: math.MinInt64, Max: math.MaxInt64}
		for len(b) > 0 {
			n := bytes.IndexByte(b, '\n')
			if n < 0 {
				n = len(b)
			}
			sink.drop(b[:n], all)
			b = b[min(n+1, len(b)):]
		}
		return nil
	case walDeleteRange:
		if len(b) < 16 {
			return binio.Corruptf("", -1, "delete of %d bytes", len(b))
		}
		times := model.TimeRange{Min: int64(binary.BigEndian.Uint64(b)), Max: int64(binary.BigEndian.Uint64(b[8:]))}
		for b = b[16:]; len(b) > 0; {
			if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
				return binio.Corruptf("", -1, "key beyond the end of a delete")
			}
			n := 4 + int(binary.BigEndian.Uint32(b))
			sink.drop(b[4:n], times)
			b = b[n:]
		}
		return nil
	}
	return binio.Corruptf("", -1, "unknown kind %d of an entry", kind)
}

// readWrite calls each for the columns of a write: the type, the length of the key in 2
// bytes, the key, the number of values in 4 bytes, and the values.
func readWrite(b []byte, each func(key []byte, kind model.FieldType, n int, values []byte)) error {
	for len(b) > 0 {
		if len(b) < 3 || int(b[0]) >= len(walTypes) || !walTypes[b[0]].Valid() {
			return binio.Corruptf("", -1, "values of type %d", b[0])
		}
		kind := walTypes[b[0]]
		k := 3 + int(binary.BigEndian.Uint16(b[1:]))
		if len(b) < k+4 {
			return binio.Corruptf("", -1, "key beyond the end of a write")
		}
		key, n := b[3:k], int64(binary.BigEndian.Uint32(b[k:]))
		b = b[k+4:]
		size, ok := walSize(b, kind, n)
		if !ok || n == 0 {
			return binio.Corruptf("", -1, "%d values in %d bytes", n, len(b))
		}
		each(key, kind, int(n), b[:size])
		b = b[size:]
	}
	return nil
}

// walSize returns the size of n values at the beginning of b.
func walSize(b []byte, kind model.FieldType, n int64) (size int, ok bool) {
	switch kind {
	case model.Boolean:
		return int(9 * n), 9*n <= int64(len(b))
	case model.String:
		for range n {
			if len(b)-size < 12 {
				return 0, false
			}
			length := int64(binary.BigEndian.Uint32(b[size+8:]))
			if length > int64(len(b)-size-12) {
				return 0, false
			}
			size += 12 + int(length)
		}
		return size, true
	}
	return int(16 * n), 16*n <= int64(len(b))
}

// walColumn is what the log has of one field.
type walColumn struct {
	field  string
	kind   model.FieldType
	times  []int64
	values column.Vector
}

// walSeries is what the log has of one series.
type walSeries struct {
	raw     string // its key in InfluxDB
	reason  string // why it cannot be stored
	columns []*walColumn
}

// column returns the column of a field, or nil.
func (s *walSeries) column(field []byte, kind model.FieldType) *walColumn {
	for _, c := range s.columns {
		if c.field == string(field) && c.kind == kind {
			return c
		}
	}
	return nil
}

// logWindow holds the values of a shard's WAL: those of the series from a key on.
type logWindow struct {
	segments []string
	damage   func(path string, offset int64, err error)
	kinds    *kindTable // filled by the first load
	names    namer
	window   keyWindow[walSeries]
	keys     []string
	loaded   bool
}

// load reads the log for the series from a key on.
func (l *logWindow) load(from string) {
	l.window.reset(from)
	for _, path := range l.segments {
		if at, err := readSegmentFile(path, walSink{l.write, l.drop}); err != nil && !l.loaded {
			l.damage(path, at, err)
		}
	}
	l.keys, l.loaded = l.window.keys(), true
}

// readSegmentFile is readSegment of a file.
func readSegmentFile(path string, sink walSink) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return -1, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return -1, err
	}
	return readSegment(f, info.Size(), sink)
}

// next returns the key of the next series, "" at the end.
func (l *logWindow) next() string {
	for len(l.keys) == 0 && l.window.cut {
		l.load(l.window.to)
	}
	if len(l.keys) == 0 {
		return ""
	}
	return l.keys[0]
}

// take returns the next series and passes it.
func (l *logWindow) take() *walSeries {
	s := l.window.find(l.keys[0])
	l.keys = l.keys[1:]
	return s
}

const (
	walColumnBytes = 200 // of a column without values
	walValueBytes  = 24  // of a value in slices that have grown
)

func (l *logWindow) write(key []byte, kind model.FieldType, n int, b []byte) {
	series, field, ok := splitKey(key)
	if !ok {
		return
	}
	known := l.names.name(series)
	if !l.loaded {
		l.kinds.add(known.key, field, kind, int64(n))
	}
	s := l.window.slot(known.key, len(b)+n*walValueBytes/2)
	if s == nil {
		return
	}
	if s.raw == "" {
		s.raw, s.reason = string(series), known.reason
	}
	c := s.column(field, kind)
	if c == nil {
		if s = l.window.slot(known.key, walColumnBytes); s == nil {
			return
		}
		c = &walColumn{field: string(field), kind: kind}
		c.values.Reset(kind)
		s.columns = append(s.columns, c)
	}
	eachLogged(kind, n, b, func(t int64, value []byte) {
		c.times = append(c.times, t)
		switch kind {
		case model.Boolean:
			c.values.Bools = append(c.values.Bools, value[0] == 1)
		case model.String:
			c.values.Strings = append(c.values.Strings, string(value))
		default:
			c.values.AppendWord(binary.BigEndian.Uint64(value), nil)
		}
	})
}

// eachLogged calls fn for the values of a write.
func eachLogged(kind model.FieldType, n int, b []byte, fn func(t int64, value []byte)) {
	for range n {
		t := int64(binary.BigEndian.Uint64(b))
		size := 8
		switch b = b[8:]; kind {
		case model.Boolean:
			size = 1
		case model.String:
			size = int(binary.BigEndian.Uint32(b))
			b = b[4:]
		}
		fn(t, b[:size])
		b = b[size:]
	}
}

func (l *logWindow) drop(key []byte, times model.TimeRange) {
	series, field, ok := splitKey(key)
	if !ok {
		return
	}
	s := l.window.find(string(l.names.name(series).key))
	if s == nil {
		return
	}
	for _, c := range s.columns {
		if c.field == string(field) {
			c.drop(times)
		}
	}
}

func (c *walColumn) drop(times model.TimeRange) {
	r := column.Rows{Times: c.times, Cols: []column.Vector{c.values}}
	r.Keep(func(i int) bool { return !times.Contains(r.Times[i]) }, false)
	c.times, c.values = r.Times, r.Cols[0]
}

// order sorts the rows of a column. Of two with one time the later one stays.
func (c *walColumn) order() {
	ascending := true
	for i := 1; i < len(c.times) && ascending; i++ {
		ascending = c.times[i] > c.times[i-1]
	}
	if ascending {
		return
	}
	f := column.Fold{MaxCells: math.MaxInt, MaxText: math.MaxInt}
	f.Reset([]model.FieldType{c.kind}, model.TimeRange{Min: math.MinInt64, Max: math.MaxInt64}, false)
	*f.Added() = column.Rows{Times: c.times, Cols: []column.Vector{c.values}}
	f.Settle()
	sorted := f.Finish()
	c.times, c.values = sorted.Times, sorted.Cols[0]
}

// isNotExist reports whether a file is gone, and not damaged.
func isNotExist(err error) bool { return errors.Is(err, os.ErrNotExist) }
