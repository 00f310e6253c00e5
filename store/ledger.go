package store

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

// LedgerName is the name of the ledger in the catalog's directory.
const LedgerName = "ledger"

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
	ledgerMagic   = "TSDBDLED"
	ledgerVersion = 1
	ledgerHeader  = 32
	ledgerRecord  = 32

	ledgerShard = 1
	ledgerLog   = 2

	ledgerOpen    = 1 << 0 // more entries may follow in the segment
	ledgerTold    = 1 << 1 // what is missing of the log was reported
	ledgerRelaxed = 1 << 2 // the log is not synced before a write is answered
)

// Ledger is what a data directory's ledger says.
type Ledger struct {
	Lineage identity.Lineage
	Shards  map[uint64]uint32 // shards that have files, and their databases
	Log     wal.Known
	Relaxed bool // the log was not synced before writes were answered
}

// ReadLedger reads the ledger of the data directory dir and changes nothing.
// Records that are damaged are left out; whole says that there are none. A
// directory without a ledger is an fs.ErrNotExist.
func ReadLedger(fsys vfs.FS, dir string) (l *Ledger, whole bool, err error) {
	name := path.Join(dir, "meta", LedgerName)
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, false, err
	}
	return decodeLedger(name, b)
}

func decodeLedger(name string, b []byte) (l *Ledger, whole bool, err error) {
	if len(b) < ledgerHeader || string(b[:8]) != ledgerMagic || binio.Checksum(b[:28]) != binary.LittleEndian.Uint32(b[28:]) {
		return nil, false, binio.Corruptf(name, 0, "ledger: bad header")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != ledgerVersion {
		return nil, false, fmt.Errorf("open %s: ledger version %d is not known to this program (it knows %d)", name, v, ledgerVersion)
	}
	l = &Ledger{Shards: map[uint64]uint32{}}
	copy(l.Lineage[:], b[12:])
	whole = true
	for at := ledgerHeader; at < len(b); at += ledgerRecord {
		if len(b)-at < ledgerRecord {
			return l, false, nil
		}
		r := b[at : at+ledgerRecord]
		if binio.ChecksumUpdate(uint32(at), r[4:]) != binary.LittleEndian.Uint32(r) {
			whole = false
			continue
		}
		x, y, z := binary.LittleEndian.Uint64(r[8:]), binary.LittleEndian.Uint64(r[16:]), binary.LittleEndian.Uint64(r[24:])
		switch r[4] {
		case ledgerShard:
			l.Shards[x] = uint32(y)
		case ledgerLog:
			l.Log = wal.Known{Segment: x, Sequence: y, Covered: z, Open: r[5]&ledgerOpen != 0, Told: r[5]&ledgerTold != 0}
			l.Relaxed = r[5]&ledgerRelaxed != 0
		}
	}
	return l, whole, nil
}

func (l *Ledger) header() []byte {
	b := append(make([]byte, 0, ledgerHeader), ledgerMagic...)
	b = binary.LittleEndian.AppendUint32(b, ledgerVersion)
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
		flags |= ledgerOpen
	}
	if l.Log.Told {
		flags |= ledgerTold
	}
	if l.Relaxed {
		flags |= ledgerRelaxed
	}
	return appendRecord(dst, at, ledgerLog, flags, l.Log.Segment, l.Log.Sequence, l.Log.Covered)
}

// ledger is the ledger of an open store.
type ledger struct {
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
}

// openLedger opens the ledger. One that is missing, damaged or of another data
// directory is begun again: what it would say is then not known.
func openLedger(fsys vfs.FS, dir string, lineage identity.Lineage, logger *slog.Logger) (*ledger, error) {
	l := &ledger{fs: fsys, dir: path.Join(dir, "meta"), logger: logger}
	l.mu.Ledger = Ledger{Lineage: lineage, Shards: map[uint64]uint32{}}
	name := path.Join(l.dir, LedgerName)
	have, whole, err := ReadLedger(fsys, dir)
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
func (l *ledger) setLimit() { l.mu.limit = ledgerHeader + 2*ledgerRecord*int64(len(l.mu.Shards)+2048) }

// prune forgets shards that the catalog no longer has.
func (l *ledger) prune(has map[uint64]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.mu.Shards {
		if !has[id] {
			delete(l.mu.Shards, id)
		}
	}
	l.setLimit()
}

// log returns what the ledger says of the log, and whether it was synced before
// writes were answered.
func (l *ledger) log() (known wal.Known, relaxed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.Log, l.mu.Relaxed
}

// has reports whether a shard is known to have files.
func (l *ledger) has(shard uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.mu.Shards[shard]
	return ok
}

// add notes that a shard has files. The next save makes it durable: that is in
// time as long as the log has all that is in them.
func (l *ledger) add(shard uint64, database uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.mu.Shards[shard]; !ok {
		l.mu.Shards[shard] = database
		l.mu.queued = append(l.mu.queued, shard)
	}
}

// setLog changes what the ledger says of the log, and saves it if it changed.
func (l *ledger) setLog(change func(known *wal.Known, relaxed *bool)) error {
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
func (l *ledger) saveLocked() (err error) {
	if len(l.mu.queued) == 0 && !l.mu.dirty {
		return nil
	}
	name := path.Join(l.dir, LedgerName)
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
			b = appendRecord(b, 0, ledgerShard, 0, id, uint64(l.mu.Shards[id]), 0)
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
		b = appendRecord(b, l.mu.end, ledgerShard, 0, id, uint64(l.mu.Shards[id]), 0)
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
