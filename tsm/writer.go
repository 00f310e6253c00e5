package tsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/keyblock"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/tsm/codec"
	"tsdbd/tsm/stats"
)

// WriterOptions configure a Writer. The zero value works.
type WriterOptions struct {
	// MinSequence and MaxSequence are kept in the footer: the log sequence
	// numbers whose effects the file holds.
	MinSequence, MaxSequence uint64
	// Level is kept in the footer: 0 for a flush.
	Level int
	// Dense takes the denser forms of blocks, which take longer to write; see
	// codec.AppendDense.
	Dense bool
	// IndexMemory bounds the bytes of the index kept in memory until Finish;
	// more goes to scratch files in the same directory. 0 is 8 MiB. Not counted are
	// 8 bytes per series and the index entries of 64 series.
	IndexMemory int
}

// ScratchNames returns the names of the scratch files that a Writer of path may make.
// A crash leaves them, and their owner removes them.
func ScratchNames(path string) []string { return []string{path + ".keys", path + ".entries"} }

// writeBuffer is the size of the writes to the file.
const writeBuffer = 256 << 10

// writeBuffers keeps the buffers of Writers for others.
var writeBuffers = sync.Pool{New: func() any { return new([writeBuffer]byte) }}

// Writer writes one file. After an error every call returns it and only Abort
// makes sense. It belongs to one goroutine.
type Writer struct {
	fs   vfs.FS
	path string
	opt  WriterOptions
	file vfs.File
	err  error
	done bool // finished or aborted

	buf     []byte // not yet written, in a buffer of writeBuffers
	offset  uint64 // of the end of buf in the file
	hash    xxhash.Digest
	index   bool   // in the index region: cut into checksummed blocks
	blocks  []byte // checksum table
	block   uint32 // running checksum of the last block
	blockAt int    // bytes in it

	info  Info
	ids   []uint64 // id<<32 | ordinal
	dir   []byte   // offsets of pages in their parts, a pair per group
	keys  spool
	pages spool
	lists fieldLists

	times   timeBlocks
	series  openSeries
	group   openGroup
	lastKey string // of Series, kept or not
	scratch struct {
		values column.Vector
		times  []int64
		cols   []rawColumn
		arena  []byte
		ends   []int // of each column in arena
		stats  []scan.Stats
		dense  []byte
		body   []byte
		keys   keyblock.Packer
	}
	merge mergeState
}

// Create makes the file at path, truncating what is there.
func Create(fs vfs.FS, path string, opt WriterOptions) (*Writer, error) {
	f, err := fs.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create tsm %s: %w", path, err)
	}
	w := &Writer{fs: fs, path: path, opt: opt, file: f, buf: writeBuffers.Get().(*[writeBuffer]byte)[:0]}
	limit := spoolMemory
	if opt.IndexMemory > 0 {
		limit = opt.IndexMemory / 2
	}
	scratch := ScratchNames(path)
	w.keys = spool{fs: fs, path: scratch[0], limit: limit}
	w.pages = spool{fs: fs, path: scratch[1], limit: limit}
	w.hash.Reset()
	w.info = Info{
		Path: path, MinSequence: opt.MinSequence, MaxSequence: opt.MaxSequence, Level: opt.Level,
		Range: model.TimeRange{Min: 1, Max: 0},
	}
	w.lists.numbers = make(map[string]uint32)
	if err := w.write(appendHeader(nil)); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

// fail makes err the error of all later calls.
func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = fmt.Errorf("write tsm %s: %w", w.path, err)
	}
	return w.err
}

// write appends b to the file. After an error it writes nothing, and returns that.
func (w *Writer) write(b []byte) error {
	if w.index {
		for rest := b; len(rest) > 0; {
			n := min(len(rest), blockSize-w.blockAt)
			w.block = binio.ChecksumUpdate(w.block, rest[:n])
			w.blockAt += n
			rest = rest[n:]
			if w.blockAt == blockSize {
				w.endBlock()
			}
		}
	}
	w.offset += uint64(len(b))
	for len(b) > 0 {
		n := min(len(b), writeBuffer-len(w.buf))
		w.buf = append(w.buf, b[:n]...)
		b = b[n:]
		if len(w.buf) == writeBuffer {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// freeBuffer gives the buffer to other Writers. Nothing is written afterwards.
func (w *Writer) freeBuffer() {
	writeBuffers.Put((*[writeBuffer]byte)(w.buf[:writeBuffer]))
	w.buf = nil
}

func (w *Writer) endBlock() {
	if w.blockAt > 0 {
		w.blocks = binary.LittleEndian.AppendUint32(w.blocks, w.block)
		w.block, w.blockAt = 0, 0
	}
}

func (w *Writer) flush() error {
	if w.err != nil {
		w.buf = w.buf[:0]
		return w.err
	}
	_, _ = w.hash.Write(w.buf)
	if _, err := w.file.Write(w.buf); err != nil {
		return w.fail(err)
	}
	w.buf = w.buf[:0]
	return nil
}

// Series starts a series. Keys come in strictly ascending order; fields are
// all fields that the series has in this file, sorted by key, and are not
// kept. A series that gets no chunk is not written.
func (w *Writer) Series(id model.SeriesID, key string, fields []column.Field) error {
	if err := w.endSeries(); err != nil {
		return err
	}
	if id == 0 || key == "" || len(key) > model.MaxKeyLength || key <= w.lastKey {
		return w.fail(fmt.Errorf("series %d %.100q: id 0, or key empty, too long or not after %.100q", id, key, w.lastKey))
	}
	for i := range fields {
		if !fields[i].Type.Valid() || i > 0 && fields[i].Key <= fields[i-1].Key {
			return w.fail(fmt.Errorf("series %.100q: field %.100q has no type or is not in order", key, fields[i].Key))
		}
	}
	w.lastKey = key
	list := w.lists.number(fields)
	w.series.begin(id, key, list, w.lists.last)
	return nil
}

// Append adds a chunk of 1 to MaxChunkRows rows to the current series. Times
// are strictly ascending and later than those of the chunk before. There is a
// column per field, of as many rows; slots of null rows hold anything. Strings
// have at most MaxChunkText bytes together.
func (w *Writer) Append(times []int64, cols []column.Vector) error {
	if w.err != nil {
		return w.err
	}
	s := &w.series
	rows := len(times)
	if err := w.checkAppend(times, cols); err != nil {
		return w.fail(fmt.Errorf("series %.100q: %w", s.key, err))
	}
	var step int64
	regular := true
	if rows > 1 {
		step = times[1] - times[0]
		for i := 1; i < rows; i++ {
			d := times[i] - times[i-1]
			if times[i] <= times[i-1] {
				return w.fail(fmt.Errorf("series %.100q: time %d does not follow %d", s.key, times[i], times[i-1]))
			}
			regular = regular && d == step
		}
		// A distance beyond int64 cannot be a step.
		regular = regular && step > 0
	}
	sc := &w.scratch
	sc.cols, sc.stats, sc.arena = sc.cols[:0], sc.stats[:0], sc.arena[:0]
	sc.ends = sc.ends[:0]
	if !regular {
		step = 0
		sc.times = sc.times[:0]
		for _, t := range times {
			sc.times = append(sc.times, t-times[0])
		}
		sc.arena = codec.AppendTimes(sc.arena, sc.times)
		sc.cols = append(sc.cols, rawColumn{values: rows})
		sc.ends = append(sc.ends, len(sc.arena))
	}
	for i := range cols {
		v := &cols[i]
		var st scan.Stats
		count, block := rows, 0
		if v.Valid != nil {
			count = v.Valid.Count(rows)
		}
		if count > 0 {
			values := v
			if count < rows {
				st.FirstRow = runLength(v.Valid, 0, rows, false)
				st.LastRow = lastSet(v.Valid, rows)
				block = len(sc.arena)
				sc.arena = appendPresence(sc.arena, v.Valid, rows)
				block = len(sc.arena) - block
				gather(&sc.values, v, rows)
				values = &sc.values
			} else {
				st.LastRow = rows - 1
			}
			if rows >= StatsRows {
				first, last := st.FirstRow, st.LastRow
				st = stats.Of(values)
				st.FirstRow, st.LastRow = first, last
			}
			st.Count = count
			sc.arena = appendValues(sc.arena, values)
		}
		w.info.Values += int64(count)
		sc.cols = append(sc.cols, rawColumn{sparse: count > 0 && count < rows, block: block, values: count, kind: kindOf(v.Type)})
		sc.ends = append(sc.ends, len(sc.arena))
		sc.stats = append(sc.stats, st)
	}
	from := 0
	for i, to := range sc.ends {
		sc.cols[i].bytes = sc.arena[from:to]
		from = to
	}
	if rows >= StatsRows {
		for i := range sc.stats {
			s.stats[i] = stats.Append(s.stats[i], cols[i].Type, &sc.stats[i], rows)
		}
	}
	return w.addChunk(times[0], times[rows-1], step, rows, sc.cols)
}

func lastSet(b column.Bitmap, rows int) int {
	for i := rows - 1; i >= 0; i-- {
		if b.Get(i) {
			return i
		}
	}
	return 0
}

func (w *Writer) checkAppend(times []int64, cols []column.Vector) error {
	s := &w.series
	rows := len(times)
	switch {
	case !s.open:
		return errors.New("chunk without a series")
	case rows < 1 || rows > MaxChunkRows:
		return fmt.Errorf("chunk of %d rows", rows)
	case len(cols) != len(s.fields):
		return fmt.Errorf("chunk of %d columns for %d fields", len(cols), len(s.fields))
	case len(s.chunks) > 0 && times[0] <= s.chunks[len(s.chunks)-1].max:
		return fmt.Errorf("chunk from %d does not follow the last, to %d", times[0], s.chunks[len(s.chunks)-1].max)
	}
	text := 0
	for i := range cols {
		if cols[i].Type == model.String {
			for _, s := range cols[i].Strings {
				text += len(s)
			}
		}
		if v := &cols[i]; v.Type != s.fields[i].Type || v.Len() != rows || v.Valid != nil && len(v.Valid) < (rows+63)/64 {
			return fmt.Errorf("column %.100q: %s of %d rows, want %s of %d", s.fields[i].Key, v.Type, v.Len(), s.fields[i].Type, rows)
		}
	}
	if text > MaxChunkText {
		return fmt.Errorf("chunk with %d bytes of strings", text)
	}
	return nil
}

// addChunk writes or keeps the body of a chunk and notes its index entry.
func (w *Writer) addChunk(lo, hi, step int64, rows int, cols []rawColumn) error {
	s := &w.series
	c := pendingChunk{min: lo, max: hi, step: step, rows: rows}
	if w.opt.Dense {
		if err := w.densify(cols); err != nil {
			return err
		}
	}
	if n := inlineSize(cols); rows < StatsRows && n <= inlineLimit {
		c.inline = true
		c.size = uint64(n)
		s.inline = appendInlineBody(s.inline, cols)
	} else {
		sc := &w.scratch
		var slot *timeSlot
		if rows > 1 && step == 0 {
			slot = w.times.share(&cols[0], w.offset)
		}
		var first int
		sc.body, first = appendDataBody(sc.body[:0], cols)
		if slot != nil {
			slot.off = w.offset + uint64(first)
		}
		c.size = uint64(len(sc.body))
		if err := w.write(sc.body); err != nil {
			return err
		}
		s.data += c.size
	}
	s.chunks = append(s.chunks, c)
	w.info.Chunks++
	w.info.Rows += int64(rows)
	r := &w.info.Range
	if r.Empty() {
		*r = model.TimeRange{Min: lo, Max: hi}
	} else {
		*r = r.Union(model.TimeRange{Min: lo, Max: hi})
	}
	return nil
}

// densify replaces the columns' blocks where there is a denser form.
func (w *Writer) densify(cols []rawColumn) error {
	sc := &w.scratch
	sc.dense = sc.dense[:0]
	for i := range cols {
		c := &cols[i]
		at := len(sc.dense)
		dense := append(sc.dense, c.bytes[:c.block]...)
		dense, ok, err := codec.AppendDense(dense, c.bytes[c.block:], c.values, c.kind)
		if err != nil {
			return w.fail(fmt.Errorf("series %.100q: %w", w.series.key, err))
		}
		if ok {
			// What was appended before stays in the old memory if there is new.
			sc.dense = dense
			c.bytes = dense[at:len(dense):len(dense)]
		}
	}
	return nil
}

// Size returns the size the file would have at least if it were finished now.
func (w *Writer) Size() int64 {
	n := w.offset + w.keys.len() + w.pages.len() + uint64(len(w.dir)+len(w.group.entries))
	return int64(n) + int64(len(w.ids))*5 + trailerSize
}

// Finish writes the index, syncs and closes the file. The caller makes its
// name durable. A file without rows is sound, too.
func (w *Writer) Finish() (Info, error) {
	if err := w.endSeries(); err != nil {
		return Info{}, err
	}
	if err := w.endGroup(); err != nil {
		return Info{}, err
	}
	if err := w.writeIndex(); err != nil {
		return Info{}, w.fail(err)
	}
	if err := w.file.Sync(); err != nil {
		return Info{}, w.fail(err)
	}
	err := w.file.Close()
	w.file = nil
	if err = errors.Join(err, w.keys.close(), w.pages.close()); err != nil {
		return Info{}, w.fail(err)
	}
	w.done = true
	w.freeBuffer()
	w.err = fmt.Errorf("write tsm %s: finished", w.path)
	w.info.Size = int64(w.offset)
	return w.info, nil
}

// writeIndex writes everything after the data section.
func (w *Writer) writeIndex() error {
	le := binary.LittleEndian
	var f footer
	w.index = true
	f.sec.keys = w.offset
	if err := w.keys.copyTo(w.write); err != nil {
		return err
	}
	f.sec.entries = w.offset
	if err := w.pages.copyTo(w.write); err != nil {
		return err
	}
	// From here on the last flush returns the error of any write.
	f.sec.lists = w.offset
	_ = w.write(w.lists.text)
	f.sec.listDir = w.offset
	f.fieldLists = uint32(len(w.lists.offsets))
	var b []byte
	for _, o := range w.lists.offsets {
		b = le.AppendUint32(b, o)
	}
	_ = w.write(le.AppendUint32(b, uint32(len(w.lists.text))))
	f.sec.dir = w.offset
	// The directory was written with offsets within the parts.
	for i := 0; i < len(w.dir); i += dirRecordSize {
		le.PutUint64(w.dir[i:], le.Uint64(w.dir[i:])+f.sec.keys)
		le.PutUint64(w.dir[i+8:], le.Uint64(w.dir[i+8:])+f.sec.entries)
	}
	w.dir = le.AppendUint64(le.AppendUint64(w.dir, f.sec.entries), f.sec.lists)
	_ = w.write(w.dir)
	if !sortIDs(w.ids) {
		return errors.New("two series have the same id")
	}
	w.writeIDs(&f)
	w.endBlock()
	w.index = false
	f.sec.checksums = w.offset
	f.checksumCRC = binio.Checksum(w.blocks)
	_ = w.write(w.blocks)
	if err := w.flush(); err != nil {
		return err
	}
	w.info.Checksum = w.hash.Sum64()
	f.info = w.info
	tail := f.append(nil)
	w.info.IndexSize = int64(w.offset) + int64(len(tail)) - int64(f.sec.keys)
	_ = w.write(tail)
	return w.flush()
}

// writeIDs writes the id section of the sorted ids.
func (w *Writer) writeIDs(f *footer) {
	var buckets int
	f.idBase, f.idShift, f.idWidth, buckets = idLayout(w.ids)
	f.sec.idDir = w.offset
	b := make([]byte, 0, 64<<10)
	put := func(least int) {
		if len(b) >= least {
			_ = w.write(b)
			b = b[:0]
		}
	}
	at := 0
	for k := 0; k <= buckets; k++ {
		for at < len(w.ids) && int((w.ids[at]>>32-uint64(f.idBase))>>f.idShift) < k {
			at++
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(at))
		put(60 << 10)
	}
	put(0)
	f.sec.idRecords = w.offset
	ord := ordinalBits(len(w.ids))
	for _, p := range w.ids {
		b = appendIDRecord(b, p, f.idBase, f.idShift, f.idWidth, ord)
		put(60 << 10)
	}
	put(0)
}

// Abort closes and removes an unfinished file. After Finish it does nothing.
func (w *Writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	w.freeBuffer()
	var err error
	if w.file != nil {
		err = w.file.Close()
		w.file = nil
	}
	err = errors.Join(err, w.keys.close(), w.pages.close(), w.fs.Remove(w.path))
	if w.err == nil {
		w.err = fmt.Errorf("write tsm %s: aborted", w.path)
	}
	if err != nil {
		return fmt.Errorf("abort tsm %s: %w", w.path, err)
	}
	return nil
}
