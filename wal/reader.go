package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/wal/entry"
)

// reader walks the records of one segment and hands out whole entries. It
// holds one window of the file and one entry in memory.
type reader struct {
	file   vfs.File
	path   string
	number uint64
	size   int64
	// last is the sequence of the last entry delivered; bounded says that no
	// sequence beyond last+size can stand in this segment.
	last    uint64
	bounded bool
	// explained says that a damaged span was reported since the last entry.
	explained bool

	decoder *entry.Decoder
	deliver func(*entry.Entry) error
	// damaged is called with each span that was skipped; its error ends the walk.
	damaged func(d Damage) error
	// held are spans behind which nothing shows yet that they were ever synced:
	// sectors of the last write may have landed in any order. They are damage
	// once a record tells so, and else torn.
	held []Damage

	window []byte
	base   int64 // offset of window[0]

	// The parts of an entry read so far; pending is the offset of the first
	// record that belongs to it (a definition or part 0), -1 if there is none.
	parts    []byte
	pending  int64
	sequence uint64
	kind     byte // of the parts
	nextPart int
	// delivered counts entries, opening is the sequence of the first record.
	delivered int
	opening   uint64
}

const (
	windowBytes = 4 << 20
	// resyncBudget bounds the bytes checksummed in search of the next good
	// record, as a multiple of the span searched: hostile bytes can look like a
	// record header at every offset.
	resyncBudget = 256
)

// bytes returns n bytes at off, or fewer at the end of the file. The slice is
// valid until the next call.
func (r *reader) bytes(off int64, n int) ([]byte, error) {
	if rest := r.size - off; rest <= 0 {
		return nil, nil
	} else if int64(n) > rest {
		n = int(rest)
	}
	if off >= r.base && off+int64(n) <= r.base+int64(len(r.window)) {
		return r.window[off-r.base:][:n], nil
	}
	want := int(min(int64(max(n, windowBytes)), r.size-off))
	if cap(r.window) < want {
		r.window = make([]byte, want)
	}
	r.window, r.base = r.window[:want], off
	got, err := r.file.ReadAt(r.window, off)
	r.window = r.window[:got]
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read wal segment %s: %w", r.path, err)
	}
	return r.window[:min(n, got)], nil
}

// record returns the record at off when there is a good one that may follow
// what was read: its checksum holds and its sequence rises.
func (r *reader) record(off int64, budget *int64) (h recordHeader, payload []byte, ok bool, err error) {
	b, err := r.bytes(off, recordHeaderSize)
	if err != nil || len(b) < recordHeaderSize {
		return h, nil, false, err
	}
	if h, ok = parseRecordHeader(b); !ok || !r.plausible(h.sequence, h.kind) {
		return h, nil, false, nil
	}
	b, err = r.bytes(off, recordHeaderSize+h.length)
	if err != nil || len(b) < recordHeaderSize+h.length {
		return h, nil, false, err
	}
	if budget != nil {
		*budget -= int64(len(b))
	}
	if recordChecksum(r.number, b) != h.crc {
		return h, nil, false, nil
	}
	return h, b[recordHeaderSize:], true, nil
}

// plausible says whether sequence may stand in the next record. The bound
// matters to resynchronisation alone: no segment holds more entries than bytes.
func (r *reader) plausible(sequence uint64, kind byte) bool {
	if kind == typeEnd {
		return sequence >= r.last
	}
	return sequence > r.last && (!r.bounded || sequence-r.last <= uint64(r.size))
}

// run walks the records from the header on. It returns the offset where the
// log of this segment ends, whether an end record stands there, and how many
// bytes behind it look like an unfinished write (0: a clean end).
func (r *reader) run() (end int64, sealed bool, torn int64, err error) {
	off := int64(segmentHeaderSize)
	r.pending = -1
	for {
		h, payload, ok, err := r.record(off, nil)
		if err != nil {
			return off, false, 0, err
		}
		if !ok {
			next, found, err := r.resync(off)
			if err != nil {
				return off, false, 0, err
			}
			if !found {
				end, torn, err = r.tail(off)
				return end, false, torn, err
			}
			r.skip(off, next, "record damaged")
			off = next
			continue
		}
		r.bound(h.sequence, h.kind)
		// First what this record says of earlier ones: whether it breaks off an
		// entry, whether entries before it are missing, and whether they were synced.
		if r.pending >= 0 && r.breaksOff(h) {
			r.skip(off, off, "entry without its last record")
		}
		if h.kind == typeEnd {
			r.gap(off, h.sequence+1)
		} else if r.pending < 0 {
			r.gap(off, h.sequence)
		}
		if h.flags&flagSynced != 0 {
			if err := r.release(false); err != nil {
				return off, false, 0, err
			}
		}
		next := off + recordHeaderSize + int64(h.length)
		switch h.kind {
		case typeEnd:
			return off, true, 0, nil
		case typeSeries:
			if err := r.decoder.Define(payload, h.flags&flagSnappy != 0); err != nil {
				r.skip(off, next, err.Error())
			} else if r.pending < 0 {
				r.pending, r.sequence, r.nextPart = off, h.sequence, 0
			}
		default:
			if err := r.entry(off, next, h, payload); err != nil {
				return off, false, 0, err
			}
		}
		off = next
	}
}

// breaksOff says that h does not go on with the pending entry.
func (r *reader) breaksOff(h recordHeader) bool {
	return h.sequence != r.sequence ||
		h.kind == typeEnd ||
		r.nextPart > 0 && h.kind != r.kind ||
		h.kind != typeSeries && int(h.part) != r.nextPart
}

// entry takes one record of an entry and delivers the entry when it was the
// last.
func (r *reader) entry(off, next int64, h recordHeader, payload []byte) error {
	if r.pending < 0 {
		if h.part != 0 {
			r.skip(off, next, "part of an entry without its first record")
			return nil
		}
		r.pending = off
	}
	r.sequence = h.sequence
	if h.flags&flagContinues != 0 {
		if h.part == 0 {
			r.parts = r.parts[:0]
		}
		r.parts = append(r.parts, payload...)
		r.nextPart, r.kind = int(h.part)+1, h.kind
		return nil
	}
	if h.part != 0 {
		r.parts = append(r.parts, payload...)
		payload = r.parts
	}
	e, err := r.decoder.Decode(entry.Kind(h.kind), h.sequence, payload)
	if err != nil {
		r.skip(off, next, "entry not readable: "+err.Error())
		return nil
	}
	from := r.pending
	r.pending, r.nextPart = -1, 0
	r.last, r.bounded, r.explained = h.sequence, true, false
	if err := r.deliver(e); !errors.Is(err, binio.ErrCorrupt) {
		r.delivered++
		return binio.InFile(err, r.path)
	} else {
		return r.damaged(Damage{Segment: r.path, Offset: from, Bytes: next - from, First: r.last, Last: r.last, Reason: err.Error()})
	}
}

// gap records that entries before sequence are missing, unless a damaged span
// already accounts for them.
func (r *reader) gap(off int64, sequence uint64) {
	if sequence != r.last+1 && r.bounded && !r.explained {
		r.held = append(r.held, Damage{
			Segment: r.path, Offset: off, First: r.last + 1, Last: sequence - 1,
			Reason: fmt.Sprintf("entries %d to %d are missing", r.last+1, sequence-1),
		})
		r.explained = true
	}
}

// bound notes what a good record, or the end of the segment, says of the spans
// held: entries before it may be in them, later ones are not.
func (r *reader) bound(sequence uint64, kind byte) {
	if kind != typeEnd {
		sequence--
	}
	for i := range r.held {
		if d := &r.held[i]; d.Last == 0 {
			d.Last = sequence
		}
	}
	if r.opening == 0 {
		r.opening = sequence + 1
	}
}

// release hands out the spans held.
func (r *reader) release(torn bool) error {
	for _, d := range r.held {
		d.Torn = torn
		if err := r.damaged(d); err != nil {
			return err
		}
	}
	r.held = r.held[:0]
	return nil
}

// skip notes the span [off, next), extended to the start of the entry that
// it breaks off.
func (r *reader) skip(off, next int64, reason string) {
	if r.pending >= 0 {
		off = r.pending
		r.pending, r.nextPart = -1, 0
	}
	r.explained = true
	r.held = append(r.held, Damage{Segment: r.path, Offset: off, Bytes: next - off, First: r.last + 1, Reason: reason})
}

// resync looks for the next good record behind off.
func (r *reader) resync(off int64) (int64, bool, error) {
	budget := resyncBudget * (r.size - off)
	for p := off + 1; p+recordHeaderSize <= r.size; {
		// Search the window at hand; checking a candidate may move it, but not
		// behind p.
		b, err := r.bytes(p, recordHeaderSize)
		if err != nil || len(b) < recordHeaderSize {
			return 0, false, err
		}
		b = r.window[p-r.base:]
		i := r.candidate(b)
		if i < 0 {
			p += int64(len(b) - recordHeaderSize + 1)
			continue
		}
		p += int64(i)
		_, _, ok, err := r.record(p, &budget)
		if err != nil || ok {
			return p, ok, err
		}
		if budget < 0 {
			return 0, false, nil
		}
		p++
	}
	return 0, false, nil
}

// candidate returns the first place in b where a plausible record header
// stands, or -1.
func (r *reader) candidate(b []byte) int {
	low, span := r.last, ^uint64(0)
	if r.bounded {
		span = uint64(r.size)
	}
	// Cheapest first: the sequence is in range nearly nowhere else.
	const at = 8 // of the sequence in a header
	for s := b; len(s) >= recordHeaderSize; s = s[1:] {
		if binary.LittleEndian.Uint64(s[at:])-low > span {
			continue
		}
		if h, ok := parseRecordHeader(s); ok && r.plausible(h.sequence, h.kind) {
			return len(b) - len(s)
		}
	}
	return -1
}

// tail judges what stands at off, where no record is and none follows: the
// clean end of the log is a record header of zeros, which every write puts
// behind itself, or the end of the file.
func (r *reader) tail(off int64) (end, torn int64, err error) {
	b, err := r.bytes(off, recordHeaderSize)
	if err != nil {
		return off, 0, err
	}
	clean := allZero(b)
	if r.pending >= 0 {
		end = r.pending
		r.pending, r.nextPart = -1, 0
	} else if end = off; clean {
		return end, 0, nil
	}
	if clean {
		return end, off - end, nil
	}
	// The write was at most this long; bytes of a recycled segment's earlier
	// life may follow and cannot be told apart.
	b, err = r.bytes(off, maxTornBytes)
	if err != nil {
		return end, 0, err
	}
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return end, off - end + int64(n), nil
}

// maxTornBytes is how much of a torn tail is set aside.
const maxTornBytes = windowBytes

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
