package tsm

import (
	"encoding/binary"
	"errors"
	"slices"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
)

// An entry page holds the index entries of a group of up to 64 series:
//
//	idWidth u8 | entryWidth u8 | dataWidth u8 | idBase u32 | timeBase i64 | dataStart u64
//	lane of ids - idBase        (width 0: ids ascend by 1)
//	lane of entry sizes
//	lane of data sizes          (width 0: no series has data)
//	entries
//
// An entry:
//
//	field list varint | chunks<<2 | time unit varint
//	per chunk:
//	  gap varint         (first: min/unit - floor(timeBase/unit); else (min - max of the chunk before)/unit)
//	  rows<<2 | inline<<1 | irregular varint
//	  step/unit varint   (regular, rows > 1), or span/unit varint (irregular)
//	  size varint        (series with several chunks; else the rest of the entry, or the data size)
//	  body               (inline)
//	per field, if a chunk has statistics:
//	  size varint        (several chunks have statistics)
//	  a record per chunk that has statistics

const (
	chunkIrregular = 1 << 0
	chunkInline    = 1 << 1
)

type pendingChunk struct {
	min, max, step int64
	rows           int
	inline         bool
	size           uint64
}

// openSeries is the series that is being written.
type openSeries struct {
	open   bool
	id     model.SeriesID
	key    string
	list   uint32
	fields []column.Field
	chunks []pendingChunk
	inline []byte   // bodies of inline chunks
	stats  [][]byte // per field
	data   uint64   // bytes in the data section
}

func (s *openSeries) begin(id model.SeriesID, key string, list uint32, fields []column.Field) {
	s.open, s.id, s.key, s.list, s.fields = true, id, key, list, fields
	s.chunks, s.inline, s.data = s.chunks[:0], s.inline[:0], 0
	for len(s.stats) < len(fields) {
		s.stats = append(s.stats, nil)
	}
	for i := range fields {
		s.stats[i] = s.stats[i][:0]
	}
}

// openGroup is the group that is being written. Entries wait for the group's
// base time, which the first gap of each depends on.
type openGroup struct {
	keys      []string
	entries   []byte // each without its head
	heads     []entryHead
	dataStart uint64
	page      []byte
}

type entryHead struct {
	id     uint32
	list   uint32
	chunks uint64 // chunks<<2 | unit
	min    int64
	unit   int64
	tail   int // size of the rest in entries
	data   uint64
}

// endSeries encodes the entry of the current series.
func (w *Writer) endSeries() error {
	s := &w.series
	if w.err != nil || !s.open {
		return w.err
	}
	s.open = false
	if len(s.chunks) == 0 {
		return nil
	}
	unit := 3
	withStats := 0
	for i := range s.chunks {
		c := &s.chunks[i]
		for c.min%timeUnits[unit] != 0 || c.max%timeUnits[unit] != 0 || c.step%timeUnits[unit] != 0 {
			unit--
		}
		if c.rows >= StatsRows {
			withStats++
		}
	}
	u := uint64(timeUnits[unit])
	g := &w.group
	if len(g.heads) == 0 {
		// The series' data, if any, were written already.
		g.dataStart = w.offset - s.data
	}
	at := len(g.entries)
	b := g.entries
	inline := 0
	for i := range s.chunks {
		c := &s.chunks[i]
		if i > 0 {
			b = binary.AppendUvarint(b, uint64(c.min-s.chunks[i-1].max)/u)
		}
		word := uint64(c.rows) << 2
		if c.inline {
			word |= chunkInline
		}
		irregular := c.rows > 1 && c.step == 0
		if irregular {
			word |= chunkIrregular
		}
		b = binary.AppendUvarint(b, word)
		if irregular {
			b = binary.AppendUvarint(b, uint64(c.max-c.min)/u)
		} else if c.rows > 1 {
			b = binary.AppendUvarint(b, uint64(c.step)/u)
		}
		if len(s.chunks) > 1 {
			b = binary.AppendUvarint(b, c.size)
		}
		if c.inline {
			b = append(b, s.inline[inline:inline+int(c.size)]...)
			inline += int(c.size)
		}
	}
	if withStats > 0 {
		for i := range s.fields {
			if withStats > 1 {
				b = binary.AppendUvarint(b, uint64(len(s.stats[i])))
			}
			b = append(b, s.stats[i]...)
		}
	}
	g.entries = b
	g.heads = append(g.heads, entryHead{
		id: uint32(s.id), list: s.list, chunks: uint64(len(s.chunks))<<2 | uint64(unit),
		min: s.chunks[0].min, unit: int64(u), tail: len(b) - at, data: s.data,
	})
	g.keys = append(g.keys, s.key)
	if w.info.Series == 0 {
		w.info.MinKey = s.key
	}
	w.info.MaxKey = s.key
	w.ids = append(w.ids, uint64(s.id)<<32|uint64(w.info.Series))
	w.info.Series++
	if len(g.heads) == groupSeries {
		return w.endGroup()
	}
	return nil
}

// endGroup encodes the key page and the entry page of the current group.
func (w *Writer) endGroup() error {
	g := &w.group
	n := len(g.heads)
	if n == 0 {
		return nil
	}
	w.dir = binary.LittleEndian.AppendUint64(w.dir, w.keys.len())
	w.dir = binary.LittleEndian.AppendUint64(w.dir, w.pages.len())
	form, keys := w.scratch.keys.Pack(g.keys)
	w.keys.buf = append(append(w.keys.buf, byte(form)), keys...)
	clear(g.keys)

	idBase, timeBase := g.heads[0].id, g.heads[0].min
	consecutive := true
	for i := range g.heads {
		h := &g.heads[i]
		consecutive = consecutive && h.id == g.heads[0].id+uint32(i) && h.id >= g.heads[0].id
		idBase, timeBase = min(idBase, h.id), min(timeBase, h.min)
	}
	// Heads go to page first, for their sizes.
	g.page = g.page[:0]
	var sizes [groupSeries]uint64
	var idMost, sizeMost, dataMost uint64
	for i := range g.heads {
		h := &g.heads[i]
		at := len(g.page)
		g.page = h.append(g.page, timeBase)
		sizes[i] = uint64(len(g.page) - at + h.tail)
		idMost = max(idMost, uint64(h.id-idBase))
		sizeMost = max(sizeMost, sizes[i])
		dataMost = max(dataMost, h.data)
	}
	idWidth, sizeWidth, dataWidth := laneWidth(idMost), laneWidth(sizeMost), laneWidth(dataMost)
	if consecutive {
		idWidth = 0
	}
	b := append(w.pages.buf, byte(idWidth), byte(sizeWidth), byte(dataWidth))
	b = binary.LittleEndian.AppendUint32(b, idBase)
	b = binary.LittleEndian.AppendUint64(b, uint64(timeBase))
	b = binary.LittleEndian.AppendUint64(b, g.dataStart)
	for i := range g.heads {
		b = appendLane(b, uint64(g.heads[i].id-idBase), idWidth)
	}
	for i := range g.heads {
		b = appendLane(b, sizes[i], sizeWidth)
	}
	for i := range g.heads {
		b = appendLane(b, g.heads[i].data, dataWidth)
	}
	head, tail := g.page, g.entries
	for i := range g.heads {
		t := g.heads[i].tail
		k := int(sizes[i]) - t
		b = append(append(b, head[:k]...), tail[:t]...)
		head, tail = head[k:], tail[t:]
	}
	w.pages.buf = b
	g.heads, g.entries, g.keys = g.heads[:0], g.entries[:0], g.keys[:0]
	if err := errors.Join(w.keys.spill(), w.pages.spill()); err != nil {
		return w.fail(err)
	}
	return nil
}

func (h *entryHead) append(dst []byte, timeBase int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(h.list))
	dst = binary.AppendUvarint(dst, h.chunks)
	return binary.AppendUvarint(dst, uint64(h.min/h.unit-floorDiv(timeBase, h.unit)))
}

// fieldLists numbers the distinct field lists of a file.
type fieldLists struct {
	numbers map[string]uint32
	text    []byte
	offsets []uint32         // of each list in text
	fields  [][]column.Field // owned copies
	last    []column.Field   // the list numbered last
	lastNo  uint32
	key     []byte
}

// number returns the number of a list, adding it if it is new, and sets last
// to an owned copy.
func (l *fieldLists) number(fields []column.Field) uint32 {
	if len(l.offsets) > 0 && slices.Equal(l.last, fields) {
		return l.lastNo
	}
	l.key = appendFieldList(l.key[:0], fields)
	n, ok := l.numbers[string(l.key)]
	if !ok {
		n = uint32(len(l.offsets))
		l.numbers[string(l.key)] = n
		l.offsets = append(l.offsets, uint32(len(l.text)))
		l.text = append(l.text, l.key...)
		l.fields = append(l.fields, append([]column.Field(nil), fields...))
	}
	l.last, l.lastNo = l.fields[n], n
	return n
}

// appendFieldList appends count varint, then key and type u8 of each field.
func appendFieldList(dst []byte, fields []column.Field) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(fields)))
	for i := range fields {
		dst = binio.AppendString(dst, fields[i].Key)
		dst = append(dst, byte(fields[i].Type))
	}
	return dst
}

func decodeFieldList(b []byte) ([]column.Field, bool) {
	d := binio.NewDecoder(b)
	fields := make([]column.Field, d.Count(2))
	for i := range fields {
		fields[i].Key = d.String()
		fields[i].Type = model.FieldType(d.Byte())
		if !fields[i].Type.Valid() || i > 0 && fields[i].Key <= fields[i-1].Key {
			return nil, false
		}
	}
	return fields, d.Err() == nil && d.Len() == 0
}
