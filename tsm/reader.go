package tsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"tsdbd/internal/binio"
	"tsdbd/internal/mapped"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
)

// Reader is an open file, mapped into memory. It is safe for concurrent use
// while a reference is held. Every use of it, of the Series, Chunks and
// KeyCursors that were filled from it, and nothing else, needs one.
type Reader struct {
	*mapped.File
	foot footer

	bytes []byte // of the file from base on; all that Data has, or what a tail has
	base  uint64
	body  Body // has what lies before base; nil: the file is whole

	verified  mapped.Verified // blocks of the index region
	idBuckets uint64
	ordBits   uint

	lists      atomic.Pointer[[]fieldListSlot] // made at first use
	keyCursors sync.Pool

	closed atomic.Bool // the opener's reference is given back
}

// fieldListSlot holds a field list once it was decoded.
type fieldListSlot = atomic.Pointer[[]column.Field]

// Open maps a file and checks header, footer and the checksum table. It
// returns a reader with one reference, which Close gives back. Damage is a
// *binio.CorruptError, a sound file of another version a binio.ErrVersion.
func Open(fs vfs.FS, path string) (r *Reader, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open tsm %s: %w", path, err)
		}
	}()
	f, err := mapped.Open(fs, path)
	if err != nil {
		return nil, err
	}
	r = &Reader{File: f, bytes: f.Data()}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, f.Release())
	}
	return r, nil
}

func (r *Reader) open() (err error) {
	defer vfs.CatchFault(&err)()
	if len(r.bytes) < headerSize+trailerSize {
		return binio.Corruptf(r.Path(), 0, "tsm: file of %d bytes is too short", len(r.bytes))
	}
	if r.foot, err = parseFooter(r.Path(), r.bytes[:headerSize], r.bytes, 0); err != nil {
		return err
	}
	return r.ready()
}

// ready prepares what readers need, once the footer is known.
func (r *Reader) ready() error {
	s := &r.foot.sec
	blocks := (s.checksums - s.keys + blockSize - 1) / blockSize
	r.verified = mapped.NewVerified(int(blocks))
	r.idBuckets = (s.idRecords-s.idDir)/4 - 1
	r.ordBits = ordinalBits(r.foot.info.Series)
	if uint(r.foot.idShift)+r.ordBits > 64 {
		return binio.Corruptf(r.Path(), int64(s.footer), "tsm: id record too wide")
	}
	return nil
}

// Close gives the reference of Open back; calls after the first do nothing.
func (r *Reader) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	return r.Release()
}

// Info returns the facts in the footer.
func (r *Reader) Info() Info { return r.foot.info }

// Len returns the number of series.
func (r *Reader) Len() int { return r.foot.info.Series }

// section returns the bytes [from, to) of the file, which are not before base.
func (r *Reader) section(from, to uint64) []byte { return r.bytes[from-r.base : to-r.base : to-r.base] }

// check makes sure that the blocks of the index region that hold [off, off+n)
// are sound. It checksums a block once.
func (r *Reader) check(off, n uint64) error {
	s := &r.foot.sec
	if off < s.keys || n > s.checksums-off || off > s.checksums {
		return binio.Corruptf(r.Path(), int64(off), "tsm: offset outside the index")
	}
	if n == 0 {
		return nil
	}
	first, last := (off-s.keys)/blockSize, (off-s.keys+n-1)/blockSize
	for b := first; b <= last; b++ {
		if !r.verified.Has(int(b)) {
			if err := r.checkBlock(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// VerifyIndex checks the checksums of the index region, which a tail has.
func (r *Reader) VerifyIndex() (err error) {
	defer vfs.CatchFault(&err)()
	s := &r.foot.sec
	for b := uint64(0); b*blockSize < s.checksums-s.keys; b++ {
		if err := r.checkBlock(b); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) checkBlock(b uint64) error {
	s := &r.foot.sec
	at := s.keys + b*blockSize
	end := min(at+blockSize, s.checksums)
	if binio.Checksum(r.section(at, end)) != binary.LittleEndian.Uint32(r.bytes[s.checksums+b*4-r.base:]) {
		return binio.Corruptf(r.Path(), int64(at), "tsm: index block checksum mismatch")
	}
	r.verified.Add(int(b))
	return nil
}

// checked returns [from, to) of the index region, which must lie in [lo, hi).
func (r *Reader) checked(from, to, lo, hi uint64) ([]byte, error) {
	if from < lo || to < from || to > hi {
		return nil, binio.Corruptf(r.Path(), int64(lo), "tsm: index offset outside its section")
	}
	if err := r.check(from, to-from); err != nil {
		return nil, err
	}
	return r.section(from, to), nil
}

// dirRecord returns the page offsets of group p.
func (r *Reader) dirRecord(p int) (b []byte, err error) {
	at := r.foot.sec.dir + uint64(p)*dirRecordSize
	if err := r.check(at, 2*dirRecordSize); err != nil {
		return nil, err
	}
	return r.section(at, at+2*dirRecordSize), nil
}

// keyPage returns the key page of group p and its offset.
func (r *Reader) keyPage(p int) ([]byte, int64, error) {
	d, err := r.dirRecord(p)
	if err != nil {
		return nil, 0, err
	}
	from, to := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[dirRecordSize:])
	b, err := r.checked(from, to, r.foot.sec.keys, r.foot.sec.entries)
	return b, int64(from), err
}

// entryPage returns the header of the entry page of group p, and its offset.
func (r *Reader) entryPage(p int) (h pageHeader, off uint64, err error) {
	d, err := r.dirRecord(p)
	if err != nil {
		return h, 0, err
	}
	off, to := binary.LittleEndian.Uint64(d[8:]), binary.LittleEndian.Uint64(d[dirRecordSize+8:])
	b, err := r.checked(off, to, r.foot.sec.entries, r.foot.sec.lists)
	if err == nil && !h.parse(b, r.groupLen(p)) {
		err = binio.Corruptf(r.Path(), int64(off), "tsm: bad entry page")
	}
	return h, off, err
}

// fieldList returns field list n, which is shared and read-only.
func (r *Reader) fieldList(n uint64) ([]column.Field, error) {
	f := &r.foot
	if n >= uint64(f.fieldLists) {
		return nil, binio.Corruptf(r.Path(), int64(f.sec.lists), "tsm: field list %d of %d", n, f.fieldLists)
	}
	slots := r.lists.Load()
	if slots == nil {
		fresh := make([]fieldListSlot, f.fieldLists)
		r.lists.CompareAndSwap(nil, &fresh)
		slots = r.lists.Load()
	}
	if p := (*slots)[n].Load(); p != nil {
		return *p, nil
	}
	at := f.sec.listDir + n*4
	if err := r.check(at, 8); err != nil {
		return nil, err
	}
	from := f.sec.lists + uint64(binary.LittleEndian.Uint32(r.bytes[at-r.base:]))
	to := f.sec.lists + uint64(binary.LittleEndian.Uint32(r.bytes[at-r.base+4:]))
	b, err := r.checked(from, to, f.sec.lists, f.sec.listDir)
	if err != nil {
		return nil, err
	}
	fields, ok := decodeFieldList(b)
	if !ok {
		return nil, binio.Corruptf(r.Path(), int64(from), "tsm: bad field list")
	}
	(*slots)[n].Store(&fields)
	return fields, nil
}

// ID returns the id of series i, 0 <= i < Len.
func (r *Reader) ID(i int) (model.SeriesID, error) {
	if i < 0 || i >= r.Len() {
		return 0, fmt.Errorf("tsm %s: series %d of %d", r.Path(), i, r.Len())
	}
	h, _, err := r.entryPage(i / groupSeries)
	if err != nil {
		return 0, err
	}
	return h.id(i % groupSeries), nil
}

// IDs appends the ids of series i, 0 <= i < Len, and of those behind it in the same
// page, and returns them.
func (r *Reader) IDs(i int, dst []model.SeriesID) ([]model.SeriesID, error) {
	if i < 0 || i >= r.Len() {
		return dst, fmt.Errorf("tsm %s: series %d of %d", r.Path(), i, r.Len())
	}
	p := i / groupSeries
	h, _, err := r.entryPage(p)
	if err != nil {
		return dst, err
	}
	for k := i % groupSeries; k < r.groupLen(p); k++ {
		dst = append(dst, h.id(k))
	}
	return dst, nil
}

// groupLen returns the number of series of group p.
func (r *Reader) groupLen(p int) int { return min(groupSeries, r.Len()-p*groupSeries) }
