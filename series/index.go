package series

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/mapped"
	"tsdbd/internal/slots"
	"tsdbd/internal/vfs"
	"tsdbd/model"
)

// The series index: a header page, pages of slots, the block directory.
//
//	page 0      | magic "tsdbSIX\x02" 8 | version u32 | pages u32 | homes u64 | entries u64 |
//	            | log bytes u64 | last block crc u32 | max id u32 | directory bytes u64 | directory crc u32 |
//	            | database u32 | lineage 16 | zeros 12 | crc u32 |
//	page 1..n   | 511 slots u64: fingerprint<<32 | id, 0 = free | crc u32 | zero u32 |
//	directory   per block, in order of first id: uvarint first - end of the previous,
//	            uvarint count, varint offset - end of the previous
//
// Slots are sorted by (fingerprint, id) and are at or after their home,
// fingerprint * homes >> 32, with no free slot between; the last pages take
// what runs over, so nothing wraps around and a file is written front to back
// by merging the old file with the sorted new slots.
const (
	indexMagic       = "tsdbSIX\x02"
	indexVersion     = 2
	indexPageBytes   = 4096
	indexPageSlots   = 511
	indexHeaderBytes = 96
	// indexHomesPerEntry in quarters: 5/4 keeps probes under 3 slots at 10.3 B a series.
	indexHomesPerEntry = 5
)

// indexFile is a mapped index file. It is read under the series file's lock,
// or with a reference to file. A page that the disk could read once may fail the
// next time: next and page are called where faults are caught.
type indexFile struct {
	path     string
	file     *mapped.File
	data     []byte // of file
	owner    identity.Database
	pages    int
	homes    int
	entries  int
	logBytes int64  // the log up to here is covered
	lastCRC  uint32 // header crc of the last covered block, 0 if none
	maxID    uint32
	verified mapped.Verified // pages
	dir      []blockPlace
}

// blockPlace says where in the log the keys of ids first... are.
type blockPlace struct {
	first  uint32
	count  int
	offset int64
	length int64 // header and payload
}

// openIndex maps an index file and checks its header and directory.
func openIndex(fs vfs.FS, path string) (*indexFile, error) {
	f, err := mapped.Open(fs, path)
	if err != nil {
		return nil, err
	}
	x, err := readIndex(f)
	if err != nil {
		return nil, errors.Join(err, f.Release())
	}
	return x, nil
}

func readIndex(f *mapped.File) (_ *indexFile, err error) {
	defer vfs.CatchFault(&err)()
	path, data := f.Path(), f.Data()
	size := len(data)
	if size < indexPageBytes {
		return nil, binio.Corruptf(path, 0, "series index: %d bytes", size)
	}
	x := &indexFile{path: path, file: f, data: data}
	dirCRC, err := x.parseHeader(data, int64(size))
	if err != nil {
		return nil, err
	}
	x.verified = mapped.NewVerified(x.pages)
	dirStart := int64(x.pages+1) * indexPageBytes
	dir := data[dirStart:]
	if binio.Checksum(dir) != dirCRC {
		return nil, binio.Corruptf(path, dirStart, "series index: directory checksum mismatch")
	}
	d := binio.NewDecoder(dir)
	nextID, nextOffset := uint64(1), int64(logHeaderBytes)
	for d.Len() > 0 && d.Err() == nil {
		p := blockPlace{}
		first := nextID + d.Uvarint()
		count := d.Uvarint()
		p.offset = nextOffset + d.Varint()
		p.length = int64(d.Uvarint())
		if first+count-1 > model.MaxSeriesID || count == 0 || count > 1<<16 || p.offset < logHeaderBytes ||
			p.length < blockHeaderBytes || p.length > x.logBytes || p.offset > x.logBytes-p.length {
			d.Fail("block out of bounds")
			break
		}
		p.first, p.count = uint32(first), int(count)
		nextID, nextOffset = first+count, p.offset+p.length
		x.dir = append(x.dir, p)
	}
	if d.Err() != nil {
		return nil, binio.Corruptf(path, dirStart, "series index: directory: %v", d.Err())
	}
	return x, nil
}

// parseHeader reads the header page of a file of size bytes, and returns the checksum
// of the directory.
func (x *indexFile) parseHeader(b []byte, size int64) (dirCRC uint32, err error) {
	if string(b[:8]) != indexMagic {
		return 0, binio.Corruptf(x.path, 0, "series index: bad magic")
	}
	if binio.Checksum(b[:indexHeaderBytes-4]) != binary.LittleEndian.Uint32(b[indexHeaderBytes-4:]) {
		return 0, binio.Corruptf(x.path, 0, "series index: header checksum mismatch")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != indexVersion {
		return 0, binio.Corruptf(x.path, 8, "series index: version %d", v)
	}
	x.pages = int(binary.LittleEndian.Uint32(b[12:]))
	homes := binary.LittleEndian.Uint64(b[16:])
	entries := binary.LittleEndian.Uint64(b[24:])
	x.logBytes = int64(binary.LittleEndian.Uint64(b[32:]))
	x.lastCRC = binary.LittleEndian.Uint32(b[40:])
	x.maxID = binary.LittleEndian.Uint32(b[44:])
	dirBytes := binary.LittleEndian.Uint64(b[48:])
	x.owner.ID = binary.LittleEndian.Uint32(b[60:])
	copy(x.owner.Lineage[:], b[64:])
	slots := uint64(x.pages) * indexPageSlots
	if homes > slots || entries > slots || dirBytes > uint64(size) ||
		uint64(size) != uint64(x.pages+1)*indexPageBytes+dirBytes || x.logBytes < logHeaderBytes {
		return 0, binio.Corruptf(x.path, 0, "series index: header contradicts the file's size")
	}
	x.homes, x.entries = int(homes), int(entries)
	return binary.LittleEndian.Uint32(b[56:]), nil
}

// page returns the slots of page n (from 0), verified at its first use.
func (x *indexFile) page(n int) ([]byte, error) {
	at := int64(n+1) * indexPageBytes
	if x.verified.Has(n) {
		return x.data[at : at+indexPageSlots*8], nil
	}
	p, err := x.file.Checked(at, indexPageSlots*8+4)
	if err != nil {
		return nil, err
	}
	x.verified.Add(n)
	return p, nil
}

// verifyIndex reads the index file at path, a page at a time. That it is gone, or that the
// disk cannot read it, is damage too: it follows from the log.
func verifyIndex(fsys vfs.FS, path string) error {
	err := verifyPages(fsys, path)
	if d := binio.DamageOf(path, err); d != nil {
		return d
	}
	return err
}

func verifyPages(fsys vfs.FS, path string) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	page := make([]byte, indexPageBytes)
	read := func(b []byte, at int64) error {
		if n, err := f.ReadAt(b, at); n < len(b) && err != io.EOF {
			return err
		} else if n < len(b) {
			return binio.Corruptf(path, at, "series index: the file ends at %d", at+int64(n))
		}
		return nil
	}
	if err := read(page, 0); err != nil {
		return err
	}
	x := indexFile{path: path}
	dirCRC, err := x.parseHeader(page, size)
	if err != nil {
		return err
	}
	slotsEnd := int64(x.pages+1) * indexPageBytes
	for at := int64(indexPageBytes); at < slotsEnd; at += indexPageBytes {
		if err := read(page, at); err != nil {
			return err
		}
		if binio.PlacedChecksum(at, page[:indexPageSlots*8]) != binary.LittleEndian.Uint32(page[indexPageSlots*8:]) {
			return binio.Corruptf(path, at, "checksum mismatch")
		}
	}
	dir := make([]byte, size-slotsEnd)
	if err := read(dir, slotsEnd); err != nil {
		return err
	}
	if binio.Checksum(dir) != dirCRC {
		return binio.Corruptf(path, slotsEnd, "series index: directory checksum mismatch")
	}
	return nil
}

// next works like slots.Table.Next.
func (x *indexFile) next(fingerprint uint32, pos *int) (uint32, error) {
	if x.homes == 0 {
		return 0, nil
	}
	i := *pos
	if i < 0 {
		i = slots.Home(fingerprint, x.homes)
	}
	for i < x.pages*indexPageSlots {
		page, err := x.page(i / indexPageSlots)
		if err != nil {
			return 0, err
		}
		for j := i % indexPageSlots; j < indexPageSlots; j++ {
			s := binary.LittleEndian.Uint64(page[j*8:])
			i++
			switch fp := uint32(s >> 32); {
			case s == 0 || fp > fingerprint:
				return 0, nil
			case fp == fingerprint:
				*pos = i
				return uint32(s), nil
			}
		}
	}
	return 0, nil
}

func (x *indexFile) close() error {
	if x == nil {
		return nil
	}
	return x.file.Release()
}

// writeIndex writes the index of the log's first logBytes: the slots of
// old (may be nil) merged with the sorted slots of added.
func writeIndex(fs vfs.FS, dir, path string, owner identity.Database, old *indexFile, added []uint64, places []blockPlace, logBytes int64, lastCRC, maxID uint32) error {
	tmp := path + ".tmp"
	f, err := fs.Create(tmp)
	if err != nil {
		return fmt.Errorf("write series index: %w", err)
	}
	if err = fillIndex(f, owner, old, added, places, logBytes, lastCRC, maxID); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fs.Rename(tmp, path)
	}
	if err != nil {
		_ = fs.Remove(tmp)
		return fmt.Errorf("write series index %s: %w", path, err)
	}
	return fs.SyncDir(dir)
}

func fillIndex(f vfs.File, owner identity.Database, old *indexFile, added []uint64, places []blockPlace, logBytes int64, lastCRC, maxID uint32) (err error) {
	defer vfs.CatchFault(&err)()
	entries := len(added)
	if old != nil {
		entries += old.entries
	}
	homes := max(indexPageSlots, entries*indexHomesPerEntry/4)
	w := indexPageWriter{f: f, page: make([]byte, 0, 64*indexPageBytes)}
	position, written, previous := 0, 0, uint64(0)
	put := func(slot uint64) error {
		if slot == previous {
			return nil // a restored id may be in both inputs
		}
		previous = slot
		for h := slots.Home(uint32(slot>>32), homes); position < h; position++ {
			if err := w.put(0); err != nil {
				return err
			}
		}
		position++
		written++
		return w.put(slot)
	}
	i := 0
	if old != nil {
		for n := range old.pages {
			page, err := old.page(n)
			if err != nil {
				return err
			}
			for j := range indexPageSlots {
				s := binary.LittleEndian.Uint64(page[j*8:])
				if s == 0 {
					continue
				}
				for ; i < len(added) && added[i] <= s; i++ {
					if err := put(added[i]); err != nil {
						return err
					}
				}
				if err := put(s); err != nil {
					return err
				}
			}
		}
	}
	for ; i < len(added); i++ {
		if err := put(added[i]); err != nil {
			return err
		}
	}
	for ; position < homes; position++ {
		if err := w.put(0); err != nil {
			return err
		}
	}
	if err := w.finish(); err != nil {
		return err
	}
	var dir []byte
	nextID, nextOffset := uint32(1), int64(logHeaderBytes)
	for _, p := range places {
		dir = binary.AppendUvarint(dir, uint64(p.first-nextID))
		dir = binary.AppendUvarint(dir, uint64(p.count))
		dir = binary.AppendUvarint(dir, binio.ZigZag(p.offset-nextOffset))
		dir = binary.AppendUvarint(dir, uint64(p.length))
		nextID, nextOffset = p.first+uint32(p.count), p.offset+p.length
	}
	if _, err := f.WriteAt(dir, int64(w.pages+1)*indexPageBytes); err != nil {
		return err
	}
	h := make([]byte, 0, indexPageBytes)
	h = append(h, indexMagic...)
	h = binary.LittleEndian.AppendUint32(h, indexVersion)
	h = binary.LittleEndian.AppendUint32(h, uint32(w.pages))
	h = binary.LittleEndian.AppendUint64(h, uint64(homes))
	h = binary.LittleEndian.AppendUint64(h, uint64(written))
	h = binary.LittleEndian.AppendUint64(h, uint64(logBytes))
	h = binary.LittleEndian.AppendUint32(h, lastCRC)
	h = binary.LittleEndian.AppendUint32(h, maxID)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(dir)))
	h = binary.LittleEndian.AppendUint32(h, binio.Checksum(dir))
	h = binary.LittleEndian.AppendUint32(h, owner.ID)
	h = append(h, owner.Lineage[:]...)
	h = append(h, make([]byte, indexHeaderBytes-4-len(h))...)
	h = binary.LittleEndian.AppendUint32(h, binio.Checksum(h))
	_, err = f.WriteAt(h[:indexPageBytes], 0)
	return err
}

// indexPageWriter writes slots in pages, with their checksums.
type indexPageWriter struct {
	f     vfs.File
	page  []byte // pages not written yet
	slots int    // in the open page
	pages int    // finished
	wrote int    // of those, on their way to the file
}

func (w *indexPageWriter) put(slot uint64) error {
	w.page = binary.LittleEndian.AppendUint64(w.page, slot)
	if w.slots++; w.slots == indexPageSlots {
		return w.end()
	}
	return nil
}

func (w *indexPageWriter) end() error {
	w.pages++
	w.slots = 0
	p := w.page[len(w.page)-indexPageSlots*8:]
	w.page = binary.LittleEndian.AppendUint32(w.page, binio.PlacedChecksum(int64(w.pages)*indexPageBytes, p))
	w.page = append(w.page, 0, 0, 0, 0)
	if len(w.page) == cap(w.page) {
		return w.flush()
	}
	return nil
}

func (w *indexPageWriter) flush() error {
	_, err := w.f.WriteAt(w.page, int64(w.wrote+1)*indexPageBytes)
	w.wrote, w.page = w.pages, w.page[:0]
	return err
}

func (w *indexPageWriter) finish() error {
	for w.slots > 0 {
		if err := w.put(0); err != nil {
			return err
		}
	}
	return w.flush()
}
