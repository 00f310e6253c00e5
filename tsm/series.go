package tsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/tsm/stats"
)

// pageHeader is the parsed start of an entry page.
type pageHeader struct {
	page                          []byte
	idWidth, sizeWidth, dataWidth int
	idBase                        uint32
	timeBase                      int64
	dataStart                     uint64
	sizes, data, entries          int // offsets in page of lanes and entries
}

func (h *pageHeader) parse(page []byte, n int) bool {
	if len(page) < pageHeaderSize {
		return false
	}
	h.page = page
	h.idWidth, h.sizeWidth, h.dataWidth = int(page[0]), int(page[1]), int(page[2])
	if h.idWidth > 4 || h.sizeWidth > 8 || h.dataWidth > 8 {
		return false
	}
	h.idBase = binary.LittleEndian.Uint32(page[3:])
	h.timeBase = int64(binary.LittleEndian.Uint64(page[7:]))
	h.dataStart = binary.LittleEndian.Uint64(page[15:])
	h.sizes = pageHeaderSize + n*h.idWidth
	h.data = h.sizes + n*h.sizeWidth
	h.entries = h.data + n*h.dataWidth
	return h.entries <= len(page)
}

func (h *pageHeader) id(i int) model.SeriesID {
	if h.idWidth == 0 {
		return model.SeriesID(h.idBase + uint32(i))
	}
	return model.SeriesID(h.idBase + uint32(lane(h.page[pageHeaderSize:], i, h.idWidth)))
}

// ChunkEntry holds the facts of the index about a chunk.
type ChunkEntry struct {
	Min, Max int64 // times of the first and the last row
	Step     int64 // distance of the times if it is the same for all, else 0
	Rows     int
	Bytes    int // size of the body

	off    uint64 // of the body: in the file, or for inline chunks in the page
	stat   int32  // number among the chunks with statistics, or -1
	inline bool
}

// Series is the decoded index entry of one series: reusable memory for
// Reader.Load. It is valid until the next Load and belongs to one goroutine.
type Series struct {
	ID     model.SeriesID
	Fields []column.Field // shared, read-only, sorted by key
	Chunks []ChunkEntry   // in order of time

	reader  *Reader
	group   int        // of header, valid if reader is not nil
	header  pageHeader // of the group's page
	pageOff uint64     // of the page in the file
	after   int        // place in the group that entry and next are of
	entry   int        // offset in the page of the entry after this one
	next    uint64     // offset in the file of the data of the series after this one
	list    uint64

	statAt    int // offset in the page of the statistics
	statEnd   int
	statCount int      // chunks with statistics
	statPos   []uint32 // per field and chunk with statistics, once statReady
	statReady []bool   // per field
	statField []uint32 // offset of each field's records, once fieldsReady
	statKnown bool
}

// TimeRange returns the range from the first to the last row.
func (s *Series) TimeRange() model.TimeRange {
	if len(s.Chunks) == 0 {
		return model.TimeRange{Min: 1, Max: 0}
	}
	return model.TimeRange{Min: s.Chunks[0].Min, Max: s.Chunks[len(s.Chunks)-1].Max}
}

// Load decodes the index entry of series i, 0 <= i < Len, into s. Loading a
// series a little after the one in s is cheapest.
func (r *Reader) Load(i int, s *Series) error {
	if i < 0 || i >= r.Len() {
		return fmt.Errorf("tsm %s: series %d of %d", r.Path(), i, r.Len())
	}
	p, k := i/groupSeries, i%groupSeries
	if s.reader != r || s.group != p {
		if s.reader != r {
			s.Fields = nil // the number of its list is another file's
		}
		s.reader = nil
		var err error
		if s.header, s.pageOff, err = r.entryPage(p); err != nil {
			return err
		}
		s.reader, s.group = r, p
		s.entry, s.next, s.after = s.header.entries, s.header.dataStart, 0
	}
	h := &s.header
	if s.after > k {
		s.entry, s.next, s.after = h.entries, h.dataStart, 0
	}
	for ; s.after < k; s.after++ {
		s.entry += int(min(lane(h.page[h.sizes:], s.after, h.sizeWidth), uint64(len(h.page))))
		if h.dataWidth > 0 {
			s.next += lane(h.page[h.data:], s.after, h.dataWidth)
		}
	}
	size := lane(h.page[h.sizes:], k, h.sizeWidth)
	data := uint64(0)
	if h.dataWidth > 0 {
		data = lane(h.page[h.data:], k, h.dataWidth)
	}
	if s.entry > len(h.page) || size > uint64(len(h.page)-s.entry) {
		return s.corrupt("entry exceeds page")
	}
	if end := r.foot.sec.keys; data > 0 && (s.next < headerSize || s.next > end || data > end-s.next) {
		return s.corrupt("chunk data exceed data section")
	}
	s.ID = h.id(k)
	if err := s.decode(s.entry, s.entry+int(size), s.next, data); err != nil {
		if err == errBadEntry {
			return s.corrupt("bad index entry")
		}
		_ = s.corrupt("")
		return err
	}
	s.entry += int(size)
	s.next += data
	s.after = k + 1
	return nil
}

// corrupt forgets what s holds and returns the error.
func (s *Series) corrupt(reason string) error {
	r := s.reader
	at := int64(s.pageOff) + int64(min(s.entry, len(s.header.page)))
	s.reader, s.Chunks, s.Fields, s.statCount = nil, s.Chunks[:0], nil, 0
	return binio.Corruptf(r.Path(), at, "tsm: %s", reason)
}

// errBadEntry is decode's word for a malformed entry; Load says where it is.
var errBadEntry = errors.New("bad index entry")

// decode decodes the entry at page[off:end]; its data are dataSize bytes at
// data in the file.
func (s *Series) decode(off, end int, data, dataSize uint64) error {
	const minBody = 5 // checksum and head length
	bad := errBadEntry
	b := s.header.page[:end]
	list, off := binio.Uvarint(b, off)
	if off < 0 {
		return bad
	}
	count, off := binio.Uvarint(b, off)
	if off < 0 || count>>2 > uint64(len(b)) {
		return bad
	}
	if s.Fields == nil || s.list != list {
		fields, err := s.reader.fieldList(list)
		if err != nil {
			return err
		}
		s.Fields, s.list = fields, list
	}
	unit := timeUnits[count&3]
	n := int(count >> 2)
	s.Chunks = s.Chunks[:0]
	last := floorDiv(s.header.timeBase, unit) * unit
	stats := int32(0)
	for i := range n {
		gap, o := binio.Uvarint(b, off)
		if o < 0 {
			return bad
		}
		word, o := binio.Uvarint(b, o)
		rows := word >> 2
		if o < 0 || rows == 0 || rows > MaxChunkRows {
			return bad
		}
		c := ChunkEntry{Rows: int(rows), stat: -1}
		c.Min = last + int64(gap)*unit
		c.Max = c.Min
		if rows > 1 {
			var d uint64
			if d, o = binio.Uvarint(b, o); o < 0 {
				return bad
			}
			span := int64(d) * unit
			if word&chunkIrregular == 0 {
				c.Step = span
				span *= int64(rows - 1)
			}
			c.Max += span
			if c.Max <= c.Min || c.Step < 0 {
				return bad
			}
		}
		if i > 0 && c.Min <= last {
			return bad
		}
		var size uint64
		inline := word&chunkInline != 0
		switch {
		case n > 1:
			if size, o = binio.Uvarint(b, o); o < 0 {
				return bad
			}
		case inline:
			size = uint64(len(b) - o)
		default:
			size = dataSize
		}
		c.inline, c.Bytes = inline, int(size)
		if inline {
			if size > uint64(len(b)-o) {
				return bad
			}
			c.off = uint64(o)
			o += int(size)
		} else {
			if size > dataSize || size < minBody {
				return bad
			}
			c.off = data
			data += size
			dataSize -= size
		}
		if rows >= StatsRows {
			c.stat = stats
			stats++
		}
		s.Chunks = append(s.Chunks, c)
		last, off = c.Max, o
	}
	if n == 0 || dataSize != 0 || stats == 0 && off != len(b) {
		return bad
	}
	s.statAt, s.statEnd, s.statCount, s.statKnown = off, end, int(stats), false
	return nil
}

// statRecord returns the statistics record of chunk k and a field.
func (s *Series) statRecord(k, field int) ([]byte, bool) {
	if k < 0 || k >= len(s.Chunks) || field < 0 || field >= len(s.Fields) || s.Chunks[k].stat < 0 {
		return nil, false
	}
	if !s.statKnown && !s.findStats() {
		return nil, false
	}
	b := s.header.page[:s.statEnd]
	if s.statCount == 1 {
		rec, _ := stats.Record(b, int(s.statField[field]))
		return rec, true
	}
	pos := s.statPos[field*s.statCount:][:s.statCount]
	if !s.statReady[field] {
		off := int(s.statField[field])
		for i := range pos {
			pos[i] = uint32(off)
			if _, off = stats.Record(b, off); off < 0 {
				return nil, false
			}
		}
		s.statReady[field] = true
	}
	rec, _ := stats.Record(b, int(pos[s.Chunks[k].stat]))
	return rec, true
}

// findStats finds where each field's statistics begin.
func (s *Series) findStats() bool {
	n := len(s.Fields)
	s.statField = grow(s.statField, n)
	b := s.header.page[:s.statEnd]
	off := s.statAt
	for i := range n {
		if s.statCount == 1 {
			s.statField[i] = uint32(off)
			if _, off = stats.Record(b, off); off < 0 {
				return false
			}
			continue
		}
		size, o := binio.Uvarint(b, off)
		// A record has a byte at least: what statPos takes is bounded by the page.
		if o < 0 || size > uint64(len(b)-o) || size < uint64(s.statCount) {
			return false
		}
		s.statField[i] = uint32(o)
		off = o + int(size)
	}
	if off != len(b) {
		return false
	}
	if s.statCount > 1 {
		s.statPos = grow(s.statPos, n*s.statCount)
		s.statReady = grow(s.statReady, n)
		clear(s.statReady)
	}
	s.statKnown = true
	return true
}

func grow[T any](v []T, n int) []T {
	if cap(v) >= n {
		return v[:n]
	}
	return make([]T, n, n+n/2)
}

// Stats sets st to the statistics of a field, by its place in Fields, in chunk k,
// and returns false if there are none and the column must be decoded. Chunks of fewer
// than StatsRows rows have none. Sum of booleans is the number of true values.
func (s *Series) Stats(k, field int, st *scan.Stats) bool {
	rec, ok := s.statRecord(k, field)
	return ok && stats.Decode(st, rec, s.Fields[field].Type, s.Chunks[k].Rows)
}

// Sum is Stats for callers that need only Count, Sum and SumError, and of integers Min
// and Max. It does not find damage in the rest of the record.
func (s *Series) Sum(k, field int, st *scan.Stats) bool {
	rec, ok := s.statRecord(k, field)
	return ok && stats.DecodeSum(st, rec, s.Fields[field].Type, s.Chunks[k].Rows)
}
