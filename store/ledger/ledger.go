// Package ledger keeps what the next start of a store must find: which shards have
// files, and how far the log goes. A directory that is missing as a whole, and a log
// without its end, cannot tell their own loss. docs/formats/ledger.md describes the
// file.
//
// File may be used by any number of goroutines.
package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"sync"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/wal"
)

// Name is the name of the ledger in the catalog's directory.
const Name = "ledger"

// The ledger says what the next start must find: which shards have files, and
// how far the log goes. It is a file of its own, because the catalog is too large
// to be written for every shard's first flush and the directories that it vouches
// for may be missing as a whole.
//
//	header   | magic "TSDBDLED" 8 | version u32 | lineage 16 | crc u32 |
//	record   | crc u32 | kind u8 | flags u8 | zeros u16 | a u64 | b u64 | c u64 |
//
//	kind 1   shard a of database b has files; c is 0
//	kind 2   the log has segment a, and entries up to b; those up to c are in
//	         files of every shard. The last one counts.
//
// A record's crc covers what follows it and starts from the record's offset. What
// the ledger lacks costs a warning and no data, so a damaged one is rewritten.
const (
	magic       = "TSDBDLED"
	version     = 1
	headerBytes = 32
	recordBytes = 32

	kindShard = 1
	kindLog   = 2

	flagOpen    = 1 << 0 // more entries may follow in the segment
	flagTold    = 1 << 1 // what is missing of the log was reported
	flagRelaxed = 1 << 2 // the log is not synced before a write is answered
)

// Ledger is what a data directory's ledger says.
type Ledger struct {
	Lineage identity.Lineage
	Shards  map[uint64]uint32 // shards that have files, and their databases
	Log     wal.Known
	Relaxed bool // the log was not synced before writes were answered
}

// Read reads the ledger of the data directory dir and changes nothing.
// Records that are damaged are left out; whole says that there are none. A
// directory without a ledger is an fs.ErrNotExist.
func Read(fsys vfs.FS, dir string) (l *Ledger, whole bool, err error) {
	name := path.Join(dir, "meta", Name)
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, false, err
	}
	return decode(name, b)
}

func decode(name string, b []byte) (l *Ledger, whole bool, err error) {
	if len(b) < headerBytes || string(b[:8]) != magic || binio.Checksum(b[:28]) != binary.LittleEndian.Uint32(b[28:]) {
		return nil, false, binio.Corruptf(name, 0, "ledger: bad header")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return nil, false, fmt.Errorf("open %s: ledger version %d is not known to this program (it knows %d)", name, v, version)
	}
	l = &Ledger{Shards: map[uint64]uint32{}}
	copy(l.Lineage[:], b[12:])
	whole = true
	for at := headerBytes; at < len(b); at += recordBytes {
		if len(b)-at < recordBytes {
			return l, false, nil
		}
		r := b[at : at+recordBytes]
		if binio.ChecksumUpdate(uint32(at), r[4:]) != binary.LittleEndian.Uint32(r) {
			whole = false
			continue
		}
		x, y, z := binary.LittleEndian.Uint64(r[8:]), binary.LittleEndian.Uint64(r[16:]), binary.LittleEndian.Uint64(r[24:])
		switch r[4] {
		case kindShard:
			l.Shards[x] = uint32(y)
		case kindLog:
			l.Log = wal.Known{Segment: x, Sequence: y, Covered: z, Open: r[5]&flagOpen != 0, Told: r[5]&flagTold != 0}
			l.Relaxed = r[5]&flagRelaxed != 0
		}
	}
	return l, whole, nil
}

func (l *Ledger) header() []byte {
	b := append(make([]byte, 0, headerBytes), magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = append(b, l.Lineage[:]...)
	return binary.LittleEndian.AppendUint32(b, binio.Checksum(b))
}

// appendRecord appends a record to dst, which stands at offset at of the file.
func appendRecord(dst []byte, at int64, kind, flags byte, x, y, z uint64) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, kind, flags, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, x)
	dst = binary.LittleEndian.AppendUint64(dst, y)
	dst = binary.LittleEndian.AppendUint64(dst, z)
	binary.LittleEndian.PutUint32(dst[start:], binio.ChecksumUpdate(uint32(at+int64(start)), dst[start+4:]))
	return dst
}

func (l *Ledger) appendLog(dst []byte, at int64) []byte {
	flags := byte(0)
	if l.Log.Open {
		flags |= flagOpen
	}
	if l.Log.Told {
		flags |= flagTold
	}
	if l.Relaxed {
		flags |= flagRelaxed
	}
	return appendRecord(dst, at, kindLog, flags, l.Log.Segment, l.Log.Sequence, l.Log.Covered)
}

// File is the ledger of an open store.
type File struct {
	fs     vfs.FS
	dir    string // that of the catalog
	logger *slog.Logger

	mu struct {
		sync.Mutex
		Ledger
		queued []uint64 // shards that are not in the file yet
		dirty  bool     // so is Log
		end    int64    // of the file; 0: it must be written as a whole
		limit  int64    // above it the file is written as a whole
	}
	unsure unsure
}

// Open opens the ledger of the data directory dir. One that is missing, damaged or of another data
// directory is begun again: what it would say is then not known.
func Open(fsys vfs.FS, dir string, lineage identity.Lineage, logger *slog.Logger) (*File, error) {
	l := &File{fs: fsys, dir: path.Join(dir, "meta"), logger: logger}
	l.mu.Ledger = Ledger{Lineage: lineage, Shards: map[uint64]uint32{}}
	name := path.Join(l.dir, Name)
	have, whole, err := Read(fsys, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case errors.Is(err, binio.ErrCorrupt):
		logger.Warn("ledger damaged, begun again", "path", name, "err", err)
		return l, nil
	case err != nil:
		return nil, err
	case have.Lineage != lineage:
		logger.Warn("ledger of another data directory set aside", "path", name, "lineage", have.Lineage)
		return l, fsys.Rename(name, name+".foreign")
	}
	l.mu.Ledger = *have
	if whole {
		info, err := fsys.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("open ledger: %w", err)
		}
		l.mu.end = info.Size()
		l.setLimit()
	}
	return l, nil
}

// setLimit allows the file as much again as it needs.
func (l *File) setLimit() { l.mu.limit = headerBytes + 2*recordBytes*int64(len(l.mu.Shards)+2048) }

// Prune forgets shards that the catalog no longer has.
func (l *File) Prune(has map[uint64]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.mu.Shards {
		if !has[id] {
			delete(l.mu.Shards, id)
		}
	}
	l.setLimit()
}

// Log returns what the ledger says of the log, and whether it was synced before
// writes were answered.
func (l *File) Log() (known wal.Known, relaxed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.Log, l.mu.Relaxed
}

// Has reports whether a shard is known to have files.
func (l *File) Has(shard uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.mu.Shards[shard]
	return ok
}

// Add notes that a shard has files. The next SetLog makes it durable: that is in
// time as long as the log has all that is in them.
func (l *File) Add(shard uint64, database uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.mu.Shards[shard]; !ok {
		l.mu.Shards[shard] = database
		l.mu.queued = append(l.mu.queued, shard)
	}
}

// SetLog changes what the ledger says of the log, and saves it if it changed.
func (l *File) SetLog(change func(known *wal.Known, relaxed *bool)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, relaxed := l.mu.Log, l.mu.Relaxed
	change(&known, &relaxed)
	if known != l.mu.Log || relaxed != l.mu.Relaxed {
		l.mu.Log, l.mu.Relaxed, l.mu.dirty = known, relaxed, true
	}
	return l.saveLocked()
}

// saveLocked makes what was added durable: at the end of the file, or by a new
// file when the old one is damaged or has grown. On an error it tries again at
// the next call.
func (l *File) saveLocked() (err error) {
	if len(l.mu.queued) == 0 && !l.mu.dirty {
		return nil
	}
	name := path.Join(l.dir, Name)
	defer func() {
		if err != nil {
			l.mu.end = 0
			err = fmt.Errorf("write ledger %s: %w", name, err)
			return
		}
		l.mu.queued, l.mu.dirty = nil, false
	}()
	if l.mu.end == 0 || l.mu.end > l.mu.limit {
		b := l.mu.header()
		for _, id := range slices.Sorted(maps.Keys(l.mu.Shards)) {
			b = appendRecord(b, 0, kindShard, 0, id, uint64(l.mu.Shards[id]), 0)
		}
		b = l.mu.appendLog(b, 0)
		if err := vfs.WriteFileAtomic(l.fs, l.dir, name, b); err != nil {
			return err
		}
		l.mu.end = int64(len(b))
		l.setLimit()
		return nil
	}
	var b []byte
	for _, id := range l.mu.queued {
		b = appendRecord(b, l.mu.end, kindShard, 0, id, uint64(l.mu.Shards[id]), 0)
	}
	if l.mu.dirty {
		b = l.mu.appendLog(b, l.mu.end)
	}
	f, err := l.fs.OpenReadWrite(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, l.mu.end)
	if err == nil {
		err = f.SyncData()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	l.mu.end += int64(len(b))
	return nil
}
