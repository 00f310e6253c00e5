// Package ledger keeps what the next start of a store must find: which shards have
// files, how new these are, how far the log goes, and which ids of series were given.
// A directory that is missing as a whole, an older copy of one, a log and a series file
// without their ends cannot tell their own loss. docs/formats/ledger.md describes the
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
	"sync/atomic"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/shard/manifest"
	"tsdbd/wal"
)

// Name is the name of the ledger in the catalog's directory.
const Name = "ledger"

// The ledger says what the next start must find: which shards have files and how new
// they are, how far the log goes, and which ids of series were given. It is a file of its own, because the catalog is too large
// to be written for every shard's first flush and the directories that it vouches
// for may be missing as a whole.
//
//	header   | magic "TSDBDLED" 8 | version u32 | lineage 16 | crc u32 |
//	record   | crc u32 | kind u8 | flags u8 | zeros u16 | a u64 | b u64 | c u64 | d u64 |
//
//	kind 1   shard a of database b has files: a manifest of edition d, which has
//	         flushed the log up to c. The last one of a shard counts.
//	kind 2   the log has segment a, and entries up to b; those up to c are in
//	         files of every shard; d is 0. The last one counts.
//	kind 3   all ids of series that database a has given are below b; c and d are 0.
//	         The last one of a database counts.
//
// A record's crc covers what follows it and starts from the record's offset. What
// the ledger lacks costs a warning and no data, so a damaged one is rewritten.
const (
	magic       = "TSDBDLED"
	version     = 3
	headerBytes = 32
	recordBytes = 40

	kindShard = 1
	kindLog   = 2
	kindIDs   = 3

	flagOpen     = 1 << 0 // more entries may follow in the segment
	flagReported = 1 << 1 // what is missing of the log or the series file was reported
	flagRelaxed  = 1 << 2 // the log is not synced before a write is answered
)

// Ledger is what a data directory's ledger says.
type Ledger struct {
	Lineage identity.Lineage
	Shards  map[uint64]Shard // those that have files
	IDs     map[uint32]IDs   // of databases
	Log     wal.Known
	Relaxed bool // the log was not synced before writes were answered
}

// Shard is what a ledger says of a shard that has files.
type Shard struct {
	Database uint32
	manifest.Known
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
	if err := binio.CheckVersion(name, "ledger", uint64(binary.LittleEndian.Uint32(b[8:])), version); err != nil {
		return nil, false, err
	}
	l = &Ledger{Shards: map[uint64]Shard{}, IDs: map[uint32]IDs{}}
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
		n := func(i int) uint64 { return binary.LittleEndian.Uint64(r[8+8*i:]) }
		switch r[4] {
		case kindShard:
			l.Shards[n(0)] = Shard{uint32(n(1)), manifest.Known{Flushed: n(2), Edition: n(3)}}
		case kindLog:
			l.Log = wal.Known{Segment: n(0), Sequence: n(1), Covered: n(2), Open: r[5]&flagOpen != 0, Told: r[5]&flagReported != 0}
			l.Relaxed = r[5]&flagRelaxed != 0
		case kindIDs:
			l.IDs[uint32(n(0))] = IDs{Next: n(1), Reported: r[5]&flagReported != 0}
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
func appendRecord(dst []byte, at int64, kind, flags byte, values ...uint64) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, kind, flags, 0, 0)
	for _, x := range values {
		dst = binary.LittleEndian.AppendUint64(dst, x)
	}
	binary.LittleEndian.PutUint32(dst[start:], binio.ChecksumUpdate(uint32(at+int64(start)), dst[start+4:]))
	return dst
}

func (l *Ledger) appendShard(dst []byte, at int64, id uint64) []byte {
	s := l.Shards[id]
	return appendRecord(dst, at, kindShard, 0, id, uint64(s.Database), s.Flushed, s.Edition)
}

// encode returns the bytes of a whole ledger.
func (l *Ledger) encode() []byte {
	b := l.header()
	for _, id := range slices.Sorted(maps.Keys(l.Shards)) {
		b = l.appendShard(b, 0, id)
	}
	for _, id := range slices.Sorted(maps.Keys(l.IDs)) {
		b = l.appendIDs(b, 0, id)
	}
	return l.appendLog(b, 0)
}

// Create writes the ledger of the data directory dir.
func (l *Ledger) Create(fsys vfs.FS, dir string) error {
	in := path.Join(dir, "meta")
	if err := fsys.MkdirAll(in); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	if err := vfs.WriteFileAtomic(fsys, in, path.Join(in, Name), l.encode()); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

func (l *Ledger) appendLog(dst []byte, at int64) []byte {
	flags := byte(0)
	if l.Log.Open {
		flags |= flagOpen
	}
	if l.Log.Told {
		flags |= flagReported
	}
	if l.Relaxed {
		flags |= flagRelaxed
	}
	return appendRecord(dst, at, kindLog, flags, l.Log.Segment, l.Log.Sequence, l.Log.Covered, 0)
}

// File is the ledger of an open store.
type File struct {
	fs     vfs.FS
	dir    string // that of the catalog
	logger *slog.Logger

	mu struct {
		sync.Mutex
		Ledger
		queued map[uint64]bool // shards of which the file says less
		given  map[uint32]bool // databases of whose ids it says less
		dirty  bool            // so it does of Log
		end    int64           // of the file; 0: it must be written as a whole
		limit  int64           // above it the file is written as a whole
	}
	found   error // what Open found instead of a whole ledger
	unsure  unsure
	skipped atomic.Int64 // ids, see Skipped
}

// Open opens the ledger of the data directory dir. One that is missing, damaged or of another data
// directory is begun again: what it would say is then not known.
func Open(fsys vfs.FS, dir string, lineage identity.Lineage, logger *slog.Logger) (*File, error) {
	l := &File{fs: fsys, dir: path.Join(dir, "meta"), logger: logger}
	l.mu.queued, l.mu.given = map[uint64]bool{}, map[uint32]bool{}
	l.mu.Ledger = Ledger{Lineage: lineage, Shards: map[uint64]Shard{}, IDs: map[uint32]IDs{}}
	// The first save writes the file as a whole: what there is may be damaged, or, after a
	// kill, not durable.
	l.mu.dirty = true
	name := path.Join(l.dir, Name)
	have, whole, err := Read(fsys, dir)
	if err == nil && !whole {
		l.found = binio.Corruptf(name, -1, "ledger: records are damaged")
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, binio.ErrCorrupt):
		l.found = err
		return l, nil
	case err != nil:
		return nil, err
	case have.Lineage != lineage:
		l.found = fmt.Errorf("ledger of another data directory, with lineage %v, set aside as %s.foreign", have.Lineage, name)
		return l, fsys.Rename(name, name+".foreign")
	}
	l.mu.Ledger = *have
	return l, nil
}

// Complete has note write what the ledger that Open found did not say, now that all is open.
// Until then a directory that gets lost is not missed. A directory without a ledger and
// without a shard that has files has nothing to note. If note fails it is a warning: the next
// trim of the log notes the same.
func (l *File) Complete(note func() error) {
	l.unsure.Lock()
	none := len(l.unsure.shards) == 0
	l.unsure.Unlock()
	if l.found == nil || none && errors.Is(l.found, fs.ErrNotExist) {
		return
	}
	err := note()
	l.logger.Warn("ledger not whole, written again from what is there", "path", path.Join(l.dir, Name), "found", l.found, "err", err)
}

// Prune forgets the shards and databases that the catalog no longer has.
func (l *File) Prune(data *meta.Data) {
	has := map[uint64]bool{}
	for id := range data.Shards() {
		has[id] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.mu.Shards, func(id uint64, _ Shard) bool { return !has[id] })
	maps.DeleteFunc(l.mu.queued, func(id uint64, _ bool) bool { return !has[id] })
	maps.DeleteFunc(l.mu.IDs, func(id uint32, _ IDs) bool { return data.DatabaseByID(id) == nil })
	maps.DeleteFunc(l.mu.given, func(id uint32, _ bool) bool { return data.DatabaseByID(id) == nil })
}

// Log returns what the ledger says of the log, and whether it was synced before
// writes were answered.
func (l *File) Log() (known wal.Known, relaxed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.Log, l.mu.Relaxed
}

// Known returns what the ledger knows of the manifest of a shard.
func (l *File) Known(shard uint64) manifest.Known {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.Shards[shard].Known
}

// Add notes that a shard has files, and the manifest that names them, which must be
// durable. The next SetLog makes the note durable: that is in time as long as the log has
// all that has come to the files since the last one.
func (l *File) Add(shard uint64, database uint32, known manifest.Known) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known.Edition > l.mu.Shards[shard].Edition {
		l.mu.Shards[shard] = Shard{database, known}
		l.mu.queued[shard] = true
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

// Check reads the file. It returns the damage, and writes the file again then.
func (l *File) Check() (damage []error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.end == 0 {
		return nil, l.saveLocked() // as a whole
	}
	name := path.Join(l.dir, Name)
	_, whole, rerr := Read(l.fs, path.Dir(l.dir))
	found := binio.DamageOf(name, rerr)
	switch {
	case found != nil:
	case rerr != nil:
		return nil, rerr
	case !whole:
		found = binio.Corruptf(name, -1, "ledger: records are damaged")
	default:
		return nil, nil
	}
	l.mu.end, l.mu.dirty = 0, true
	return []error{found}, l.saveLocked()
}

// saveLocked makes what was added durable: at the end of the file, or by a new
// file when the old one is damaged or has grown. On an error it tries again at
// the next call.
func (l *File) saveLocked() (err error) {
	if len(l.mu.queued)+len(l.mu.given) == 0 && !l.mu.dirty {
		return nil
	}
	name := path.Join(l.dir, Name)
	defer func() {
		if err != nil {
			l.mu.end = 0
			err = fmt.Errorf("write ledger %s: %w", name, err)
			return
		}
		clear(l.mu.queued)
		clear(l.mu.given)
		l.mu.dirty = false
	}()
	if l.mu.end == 0 || l.mu.end > l.mu.limit {
		b := l.mu.encode()
		if err := vfs.WriteFileAtomic(l.fs, l.dir, name, b); err != nil {
			return err
		}
		l.mu.end = int64(len(b))
		l.mu.limit = 2 * (l.mu.end + 2048*recordBytes)
		return nil
	}
	var b []byte
	for _, id := range slices.Sorted(maps.Keys(l.mu.queued)) {
		b = l.mu.appendShard(b, l.mu.end, id)
	}
	for _, id := range slices.Sorted(maps.Keys(l.mu.given)) {
		b = l.mu.appendIDs(b, l.mu.end, id)
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
