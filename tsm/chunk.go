package tsm

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"unsafe"

	"tsdbd/internal/binio"
	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/tsm/codec"
	"tsdbd/tsm/stats"
)

// Chunk is a chunk of rows: reusable memory for Reader.Chunk. Times and
// columns are decoded at first use and stay valid until the chunk is positioned
// again or released. The bytes of strings stay valid forever. It belongs to one goroutine. Stats
// and AllValid need the Series unchanged since the chunk was positioned with it; the
// other methods do not.
type Chunk struct {
	// Ctx bounds the reads of a body that is elsewhere (OpenTail). Nil: nothing does.
	Ctx context.Context

	r      *Reader
	s      *Series
	k      int
	e      ChunkEntry
	fields []column.Field
	body   []byte // elsewhere: nil until it is parsed, and then what was asked for
	off    int64  // of body in the file
	parsed bool   // the body's head is checked, and places set
	// Of a body that is elsewhere: bytes that were read at first, bytes of large columns that
	// were asked for, and of how many.
	have, asked, of int
	failed          error // it could not be reached
	chunkMemory
	lent *chunkMemory // that chunkMemory is a copy of, to give back; nil: it is new
}

// chunkMemory is what a chunk decodes into.
type chunkMemory struct {
	places []columnPlace
	times  struct {
		v     []int64
		ready bool
		of    timesOf // what v was decoded of, also by chunks before
	}
	// slots has, by field, one more than the place in cols of what is decoded of it, 0 for nothing.
	// A chunk may have thousands of fields, of which a query reads one.
	slots []int32
	cols  []decodedColumn
	used  int32 // of cols, by this chunk

	// Of a body that is elsewhere.
	copied []byte // what was read of it
	shared []byte // times of another chunk
}

// chunkMemories holds the memory of chunks that were released, of *chunkMemory.
var chunkMemories sync.Pool

// keptBytes bounds the memory of a chunk that is kept for other chunks.
const keptBytes = 1 << 20

// timesOf says what times were decoded of. The next series often has the same.
type timesOf struct {
	r    *Reader // nil: of no block
	off  int64
	size int
	rows int
	min  int64
}

type decodedColumn struct {
	ready  bool // vector is decoded
	vector column.Vector
	valid  column.Bitmap
}

// Chunk positions c on chunk k of a loaded series. A chunk of the data section is
// not touched before its times or a column are asked for; the checksums of large
// columns are checked each time they are decoded, or when they are copied of a body that is elsewhere.
func (r *Reader) Chunk(s *Series, k int, c *Chunk) error {
	if s.reader != r || k < 0 || k >= len(s.Chunks) {
		return fmt.Errorf("tsm %s: chunk %d of %d, or series of another file", r.Path(), k, len(s.Chunks))
	}
	c.r, c.s, c.k, c.e, c.fields, c.failed = r, s, k, s.Chunks[k], s.Fields, nil
	e := &c.e
	n := len(s.Fields)
	if c.places == nil {
		if c.lent, _ = chunkMemories.Get().(*chunkMemory); c.lent != nil {
			c.chunkMemory = *c.lent
		}
	}
	c.times.ready = false
	if cap(c.places) <= n {
		room := n + n/2 + 1
		c.slots, c.places = make([]int32, room), make([]columnPlace, room+1)
	}
	c.slots, c.used = c.slots[:n], 0
	clear(c.slots)
	c.places = c.places[:n+c.timeColumns()]
	if c.parsed = e.inline; c.parsed {
		end := e.off + uint64(e.Bytes)
		c.body, c.off = s.header.page[e.off:end:end], int64(s.pageOff+e.off)
		if !parseInlineBody(c.body, c.places) {
			return c.corrupt(0, "bad chunk in index entry")
		}
		return nil
	}
	end := e.off + uint64(e.Bytes)
	c.off = int64(e.off)
	if c.body = nil; r.body == nil {
		c.body = r.section(e.off, end)
	}
	return nil
}

// Release gives the memory of the chunk to other chunks. Its times and columns are not
// valid any more. The chunk may be positioned again.
func (c *Chunk) Release() {
	if c.places == nil {
		return // it was never positioned
	}
	m := c.lent
	if m == nil {
		m = new(chunkMemory)
	}
	*m = c.chunkMemory
	*c = Chunk{}
	m.times.of = timesOf{}
	bytes := len(m.cols)*int(unsafe.Sizeof(decodedColumn{})) + cap(m.copied) + cap(m.shared) +
		cap(m.places)*int(unsafe.Sizeof(columnPlace{})) + 4*cap(m.slots)
	for i := range m.cols {
		v := &m.cols[i].vector
		v.Strings = nil // they would keep their bytes
		bytes += 8*(cap(v.Floats)+cap(v.Ints)+cap(v.Uints)) + cap(v.Bools)
	}
	if bytes <= keptBytes {
		chunkMemories.Put(m)
	}
}

// parse checks the head of the body, once.
func (c *Chunk) parse() error {
	if c.parsed {
		return nil
	}
	if c.r.body != nil {
		return c.fetchHead()
	}
	c.parsed = true
	if reason, at := parseDataBody(c.body, c.places); reason != "" {
		return c.corrupt(at, reason)
	}
	return nil
}

func (c *Chunk) corrupt(at int, reason string) error {
	c.places = c.places[:0]
	return c.damage(c.off+int64(at), reason)
}

// damage returns the error for damage of the chunk's body at an offset of the file.
func (c *Chunk) damage(at int64, reason string) error {
	path := c.r.Path()
	if !c.e.inline {
		path = c.r.blamed()
	}
	return binio.Corruptf(path, at, "tsm: %s", reason)
}

// column returns where the column of a field is decoded to. It stays there until the chunk is
// positioned again, also if cols grows.
func (c *Chunk) column(field int) *decodedColumn {
	at := c.slots[field]
	if at == 0 {
		at = c.newSlot(field)
	}
	return &c.cols[at-1]
}

func (c *Chunk) newSlot(field int) int32 {
	if int(c.used) == len(c.cols) {
		c.cols = append(c.cols, make([]decodedColumn, max(4, len(c.cols)))...)
	}
	c.cols[c.used].ready = false
	c.used++
	c.slots[field] = c.used
	return c.used
}

// timeColumns returns 1 if the body has a column of times.
func (c *Chunk) timeColumns() int {
	if c.e.Rows > 1 && c.e.Step == 0 {
		return 1
	}
	return 0
}

// Len returns the number of rows.
func (c *Chunk) Len() int { return c.e.Rows }

// Min returns the time of the first row.
func (c *Chunk) Min() int64 { return c.e.Min }

// Max returns the time of the last row.
func (c *Chunk) Max() int64 { return c.e.Max }

// Step returns the distance of the times if they are regular, else 0.
func (c *Chunk) Step() int64 { return c.e.Step }

// Stats returns the statistics of a field as Series.Stats does.
func (c *Chunk) Stats(field int, st *scan.Stats) bool { return c.s.Stats(c.k, field, st) }

// Sum is Stats for callers that need only Count, Sum and SumError.
func (c *Chunk) Sum(field int, st *scan.Stats) bool { return c.s.Sum(c.k, field, st) }

// raw returns the bytes of the column at place i, checked.
func (c *Chunk) raw(i int) ([]byte, error) {
	if err := c.parse(); err != nil {
		return nil, err
	}
	if i >= len(c.places) {
		return nil, c.corrupt(0, "chunk is damaged")
	}
	p := &c.places[i]
	b := c.body[p.off : p.off+p.size : p.off+p.size]
	if p.size >= smallColumn && !c.e.inline {
		if c.r.body != nil {
			return b, c.fetchColumn(p)
		}
		if binio.Checksum(b) != binary.LittleEndian.Uint32(c.body[p.off-4:]) {
			return nil, c.damage(c.off+int64(p.off), "column checksum mismatch")
		}
	}
	return b, nil
}

// presence returns how many rows have a value in the column at place i, whose bytes
// are b, and the offset of the values in b. If some rows have none it sets valid.
func (c *Chunk) presence(i int, b []byte, valid *column.Bitmap) (count, off int, err error) {
	rows := c.e.Rows
	if len(b) == 0 || !c.places[i].sparse {
		if len(b) > 0 {
			count = rows
		}
		return count, 0, nil
	}
	*valid = grow(*valid, (rows+63)/64)
	if count, off = decodePresence(*valid, b, rows); off < 0 {
		return 0, 0, c.damage(c.off+int64(c.places[i].off), fmt.Sprintf("bad presence of column %d", i-c.timeColumns()))
	}
	return count, off, nil
}

// Times returns the times of the rows, strictly ascending.
func (c *Chunk) Times() ([]int64, error) {
	t := &c.times
	if t.ready {
		return t.v, nil
	}
	rows := c.e.Rows
	if c.timeColumns() == 0 {
		t.of = timesOf{}
		if cap(t.v) < rows {
			t.v = make([]int64, rows, max(rows, 1024))
		}
		t.v = t.v[:rows]
		at := c.e.Min
		for i := range t.v {
			t.v[i] = at
			at += c.e.Step
		}
		t.ready = true
		return t.v, nil
	}
	b, off, err := c.timeBlock()
	if err != nil {
		return nil, err
	}
	of := timesOf{r: c.r, off: off, size: len(b), rows: rows, min: c.e.Min}
	if t.of == of && t.v[rows-1] == c.e.Max {
		t.ready = true
		return t.v, nil
	}
	t.of = timesOf{}
	t.v, err = codec.DecodeTimes(t.v[:0], b, rows)
	if err != nil || len(t.v) != rows || t.v[0] != 0 || t.v[rows-1] != c.e.Max-c.e.Min {
		return nil, c.damage(off, "bad time column")
	}
	for i := range t.v {
		t.v[i] += c.e.Min
	}
	t.ready, t.of = true, of
	return t.v, nil
}

// Column returns the column of a field, by its place in Series.Fields. A field
// without values gives a vector with no valid row.
func (c *Chunk) Column(field int) (*column.Vector, error) {
	if field < 0 || field >= len(c.slots) {
		return nil, fmt.Errorf("tsm %s: column %d of %d", c.r.Path(), field, len(c.slots))
	}
	d := c.column(field)
	v := &d.vector
	if d.ready {
		return v, nil
	}
	i := field + c.timeColumns()
	b, err := c.raw(i)
	if err != nil {
		return nil, err
	}
	clear(v.Strings) // what the chunk before held, before more is taken
	v.Reset(c.fields[field].Type)
	rows := c.e.Rows
	if len(b) == 0 {
		d.valid = grow(d.valid, (rows+63)/64)
		clear(d.valid)
		spread(v, 0, rows, d.valid)
		d.ready = true
		return v, nil
	}
	count, off, err := c.presence(i, b, &d.valid)
	if err != nil {
		return nil, err
	}
	if !decodeValues(v, b[off:], count) {
		return nil, c.damage(c.off+int64(c.places[i].off), fmt.Sprintf("bad values of column %d", field))
	}
	if count < rows {
		spread(v, count, rows, d.valid)
	}
	d.ready = true
	return v, nil
}

// TextBytes returns how many bytes Column takes for the texts of a field of
// strings: 0 if it holds them already.
func (c *Chunk) TextBytes(field int) (int, error) {
	if field < 0 || field >= len(c.slots) || c.fields[field].Type != model.String {
		return 0, nil
	}
	d := c.column(field)
	if d.ready {
		return 0, nil
	}
	i := field + c.timeColumns()
	b, err := c.raw(i)
	if err != nil || len(b) == 0 {
		return 0, err
	}
	count, off, err := c.presence(i, b, &d.valid)
	if err != nil {
		return 0, err
	}
	if count == 1 {
		return len(b) - off, nil // the value itself
	}
	n, err := codec.TextBytes(b[off:])
	if err != nil {
		return 0, c.damage(c.off+int64(c.places[i].off), fmt.Sprintf("bad values of column %d", field))
	}
	return n, nil
}

// MayHaveNaN reports whether a value of a field of floats may be NaN. It decodes the
// column if neither statistics nor the form of the column tell.
func (c *Chunk) MayHaveNaN(field int) bool {
	if field < 0 || field >= len(c.slots) || c.fields[field].Type != model.Float {
		return false
	}
	if rec, ok := c.s.statRecord(c.k, field); ok {
		return stats.MayHaveNaN(rec, c.e.Rows)
	}
	if i := field + c.timeColumns(); c.noNaN(i) {
		return false
	}
	v, err := c.Column(field)
	return err != nil || vector.HasNaN(v.Floats)
}

// noNaN reports whether the form of the column at place i, which is of floats, says
// that it has no NaN.
func (c *Chunk) noNaN(i int) bool {
	b, err := c.raw(i)
	switch {
	case err != nil:
		return false
	case len(b) == 0:
		return true
	case c.places[i].sparse: // the block is behind the presence
		return false
	case c.e.Rows == 1:
		return len(b) < 8 // a decimal
	}
	return codec.NoNaN(b)
}

// AllValid reports, without decoding, that every row has a value of the field.
func (c *Chunk) AllValid(field int) bool {
	if rec, ok := c.s.statRecord(c.k, field); ok {
		return stats.AllValid(rec)
	}
	i := field + c.timeColumns()
	return c.parse() == nil && i < len(c.places) && c.places[i].size > 0 && !c.places[i].sparse
}
