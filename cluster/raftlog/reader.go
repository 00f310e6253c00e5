package raftlog

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"tsdbd/internal/vfs"
)

// Damage is a place where the log is not what was written to it.
type Damage struct {
	Path   string // of the file
	Offset int64
	Reason string
}

// String returns the damage as one line.
func (d Damage) String() string {
	return fmt.Sprintf("%s at offset %d: %s", d.Path, d.Offset, d.Reason)
}

// reader walks the batches of one segment.
type reader struct {
	file vfs.File
	path string
	salt uint32
	size int64
	// limit is where the batches end, as the next segment says; 0 if there is none.
	limit int64
	// batch gets every batch: where it is, its header and entries, and the positions of
	// these in the stream, all valid during the call. A text that it returns is damage.
	batch func(off int64, h batchHeader, entries []raft.Log, positions []uint32) (damage string)

	stream    []byte
	entries   []raft.Log
	positions []uint32

	window []byte
	base   int64 // offset of window[0]
}

const windowBytes = 1 << 20

// bytes returns n bytes at off, valid until the next call.
func (r *reader) bytes(off, n int64) ([]byte, error) {
	if off < r.base || off+n > r.base+int64(len(r.window)) {
		want := min(max(n, windowBytes), r.size-off)
		if int64(cap(r.window)) < want {
			r.window = make([]byte, want)
		}
		r.window, r.base = r.window[:want], off
		if got, err := r.file.ReadAt(r.window, off); int64(got) < want {
			r.window = nil
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("read raft log %s: %w", r.path, err)
		}
	}
	return r.window[off-r.base:][:n], nil
}

// run walks the batches and returns the offset behind the last one. torn says that
// the rest of an unfinished write follows. The size of the file is whole sectors.
func (r *reader) run() (end int64, torn bool, damage *Damage, err error) {
	off := int64(firstSector)
	for r.limit == 0 && off < r.size || off < r.limit {
		sector, err := r.bytes(off, sectorBytes)
		if err != nil {
			return off, false, nil, err
		}
		h, ok := parseBatchHeader(sector, r.salt, off)
		if !ok {
			d := &Damage{r.path, off, "header of a batch is damaged"}
			if r.limit > 0 || sector[batchHeaderBytes] != 0 {
				return off, false, d, nil
			}
			// Zeros in place of the mark: nothing was written here, or not all of it.
			torn, why, err := r.rest(off+1+batchHeaderBytes, !allZero(sector[:batchHeaderBytes]))
			if err != nil || why == "" {
				return off, torn, nil, err
			}
			d.Reason = why
			return off, false, d, nil
		}
		next := off + sectorsOf(h.length)*sectorBytes
		if next > r.size || r.limit > 0 && next > r.limit {
			return off, false, &Damage{r.path, off, "batch is longer than its segment"}, nil
		}
		raw, err := r.bytes(off, next-off)
		if err != nil {
			return off, false, nil, err
		}
		d := r.decode(raw, off, h)
		if d == nil {
			if why := r.batch(off, h, r.entries, r.positions); why != "" {
				return off, false, &Damage{r.path, off, why}, nil
			}
			off = next
			continue
		}
		if r.limit > 0 || !unfinished(raw, h) {
			return off, false, d, nil
		}
		_, why, err := r.rest(next, false)
		if err != nil || why == "" {
			return off, true, nil, err
		}
		return off, false, d, nil
	}
	return off, false, nil, nil
}

// decode reads the entries of a batch, all or none.
func (r *reader) decode(raw []byte, off int64, h batchHeader) *Damage {
	r.entries, r.positions = r.entries[:0], r.positions[:0]
	for at := int64(sectorBytes); at < int64(len(raw)); at += sectorBytes {
		if raw[at] != stampMore {
			return &Damage{r.path, off + at, "sector has a wrong stamp"}
		}
	}
	r.stream = unstamp(r.stream[:0], raw, off)
	b := r.stream[:h.length]
	if b[h.length-1] != endMark {
		return &Damage{r.path, off, "batch has no end mark"}
	}
	at := int64(batchHeaderBytes)
	for i := range h.count {
		var l raft.Log
		n, err := parseEntry(b[at:h.length-1], r.salt, &l)
		if err == nil && l.Index != h.index+uint64(i) {
			err = fmt.Errorf("entry has the index %d instead of %d", l.Index, h.index+uint64(i))
		}
		if err != nil {
			return &Damage{r.path, fileOffset(position(off) + at), err.Error()}
		}
		r.entries, r.positions = append(r.entries, l), append(r.positions, uint32(position(off)+at))
		at += n
	}
	if at != h.length-1 {
		return &Damage{r.path, fileOffset(position(off) + at), "batch is longer than its entries"}
	}
	return nil
}

// unfinished says whether a batch lacks what the last write of a process, or of a
// machine that lost its power, can lack: its end, or whole sectors. No sector and no
// end mark that was written is zero.
func unfinished(raw []byte, h batchHeader) bool {
	last := h.length - 1
	if raw[last/streamBytes*sectorBytes+1+last%streamBytes] == 0 {
		return true
	}
	for ; len(raw) > 0; raw = raw[sectorBytes:] {
		if allZero(raw[:sectorBytes]) {
			return true
		}
	}
	return false
}

// rest looks at what is behind the last batch, from an offset on. some says that there
// is something. It is damage if there is a batch, because it was written after all
// before it was synced; with none, if there is anything.
func (r *reader) rest(from int64, none bool) (some bool, damage string, err error) {
	for from < r.size {
		sector := from / sectorBytes * sectorBytes
		b, err := r.bytes(sector, sectorBytes)
		if err != nil {
			return some, "", err
		}
		if !allZero(b[from-sector:]) {
			some = true
			if none {
				return some, "header of a batch is damaged", nil
			}
			if from == sector {
				if _, ok := parseBatchHeader(b, r.salt, sector); ok {
					return some, fmt.Sprintf("a batch is missing before the one at offset %d", sector), nil
				}
			}
		}
		from = sector + sectorBytes
	}
	return some || none, "", nil
}
