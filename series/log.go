package series

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/slots"
	"tsdbd/internal/vfs"
)

// Open opens, or makes, the series file in dir. It reads the index
// file's header and directory and the blocks that the index does not cover. A
// missing or damaged index is rebuilt from the log. A torn last Sync is cut;
// damage before it is in Damage, and everything else is served. Errors are
// the file system's, an ErrCorrupt for a log of another version, or an
// identity.ErrForeign for a log of another database, which stays untouched.
func Open(fsys vfs.FS, dir string, opt Options) (*File, error) {
	if opt.Cache == nil {
		opt.Cache = NewCache(8 << 20)
	}
	if opt.IndexTail == 0 {
		opt.IndexTail = 1 << 16
	}
	f := &File{fs: fsys, dir: dir, logPath: path.Join(dir, LogName), opt: opt}
	f.mu.next = 1
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("open series file %s: %w", dir, err)
	}
	if err := f.openLog(); err != nil {
		return nil, fmt.Errorf("open series file %s: %w", dir, err)
	}
	if err := f.load(); err != nil {
		_ = f.mu.index.close()
		_ = f.log.Close()
		return nil, fmt.Errorf("open series file %s: %w", dir, err)
	}
	f.raiseLocked(uint64(f.mu.maxID) + 1)
	f.countLocked()
	return f, nil
}

func (f *File) openLog() error {
	log, err := f.fs.OpenReadWrite(f.logPath)
	if errors.Is(err, fs.ErrNotExist) {
		log, err = f.createLog()
	}
	f.log = log
	return err
}

func (f *File) createLog() (vfs.File, error) {
	log, err := f.fs.Create(f.logPath)
	if err != nil {
		return nil, err
	}
	if err = f.writeLogHeader(log); err == nil {
		err = f.fs.SyncDir(f.dir)
	}
	if err == nil { // the directory itself may be new
		err = f.fs.SyncDir(path.Dir(f.dir))
	}
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	return log, nil
}

// AdoptLog makes the series log in dir that of another database: a copy of
// a data directory gets a lineage of its own.
func AdoptLog(fsys vfs.FS, dir string, owner identity.Database) error {
	if _, err := ReadOwner(fsys, dir); err != nil {
		return err
	}
	name := path.Join(dir, LogName)
	log, err := fsys.OpenReadWrite(name)
	if err != nil {
		return err
	}
	f := File{opt: Options{Identity: owner}}
	if err := errors.Join(f.writeLogHeader(log), log.Close()); err != nil {
		return fmt.Errorf("write series log %s: %w", name, err)
	}
	return nil
}

func (f *File) writeLogHeader(log vfs.File) error {
	h := append(make([]byte, 0, logHeaderBytes), logMagic...)
	h = binary.LittleEndian.AppendUint32(h, logVersion)
	h = binary.LittleEndian.AppendUint32(h, f.opt.Identity.ID)
	h = append(h, f.opt.Identity.Lineage[:]...)
	h = binary.LittleEndian.AppendUint32(h, binio.Checksum(h))
	if _, err := log.WriteAt(h, 0); err != nil {
		return err
	}
	return log.SyncData()
}

// parseLogHeader returns whose log it is; ok says that the header is sound. The
// error is that of a log of another version.
func parseLogHeader(path string, h []byte) (owner identity.Database, ok bool, err error) {
	const first = "tsdbSER\x01" // version 1 had a header of 16 bytes
	if len(h) >= 16 && string(h[:8]) == first && binary.LittleEndian.Uint32(h[12:]) == binio.Checksum(h[:12]) {
		return owner, false, binio.CheckVersion(path, "series log", uint64(binary.LittleEndian.Uint32(h[8:])), logVersion)
	}
	const sum = logHeaderBytes - 4
	const name = len(logMagic) - 1 // the last byte of the magic is the version once more
	if len(h) < logHeaderBytes || string(h[:name]) != logMagic[:name] || binary.LittleEndian.Uint32(h[sum:]) != binio.Checksum(h[:sum]) {
		return owner, false, nil
	}
	if err := binio.CheckVersion(path, "series log", uint64(binary.LittleEndian.Uint32(h[8:])), logVersion); err != nil {
		return owner, false, err
	}
	owner.ID = binary.LittleEndian.Uint32(h[12:])
	copy(owner.Lineage[:], h[16:])
	return owner, true, nil
}

// ReadOwner returns the database that the series log in dir names. A log
// that does not exist is an fs.ErrNotExist, one without a sound header an
// ErrCorrupt.
func ReadOwner(fsys vfs.FS, dir string) (identity.Database, error) {
	name := path.Join(dir, LogName)
	f, err := fsys.Open(name)
	if err != nil {
		return identity.Database{}, err
	}
	defer f.Close()
	h := make([]byte, logHeaderBytes)
	n, err := f.ReadAt(h, 0)
	if err != nil && err != io.EOF {
		return identity.Database{}, fmt.Errorf("read series log %s: %w", name, err)
	}
	owner, ok, err := parseLogHeader(name, h[:n])
	if err == nil && !ok {
		err = binio.Corruptf(name, 0, "series log: bad header")
	}
	return owner, err
}

// load brings the index into memory and reads the log behind what it covers.
func (f *File) load() error {
	size, err := f.log.Size()
	if err != nil {
		return err
	}
	if err := f.checkLogHeader(size); err != nil {
		return err
	}
	x, err := openIndex(f.fs, f.indexPath())
	switch {
	case err == nil:
		if why := f.mismatch(x, size); why != "" {
			f.warn("series index does not belong to the log, rebuilding it", errors.New(why))
			_ = x.close()
			f.mu.stale = true
			break
		}
		f.mu.index = x
		f.mu.lastCRC, f.mu.maxID = x.lastCRC, x.maxID
		f.mu.blocks = make([]*blockEntry, len(x.dir))
		entries := make([]blockEntry, len(x.dir))
		for i, p := range x.dir {
			entries[i].blockPlace = p
			f.mu.blocks[i] = &entries[i]
			f.mu.n += p.count
		}
		x.dir = nil
		// The log has repairs that the directory does not have: it names the
		// damaged block instead; see scan.
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, binio.ErrCorrupt):
		f.warn("series index damaged, rebuilding it", err)
		f.mu.stale = true
	default:
		return err
	}
	from := int64(logHeaderBytes)
	if f.mu.index != nil {
		from = f.mu.index.logBytes
	}
	return f.scan(from, max(size, from))
}

func (f *File) checkLogHeader(size int64) error {
	h := make([]byte, logHeaderBytes)
	n, err := f.log.ReadAt(h, 0)
	if err != nil && err != io.EOF {
		return err
	}
	owner, ok, err := parseLogHeader(f.logPath, h[:n])
	if err != nil {
		return err
	}
	if ok {
		if owner != f.opt.Identity {
			return identity.Foreignf(f.logPath, "the series log belongs to %s, not to %s", owner, f.opt.Identity)
		}
		return nil
	}
	// A crash in createLog leaves a file without a header, and without blocks.
	first, err := f.findHeader(0, size)
	if err != nil {
		return err
	}
	if first == size {
		return f.writeLogHeader(f.log)
	}
	f.addDamage(binio.Corruptf(f.logPath, 0, "series log: bad header"))
	return nil
}

func (f *File) addDamage(err error) {
	f.mu.damage = append(f.mu.damage, err)
	f.warn("series log damaged, its series must be restored", err)
}

// mismatch says why the index cannot be that of the log, or "".
func (f *File) mismatch(x *indexFile, size int64) string {
	if x.owner != f.opt.Identity {
		return "it belongs to " + x.owner.String()
	}
	if x.logBytes > size {
		return "log is shorter than the index says"
	}
	var last *blockPlace
	for i := range x.dir {
		if last == nil || x.dir[i].offset > last.offset {
			last = &x.dir[i]
		}
	}
	if last == nil {
		return ""
	}
	h := make([]byte, blockHeaderBytes)
	if _, err := f.log.ReadAt(h, last.offset); err != nil {
		return err.Error()
	}
	// Only the stored checksum is compared: a damaged header must not cost
	// the index too.
	if crc := binary.LittleEndian.Uint32(h[28:]); crc != x.lastCRC && x.lastCRC != 0 {
		if hd, ok := parseBlockHeader(h, last.offset); ok && hd.headerCRC != x.lastCRC {
			return "last block differs"
		}
	}
	return ""
}

// readBlock reads the block of length bytes at offset of a log.
func (f *File) readBlock(log vfs.File, offset, length int64) (blockHeader, *block, error) {
	buf := make([]byte, length)
	if n, err := log.ReadAt(buf, offset); err != nil && !(err == io.EOF && n == len(buf)) {
		if err == io.EOF {
			return blockHeader{}, nil, binio.Corruptf(f.logPath, offset, "series block: log ends inside it")
		}
		return blockHeader{}, nil, fmt.Errorf("read series log %s: %w", f.logPath, err)
	}
	h, ok := parseBlockHeader(buf, offset)
	if !ok || int64(h.length) != length-blockHeaderBytes {
		return h, nil, binio.Corruptf(f.logPath, offset, "series block: bad header")
	}
	b, err := decodeBlock(&h, buf[blockHeaderBytes:])
	if err != nil {
		return h, nil, binio.Corruptf(f.logPath, offset, "%s", binio.Reason(err))
	}
	return h, b, nil
}

// scannedBlock is a block that scan found.
type scannedBlock struct {
	offset int64
	header blockHeader
	keys   *block // nil if the payload is damaged
}

// scan reads the log from an offset to its end.
//
// Every block names the offset where its Sync began. Damage at an offset
// before the beginning of a Sync that left a block is damage of synced data.
// Damage behind it belongs to the last Sync, which may not have finished: the
// log is cut there. Should the Sync have left good blocks behind the damage,
// a new log is written that has them.
func (f *File) scan(from, size int64) error {
	var good []scannedBlock
	var bad []int64 // where damage begins; one per stretch
	offset, inBad := from, false
	lastBatch := int64(0)
	for offset < size {
		s, ok, err := f.scanBlock(offset, size)
		if err != nil {
			return err
		}
		if !ok || s.keys == nil {
			if !inBad {
				bad = append(bad, offset)
			}
			inBad = true
		}
		if !ok {
			next, err := f.findHeader(offset+1, size)
			if err != nil {
				return err
			}
			offset = next
			continue
		}
		lastBatch = max(lastBatch, s.header.batch)
		good = append(good, s)
		inBad = s.keys == nil
		offset += blockHeaderBytes + int64(s.header.length)
	}
	torn := size // where an unfinished Sync begins to be damaged
	for _, b := range bad {
		if b >= lastBatch {
			torn = b
			break
		}
		f.addDamage(binio.Corruptf(f.logPath, b, "series log: damaged block"))
	}
	rescue := false
	for _, s := range good {
		f.mu.maxID = max(f.mu.maxID, s.header.last()) // never hand these out again
		rescue = rescue || s.offset > torn && s.keys != nil
	}
	if rescue && len(f.mu.damage) > 0 {
		// Nothing is moved in a log that is damaged elsewhere.
		f.addDamage(binio.Corruptf(f.logPath, torn, "series log: damaged block"))
		torn, rescue = size, false
	}
	for _, s := range good {
		f.addScanned(s, s.offset < torn)
	}
	f.mu.logEnd = torn
	if torn == size {
		return nil
	}
	if rescue {
		f.warn("series log has damage in its last sync, rewriting it", binio.Corruptf(f.logPath, torn, "damaged block"))
		return f.rewriteLocked(false)
	}
	empty, err := f.isZero(torn, size)
	if err != nil || empty {
		return err
	}
	f.warn("series log has a torn end, cutting it", binio.Corruptf(f.logPath, torn, "%d bytes cut", size-torn))
	return f.zero(torn, size)
}

// scanBlock reads the block at offset; false says that there is no header.
func (f *File) scanBlock(offset, size int64) (scannedBlock, bool, error) {
	s := scannedBlock{offset: offset}
	if size-offset < blockHeaderBytes {
		return s, false, nil
	}
	buf := make([]byte, blockHeaderBytes)
	if _, err := f.log.ReadAt(buf, offset); err != nil && err != io.EOF {
		return s, false, err
	}
	var ok bool
	if s.header, ok = parseBlockHeader(buf, offset); !ok || int64(s.header.length) > size-offset-blockHeaderBytes {
		return s, false, nil
	}
	_, b, err := f.readBlock(f.log, offset, blockHeaderBytes+int64(s.header.length))
	if err != nil && !errors.Is(err, binio.ErrCorrupt) {
		return s, false, err
	}
	s.keys = b
	return s, true, nil
}

// findHeader returns the offset of the next intact block header, or size.
func (f *File) findHeader(from, size int64) (int64, error) {
	const window = 1 << 20
	buf := make([]byte, window)
	for from < size {
		n, err := f.log.ReadAt(buf[:min(window, size-from)], from)
		if err != nil && err != io.EOF {
			return 0, err
		}
		for i := 0; ; {
			j := bytes.Index(buf[i:n], []byte(blockMagic))
			if j < 0 {
				break
			}
			i += j
			h := make([]byte, blockHeaderBytes)
			if m, err := f.log.ReadAt(h, from+int64(i)); err != nil && err != io.EOF {
				return 0, err
			} else if _, ok := parseBlockHeader(h[:m], from+int64(i)); ok {
				return from + int64(i), nil
			}
			i++
		}
		if from+int64(n) >= size || n < len(blockMagic) {
			break
		}
		from += int64(n - len(blockMagic) + 1)
	}
	return size, nil
}

// addScanned takes over a block read by scan. kept says that it stays where it
// is; the keys of others must be written again.
func (f *File) addScanned(s scannedBlock, kept bool) {
	h := &s.header
	if s.keys == nil && !kept {
		return
	}
	if kept {
		f.mu.lastCRC = h.headerCRC
	}
	if kept && !f.overlaps(h.first, h.last()) {
		f.insertBlock(&blockEntry{blockPlace: blockPlace{
			first: h.first, count: h.count,
			offset: s.offset, length: blockHeaderBytes + int64(h.length),
		}})
		f.mu.n += h.count
		if s.keys != nil {
			for id := uint64(h.first); id <= uint64(h.last()); id++ {
				f.addSlotLocked(slots.Slot(fingerprint(s.keys.key(uint32(id))), uint32(id)))
			}
		}
		return
	}
	if s.keys == nil {
		return
	}
	// A repair of a damaged block, or a block behind the cut.
	for id := uint64(h.first); id <= uint64(h.last()); id++ {
		key := s.keys.key(uint32(id))
		if have, err := f.keyLocked(uint32(id)); err == nil && have != "" {
			continue // the first one counts: ids never change their key
		}
		if f.blockOfLocked(uint32(id)) == nil {
			f.mu.n++
		}
		f.addSlotLocked(slots.Slot(fingerprint(key), uint32(id)))
		if kept {
			f.mu.repaired.set(uint32(id), key)
		} else {
			f.mu.pending.set(uint32(id), key)
		}
	}
}

// overlaps reports whether a block holds an id of [first, last].
func (f *File) overlaps(first, last uint32) bool {
	i, _ := slices.BinarySearchFunc(f.mu.blocks, first, func(e *blockEntry, id uint32) int { return cmp.Compare(e.first, id) })
	return i < len(f.mu.blocks) && f.mu.blocks[i].first <= last || f.blockOfLocked(first) != nil
}

func (f *File) insertBlock(e *blockEntry) {
	i, _ := slices.BinarySearchFunc(f.mu.blocks, e.first, func(e *blockEntry, id uint32) int { return cmp.Compare(e.first, id) })
	f.mu.blocks = slices.Insert(f.mu.blocks, i, e)
}

// isZero reports whether [from, to) of the log is what zero leaves.
func (f *File) isZero(from, to int64) (bool, error) {
	buf := make([]byte, min(to-from, 1<<20))
	for at := from; at < to; at += int64(len(buf)) {
		part := buf[:min(int64(len(buf)), to-at)]
		if _, err := f.log.ReadAt(part, at); err != nil && err != io.EOF {
			return false, err
		}
		for _, c := range part {
			if c != 0 {
				return false, nil
			}
		}
	}
	return true, nil
}

// zero overwrites [from, to) of the log: what is cut must not be found again
// behind blocks written over its beginning.
func (f *File) zero(from, to int64) error {
	z := make([]byte, min(to-from, 1<<20))
	for at := from; at < to; at += int64(len(z)) {
		if _, err := f.log.WriteAt(z[:min(int64(len(z)), to-at)], at); err != nil {
			return err
		}
	}
	return f.log.SyncData()
}
