package tsm1test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"sync"

	"github.com/golang/snappy"

	"tsdbd/model"
	"tsdbd/model/column"
)

// Separator is between the series and the field in the key of a column.
const Separator = "#!~#"

// File is a TSM file. Columns are added in order of their keys.
type File struct {
	data, index []byte
}

// Add adds a column of a series with rows in one block each.
func (f *File) Add(series, field string, blocks ...column.Rows) {
	var list [][]byte
	var times []model.TimeRange
	for _, r := range blocks {
		list = append(list, Block(r.Times, &r.Cols[0]))
		times = append(times, model.TimeRange{Min: r.Times[0], Max: r.Times[len(r.Times)-1]})
	}
	f.AddBlocks(series+Separator+field, blocks[0].Cols[0].Type, times, list)
}

// AddBlocks adds a column of encoded blocks.
func (f *File) AddBlocks(key string, kind model.FieldType, times []model.TimeRange, blocks [][]byte) {
	if f.data == nil {
		f.data = []byte{0x16, 0xd1, 0x16, 0xd1, 1}
	}
	f.index = append(binary.BigEndian.AppendUint16(f.index, uint16(len(key))), key...)
	f.index = binary.BigEndian.AppendUint16(append(f.index, kinds[kind]), uint16(len(blocks)))
	for i, b := range blocks {
		f.index = binary.BigEndian.AppendUint64(f.index, uint64(times[i].Min))
		f.index = binary.BigEndian.AppendUint64(f.index, uint64(times[i].Max))
		f.index = binary.BigEndian.AppendUint64(f.index, uint64(len(f.data)))
		f.index = binary.BigEndian.AppendUint32(f.index, uint32(len(b)))
		f.data = append(f.data, b...)
	}
}

// Bytes returns the file.
func (f *File) Bytes() []byte {
	b := append(bytes.Clone(f.data), f.index...)
	return binary.BigEndian.AppendUint64(b, uint64(len(f.data)))
}

// Delete is an entry of a file of tombstones.
type Delete struct {
	Key       string // of a column
	Times     model.TimeRange
	Prefix    bool // the key is the beginning of keys
	Predicate string
}

// Tombstones returns a file of tombstones of a version. In version 4 each delete has a
// gzip member of its own.
func Tombstones(version int, deletes ...Delete) []byte {
	var out []byte
	if version > 1 {
		out = binary.BigEndian.AppendUint32(nil, 0x1500+uint32(version))
	}
	var all []byte
	for _, d := range deletes {
		if version == 1 {
			out = append(append(out, d.Key...), '\n')
			continue
		}
		n := uint32(len(d.Key))
		if d.Prefix {
			n |= 1 << 31
		}
		if d.Predicate != "" {
			n |= 1 << 30
		}
		b := append(binary.BigEndian.AppendUint32(nil, n), d.Key...)
		b = binary.BigEndian.AppendUint64(b, uint64(d.Times.Min))
		b = binary.BigEndian.AppendUint64(b, uint64(d.Times.Max))
		if d.Predicate != "" {
			b = append(binary.BigEndian.AppendUint64(b, uint64(len(d.Predicate))), d.Predicate...)
		}
		if version == 4 {
			out = append(out, gzipped(b)...)
		}
		all = append(all, b...)
	}
	switch version {
	case 2:
		out = append(out, all...)
	case 3:
		out = append(out, gzipped(all)...)
	}
	return out
}

// gzips holds writers: a new one takes a megabyte, and a file of deletes has one member for each.
var gzips = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzips.Get().(*gzip.Writer)
	defer gzips.Put(z)
	z.Reset(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// Segment is a segment of the WAL.
type Segment struct{ Bytes []byte }

func (s *Segment) entry(kind byte, b []byte) {
	packed := snappy.Encode(nil, b)
	s.Bytes = binary.BigEndian.AppendUint32(append(s.Bytes, kind), uint32(len(packed)))
	s.Bytes = append(s.Bytes, packed...)
}

// walKinds are the types of values by their numbers in the WAL.
var walKinds = map[model.FieldType]byte{model.Float: 1, model.Integer: 2, model.Boolean: 3, model.String: 4, model.Unsigned: 5}

// Write adds a write of one column.
func (s *Segment) Write(series, field string, r column.Rows) {
	key, v := series+Separator+field, &r.Cols[0]
	b := append(binary.BigEndian.AppendUint16([]byte{walKinds[v.Type]}, uint16(len(key))), key...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Times)))
	for i, t := range r.Times {
		b = binary.BigEndian.AppendUint64(b, uint64(t))
		switch v.Type {
		case model.Boolean:
			b = append(b, 0)
			if v.Bools[i] {
				b[len(b)-1] = 1
			}
		case model.String:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v.Strings[i]))), v.Strings[i]...)
		default:
			b = binary.BigEndian.AppendUint64(b, Word(v, i))
		}
	}
	s.entry(1, b)
}

// Delete adds a delete of columns.
func (s *Segment) Delete(keys ...string) {
	var b []byte
	for i, k := range keys {
		if i > 0 {
			b = append(b, '\n')
		}
		b = append(b, k...)
	}
	s.entry(2, b)
}

// DeleteRange adds a delete of columns within times.
func (s *Segment) DeleteRange(times model.TimeRange, keys ...string) {
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(times.Min)), uint64(times.Max))
	for _, k := range keys {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(k))), k...)
	}
	s.entry(3, b)
}
