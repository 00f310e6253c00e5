package series

import (
	"errors"
	"fmt"
	"slices"

	"tsdbd/internal/binio"
	"tsdbd/internal/keyblock"
	"tsdbd/internal/slots"
	"tsdbd/internal/vfs"
	"tsdbd/model"
)

var errSealed = errors.New("series file sealed")

// Sync makes the keys of all ids that were confirmed before the call durable. After a
// failed sync the end of the log is unknown, and the result of a second sync would not
// be true (W7): the next Sync replaces the log by a new one. A failed write, for
// example on a full disk, may be retried: it writes to the same place. Sync rewrites
// the index file when many series are not in it. If that fails, Sync only logs it: the
// series stay in memory, and no data is lost.
func (f *File) Sync() error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	return f.sync(false)
}

// Close syncs, writes the index file if it lacks more than a few series, and
// closes the files. A sealed file it only closes.
func (f *File) Close() error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	err := f.sync(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		return nil
	}
	f.mu.sealed, f.mu.closed = true, true
	f.countLocked()
	err = errors.Join(err, f.mu.index.close(), f.log.Close())
	f.mu.index = nil
	f.opt.Cache.drop(f.mu.blocks)
	if err != nil {
		return fmt.Errorf("close series file %s: %w", f.dir, err)
	}
	return nil
}

// Seal ends all writing, because the directory is about to be removed or must stay
// as it is. It waits for a Sync, a Rewrite, or a CopyLog that is under way; later ones
// fail. Keys can be read until Close.
func (f *File) Seal() {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.sealed = true
}

// CopyLog calls keep, which copies the log. Nothing writes to the log meanwhile.
func (f *File) CopyLog(keep func() error) error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	f.mu.RLock()
	sealed := f.mu.sealed
	f.mu.RUnlock()
	if sealed {
		return errSealed
	}
	return keep()
}

// sync does Sync; f.syncing is held. closing lowers the bar for the index.
func (f *File) sync(closing bool) error {
	f.mu.Lock()
	var err error
	switch {
	case f.mu.sealed && !closing:
		err = errSealed
	case f.mu.failed != nil && !f.mu.sealed:
		if err = f.rewriteLocked(true); err != nil {
			err = fmt.Errorf("%w; since then: %w", f.mu.failed, err)
		} else {
			f.warn("series log rewritten after a failed sync", nil)
		}
	}
	if err != nil || f.mu.sealed {
		f.mu.Unlock()
		return err
	}
	indexed := 0
	if f.mu.index != nil {
		indexed = f.mu.index.entries
	}
	// An index over a damaged log would hide the damage, and the repairs.
	sound := len(f.mu.damage) == 0 && f.mu.repaired.n == 0
	reindex := sound && (f.mu.stale || f.mu.tail.Len() > f.opt.IndexTail+indexed/4 || closing && f.mu.tail.Len() > 1024)
	if f.mu.pending.n == 0 && !reindex {
		f.mu.Unlock()
		return nil
	}
	f.mu.flushing, f.mu.pending = f.mu.pending, keyPages{}
	f.mu.inSync = true
	start := f.mu.logEnd
	var added []uint64
	if reindex {
		added = slices.DeleteFunc(f.mu.tail.All(), func(s uint64) bool {
			_, claim := f.mu.claims.get(uint32(s))
			if claim {
				f.mu.fresh = append(f.mu.fresh, s)
			}
			return claim
		})
	}
	f.mu.Unlock()
	slices.Sort(added)

	// f.mu.blocks changes under f.syncing only, so it is read here without mu.
	w := logWriter{log: f.log, end: start, batch: start, covered: func(id uint32) bool { return f.blockOfLocked(id) != nil }}
	f.mu.flushing.each(w.put)
	if err := w.finish(); err != nil {
		return f.fail(err, false)
	}
	if w.end > start {
		if err := f.log.SyncData(); err != nil {
			return f.fail(err, true)
		}
	}

	f.mu.Lock()
	for _, b := range w.written {
		if w.covered(b.first) {
			for id := uint64(b.first); id < uint64(b.first)+uint64(b.count); id++ {
				key, _ := f.mu.flushing.get(uint32(id))
				f.mu.repaired.set(uint32(id), key)
			}
			continue
		}
		f.insertBlock(&blockEntry{blockPlace: b.blockPlace})
	}
	if len(w.written) > 0 {
		f.mu.lastCRC = w.written[len(w.written)-1].crc
	}
	f.mu.logEnd = w.end
	f.mu.flushing = keyPages{}
	f.countLocked()
	reindex = reindex && f.mu.repaired.n == 0
	if !reindex {
		f.mu.inSync, f.mu.fresh = false, nil
	}
	old, lastCRC := f.mu.index, f.mu.lastCRC
	if reindex && old != nil {
		old.file.Acquire() // a lookup that finds damage may drop it
	}
	f.mu.Unlock()
	if reindex {
		f.reindex(old, added, lastCRC)
		if err := old.close(); err != nil {
			f.warn("series index not closed", err)
		}
	}
	return nil
}

// fail ends a Sync with err, which is the file's fate if it is for good. The
// keys stay readable in memory.
func (f *File) fail(err error, forGood bool) error {
	err = fmt.Errorf("sync series file %s: %w", f.dir, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.flushing.each(f.mu.pending.set)
	f.mu.flushing = keyPages{}
	f.countLocked()
	f.mu.inSync, f.mu.fresh = false, nil
	if forGood {
		f.mu.failed = err
	}
	return err
}

// reindex writes and takes over a new index file; f.syncing is held.
func (f *File) reindex(old *indexFile, added []uint64, lastCRC uint32) {
	places := make([]blockPlace, len(f.mu.blocks))
	var maxID uint32
	for i, e := range f.mu.blocks {
		places[i] = e.blockPlace
		maxID = e.first + uint32(e.count) - 1
	}
	err := writeIndex(f.fs, f.dir, f.indexPath(), f.opt.Identity, old, added, places, f.mu.logEnd, lastCRC, maxID)
	var x *indexFile
	if err == nil {
		if x, err = openIndex(f.fs, f.indexPath()); x != nil {
			x.dir = nil
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := f.mu.fresh
	f.mu.inSync, f.mu.fresh = false, nil
	if err != nil {
		f.warn("series index not written, its series stay in memory", err)
		if old != nil && isIndexDamage(err, old) {
			if err := f.dropIndexLocked(err); err != nil {
				f.warn("series index not rebuilt", err)
			}
		}
		return
	}
	if f.mu.index != old { // dropped for damage: the tail has all
		_ = x.close()
		return
	}
	_ = old.close()
	f.mu.index, f.mu.stale = x, false
	f.mu.tail = nil
	for _, s := range fresh {
		f.addSlotLocked(s)
	}
}

// dropIndexLocked gives up a damaged index file and brings its series into
// memory, from the log. Blocks that cannot be read are left out: their keys
// are lost until they are restored.
func (f *File) dropIndexLocked(why error) error {
	if f.mu.index == nil {
		return nil
	}
	f.warn("series index damaged, rebuilding it", why)
	for _, e := range f.mu.blocks {
		_, b, err := f.readBlock(f.log, e.offset, e.length)
		if err != nil {
			f.warn("series block not readable", err)
			continue
		}
		for i := range b.ends {
			id := e.first + uint32(i)
			f.addSlotLocked(slots.Slot(fingerprint(b.key(id)), id))
		}
	}
	err := f.mu.index.close()
	f.mu.index, f.mu.stale = nil, true
	return err
}

// Verify reads the whole log and index, past the open files and through fsys (nil: the
// file's own), and returns the damage found, each a *binio.CorruptError. Any other error
// ends it. Nobody waits for its reads.
func (f *File) Verify(fsys vfs.FS) []error {
	if fsys == nil {
		fsys = f.fs
	}
	f.mu.RLock()
	found, blocks, x := slices.Clone(f.mu.damage), slices.Clone(f.mu.blocks), f.mu.index
	f.mu.RUnlock()
	inUse := func(is func() bool) bool {
		f.mu.RLock()
		defer f.mu.RUnlock()
		return !f.mu.sealed && is()
	}
	if x != nil {
		if err := verifyIndex(fsys, x.path); err != nil && inUse(func() bool { return f.mu.index == x }) {
			found = append(found, err)
		}
	}
	if len(blocks) == 0 {
		return found
	}
	log, err := fsys.Open(f.logPath)
	if err != nil {
		if inUse(func() bool { return true }) {
			found = append(found, err)
		}
		return found
	}
	defer log.Close()
	for _, e := range blocks {
		h, b, err := f.readBlock(log, e.offset, e.length)
		if err == nil && (h.first != e.first || len(b.ends) != e.count) {
			err = binio.Corruptf(f.logPath, e.offset, "series block: not the block the index names")
		}
		// It is no damage if the log was rewritten since the block was looked up.
		if err != nil && inUse(func() bool { return f.blockOfLocked(e.first) == e }) {
			found = append(found, err)
		}
		if err != nil && !errors.Is(err, binio.ErrCorrupt) {
			break
		}
	}
	return found
}

// Rewrite writes a new log of all keys that can be read, and forgets the
// damage of the old one. The owner calls it once it has restored what it can. With whole
// set, a key that cannot be read is an error, and the log stays.
func (f *File) Rewrite(whole bool) error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.sealed {
		return errSealed
	}
	return f.rewriteLocked(whole)
}

// rewriteLocked replaces the log by one with every readable key, in order, or
// with every key, if whole is set. The index goes first: there must never
// be an index of another log.
func (f *File) rewriteLocked(whole bool) error {
	if err := f.dropIndexLocked(errors.New("log is being rewritten")); err != nil {
		return err
	}
	if _, err := f.fs.Stat(f.indexPath()); err == nil {
		if err := f.fs.Remove(f.indexPath()); err != nil {
			return err
		}
		if err := f.fs.SyncDir(f.dir); err != nil {
			return err
		}
	}
	tmp := f.logPath + ".tmp"
	log, err := f.fs.Create(tmp)
	if err != nil {
		return err
	}
	w, err := f.writeAll(log, whole)
	if err == nil {
		err = f.fs.Rename(tmp, f.logPath)
	}
	if err != nil {
		_ = log.Close()
		_ = f.fs.Remove(tmp)
		return fmt.Errorf("rewrite series log %s: %w", f.logPath, err)
	}
	if err := f.fs.SyncDir(f.dir); err != nil {
		_ = log.Close()
		f.mu.failed = fmt.Errorf("rewrite series log %s: %w", f.logPath, err)
		return f.mu.failed
	}
	_ = f.log.Close()
	f.log = log
	f.opt.Cache.drop(f.mu.blocks)
	f.mu.blocks, f.mu.n = nil, 0
	f.mu.tail = nil
	f.mu.pending, f.mu.repaired = keyPages{}, keyPages{}
	f.mu.claims.each(func(id uint32, key string) { f.addSlotLocked(slots.Slot(fingerprint(key), id)) })
	f.countLocked()
	f.mu.damage, f.mu.failed = nil, nil
	f.mu.generation++
	f.mu.stale = true
	f.mu.logEnd, f.mu.lastCRC = w.end, 0
	for _, b := range w.written {
		f.insertBlock(&blockEntry{blockPlace: b.blockPlace})
		f.mu.n += b.count
		f.mu.lastCRC = b.crc
	}
	for _, s := range w.slots {
		f.addSlotLocked(s)
	}
	return nil
}

// writeAll writes every readable key, in order of id, to an empty log. With
// whole set a block that cannot be read is an error.
func (f *File) writeAll(log vfs.File, whole bool) (*logWriter, error) {
	if err := f.writeLogHeader(log); err != nil {
		return nil, err
	}
	w := &logWriter{log: log, end: logHeaderBytes, batch: logHeaderBytes, covered: func(uint32) bool { return false }, keepSlots: true}
	var loose keyPages // keys that no readable block has
	for _, p := range []*keyPages{&f.mu.repaired, &f.mu.flushing, &f.mu.pending} {
		p.each(loose.set)
	}
	// Few keys are loose: they go in front of the block they precede.
	var looseIDs []uint32
	loose.each(func(id uint32, _ string) { looseIDs = append(looseIDs, id) })
	putLoose := func(below uint64) {
		for len(looseIDs) > 0 && uint64(looseIDs[0]) < below {
			k, _ := loose.get(looseIDs[0])
			w.put(looseIDs[0], k)
			looseIDs = looseIDs[1:]
		}
	}
	for _, e := range f.mu.blocks {
		_, b, err := f.readBlock(f.log, e.offset, e.length)
		if err != nil {
			if whole {
				return nil, err
			}
			continue
		}
		for i := range b.ends {
			id := e.first + uint32(i)
			putLoose(uint64(id))
			if len(looseIDs) > 0 && looseIDs[0] == id {
				looseIDs = looseIDs[1:]
			}
			w.put(id, b.key(id))
		}
	}
	putLoose(model.MaxSeriesID + 1)
	if err := w.finish(); err != nil {
		return nil, err
	}
	return w, log.SyncData()
}

// logWriter cuts keys that come in ascending order of id into blocks: of
// consecutive ids, and of ids that other blocks either hold or do not.
type logWriter struct {
	log       vfs.File
	end       int64
	batch     int64
	covered   func(id uint32) bool
	keepSlots bool
	written   []writtenBlock
	slots     []uint64
	err       error

	first   uint32
	repairs bool
	keys    []string
	text    int
	packer  keyblock.Packer
	buf     []byte // not written yet, ends at end
}

type writtenBlock struct {
	blockPlace
	crc uint32
}

func (w *logWriter) put(id uint32, key string) {
	repairs := w.covered(id)
	if n := len(w.keys); n > 0 && (n == blockKeys || w.text >= blockText || id != w.first+uint32(n) || repairs != w.repairs) {
		w.cut()
	}
	if len(w.keys) == 0 {
		w.first, w.repairs = id, repairs
	}
	w.keys = append(w.keys, key)
	w.text += len(key)
	if w.keepSlots {
		w.slots = append(w.slots, slots.Slot(fingerprint(key), id))
	}
}

func (w *logWriter) cut() {
	if len(w.keys) == 0 {
		return
	}
	before := len(w.buf)
	w.buf = appendBlock(w.buf, w.end, w.batch, w.first, w.keys, &w.packer)
	length := int64(len(w.buf) - before)
	h, _ := parseBlockHeader(w.buf[before:], w.end)
	w.written = append(w.written, writtenBlock{blockPlace{w.first, len(w.keys), w.end, length}, h.headerCRC})
	w.end += length
	w.keys, w.text = w.keys[:0], 0
	if len(w.buf) >= 1<<20 {
		w.flush()
	}
}

func (w *logWriter) flush() {
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.log.WriteAt(w.buf, w.end-int64(len(w.buf)))
	}
	w.buf = w.buf[:0]
}

func (w *logWriter) finish() error {
	w.cut()
	w.flush()
	return w.err
}
