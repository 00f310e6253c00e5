package series

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/slots"
	"tsdbd/internal/vfs"
	"tsdbd/model"
)

// Names of the files in a series directory.
const (
	LogName   = "series.log"
	IndexName = "series.idx"
)

// Errors that callers branch on.
var (
	// ErrNotFound says that an id has no key.
	ErrNotFound = errors.New("series not found")
	// ErrLost is the ErrNotFound of an id that is not free: it has had a key.
	ErrLost = fmt.Errorf("key lost: %w", ErrNotFound)
	// ErrConflict says that a restored key has another id, or a restored
	// id another key.
	ErrConflict = errors.New("series id conflict")
	// ErrExhausted says that no series id is left.
	ErrExhausted = errors.New("series ids exhausted")
)

// Options configure a File. The zero value works.
type Options struct {
	// Identity names the database whose series these are. A log that names
	// another one is an identity.ErrForeign.
	Identity identity.Database
	// Cache has the unpacked key blocks, of all files that share it; nil means one of 8 MiB.
	Cache *Cache
	// IndexTail is the number of series that may be absent from the index file
	// before it is rewritten, besides a quarter of those it has; 0 means 65536.
	IndexTail int
	// Pending is what the keys that are not on disk take in memory, claims among
	// them, in all files that share it and keep it up to date; optional.
	Pending *atomic.Int64
	// Logger gets one warning for each damage found; nil discards.
	Logger *slog.Logger
}

// File maps the series keys of a database to ids and back. Claim, Confirm,
// Restore, Lookup, Key and Keys may be called by many goroutines.
//
// A new key is claimed first. A claim becomes final when it is confirmed, after the
// owner has logged the series. Claims are never written to a file. Confirmed keys live in
// memory until Sync appends them to the log. Keys that a caller claims are kept,
// not copied, until then.
type File struct {
	fs      vfs.FS
	dir     string
	logPath string
	opt     Options
	log     vfs.File
	counted atomic.Int64  // bytes of mu.claims, mu.pending and mu.flushing; changes with them
	claimed atomic.Uint32 // see FirstClaim
	dropped atomic.Uint64 // see Dropped

	syncing sync.Mutex // one Sync at a time; taken before mu
	mu      struct {
		sync.RWMutex
		next       uint64 // id that will be handed out next
		floor      uint64 // what next is without the claims
		n          int
		generation uint64 // counts changes that a lookup may have missed

		index    *indexFile   // nil if there is none yet
		tail     *slots.Table // series that the index lacks
		fresh    []uint64     // slots inserted since Sync took its picture
		inSync   bool         // fresh is being recorded
		claims   keyPages     // see Claim
		pending  keyPages     // confirmed, not on disk
		flushing keyPages     // being written by Sync
		repaired keyPages     // on disk in a later block, over a damaged one
		blocks   []*blockEntry
		logEnd   int64
		lastCRC  uint32
		maxID    uint32
		damage   []error
		failed   error // the sync that failed; the log is rewritten before anything else
		stale    bool  // the index file must be rewritten
		sealed   bool
		closed   bool
	}
}

// blockEntry is a block of the log and its place in the cache.
type blockEntry struct {
	blockPlace
	cached atomic.Pointer[block]
	used   atomic.Bool
}

// Len returns the number of series.
func (f *File) Len() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mu.n
}

// NextID returns the id that the next new key will get; 0 when none is left.
func (f *File) NextID() model.SeriesID {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return model.SeriesID(f.mu.next)
}

// Bytes returns the size of the log and the index file.
func (f *File) Bytes() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := f.mu.logEnd
	if f.mu.index != nil {
		n += int64(len(f.mu.index.data))
	}
	return n
}

// PendingBytes returns about what the keys that the next Sync writes take in memory,
// with their text.
func (f *File) PendingBytes() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.mu.closed {
		return 0
	}
	return f.mu.pending.bytes() + f.mu.flushing.bytes()
}

// countLocked brings the count of pending keys up to date after a change of them.
func (f *File) countLocked() {
	now := f.mu.claims.bytes() + f.mu.pending.bytes() + f.mu.flushing.bytes()
	if f.mu.closed {
		now = 0
	}
	if before := f.counted.Swap(now); f.opt.Pending != nil {
		f.opt.Pending.Add(now - before)
	}
}

// Damage returns the damage found in the log so far, each a
// *binio.CorruptError. Keys outside the damaged places are served; the ids
// inside can be given back by Restore.
func (f *File) Damage() []error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.mu.damage)
}

// Lookup returns the id of a canonical series key. A key whose block is
// damaged is not found.
func (f *File) Lookup(key string) (model.SeriesID, bool) {
	id, err := f.find(key)
	return model.SeriesID(id), err == nil && id != 0
}

// find returns the id of key or 0. It repairs a damaged index on the way.
func (f *File) find(key string) (uint32, error) {
	f.mu.RLock()
	id, err := f.findLocked(key, fingerprint(key))
	broken := f.indexDamageLocked(err)
	f.mu.RUnlock()
	if !broken {
		return id, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.findAnywayLocked(key, fingerprint(key))
}

// findAnywayLocked is findLocked that gives up a damaged index. The lock is that of a
// writer.
func (f *File) findAnywayLocked(key string, fp uint32) (uint32, error) {
	id, err := f.findLocked(key, fp)
	if f.indexDamageLocked(err) {
		if err = f.dropIndexLocked(err); err == nil {
			return f.findLocked(key, fp)
		}
	}
	return id, err
}

func fingerprint(key string) uint32 { return uint32(xxhash.Sum64String(key) >> 32) }

// findLocked returns the id of key or 0. An error says that a candidate
// could not be read, so that nobody can tell.
func (f *File) findLocked(key string, fp uint32) (uint32, error) {
	for pos := -1; ; {
		id := f.mu.tail.Next(fp, &pos)
		if id == 0 {
			break
		}
		if same, err := f.sameKeyLocked(id, key); same || err != nil {
			return id, err
		}
	}
	if f.mu.index == nil {
		return 0, nil
	}
	return f.findIndexedLocked(key, fp)
}

// findIndexedLocked returns the id that the index file has for key, or 0.
func (f *File) findIndexedLocked(key string, fp uint32) (_ uint32, err error) {
	// As vfs.CatchFault, which allocates.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if err = vfs.Fault(p); err == nil {
				panic(p)
			}
		}
	}()
	for pos := -1; ; {
		id, err := f.mu.index.next(fp, &pos)
		if id == 0 || err != nil {
			return 0, err
		}
		if same, err := f.sameKeyLocked(id, key); same || err != nil {
			return id, err
		}
	}
}

func (f *File) sameKeyLocked(id uint32, key string) (bool, error) {
	k, err := f.keyLocked(id)
	return k == key && err == nil, err
}

// keyLocked returns the key of id, sharing memory with its block.
func (f *File) keyLocked(id uint32) (string, error) {
	if k, ok := f.loadedLocked(id); ok {
		return k, nil
	}
	e := f.blockOfLocked(id)
	if e == nil {
		return "", f.missingLocked(id)
	}
	b := e.cached.Load()
	if b == nil {
		var err error
		if b, err = f.loadBlock(e); err != nil {
			return "", err
		}
	} else if !e.used.Load() {
		e.used.Store(true)
	}
	return b.key(id), nil
}

// loadedLocked returns the key of an id that is in memory, because the block that has
// it is not written yet, or is damaged.
func (f *File) loadedLocked(id uint32) (string, bool) {
	for _, p := range [...]*keyPages{&f.mu.pending, &f.mu.claims, &f.mu.flushing, &f.mu.repaired} {
		if p.n > 0 {
			if k, ok := p.get(id); ok {
				return k, true
			}
		}
	}
	return "", false
}

// missingLocked is the error for an id without a block.
func (f *File) missingLocked(id uint32) error {
	err := ErrNotFound
	if taken := id != 0 && uint64(id) < f.mu.next; taken && len(f.mu.damage) > 0 {
		err = f.mu.damage[0]
	} else if taken {
		err = ErrLost
	}
	return fmt.Errorf("key of series %d: %w", id, err)
}

// blockOfLocked returns the block that holds id, or nil.
func (f *File) blockOfLocked(id uint32) *blockEntry {
	lo, hi := 0, len(f.mu.blocks)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if f.mu.blocks[mid].first <= id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return nil
	}
	if e := f.mu.blocks[lo-1]; uint64(id) < uint64(e.first)+uint64(e.count) {
		return e
	}
	return nil
}

// loadBlock reads and verifies a block and puts it into the cache.
func (f *File) loadBlock(e *blockEntry) (*block, error) {
	_, b, err := f.readBlock(f.log, e.offset, e.length)
	if err != nil {
		return nil, err
	}
	if b.first != e.first || len(b.ends) != e.count {
		return nil, binio.Corruptf(f.logPath, e.offset, "series block: not the block the index names")
	}
	f.opt.Cache.add(e, b)
	return b, nil
}

// Key returns the canonical key of an id. Errors: ErrNotFound, ErrLost, a
// *binio.CorruptError, or the file system's.
func (f *File) Key(id model.SeriesID) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	k, err := f.keyLocked(uint32(id))
	if err != nil {
		return "", err
	}
	return strings.Clone(k), nil
}

// Keys calls fn with the key of each id. The ids must be ascending, so that
// every block is unpacked once. A key shares memory with its whole block:
// clone what is kept for long. fn must not call the series file.
func (f *File) Keys(ids []model.SeriesID, fn func(i int, key string) error) error {
	const run = 1024 // ids between two chances for a writer
	for start := 0; start < len(ids); start += run {
		end := min(start+run, len(ids))
		if err := f.keysRun(ids, start, end, fn); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) keysRun(ids []model.SeriesID, start, end int, fn func(i int, key string) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var e *blockEntry
	var b *block
	simple := f.mu.repaired.n == 0
	for i := start; i < end; i++ {
		id := uint32(ids[i])
		if simple && b != nil && id >= b.first && id-b.first < uint32(len(b.ends)) {
			if err := fn(i, b.key(id)); err != nil {
				return err
			}
			continue
		}
		k, err := f.keyLocked(id)
		if err != nil {
			return err
		}
		if err := fn(i, k); err != nil {
			return err
		}
		b = nil
		if e = f.blockOfLocked(id); e != nil {
			b = e.cached.Load()
		}
	}
	return nil
}

// Claim sets ids[i] to the id of keys[i], handing out new ids for keys it
// does not know, ascending in the order of the new keys. A new id counts once it is
// confirmed. On an error no id was handed out. A key that may be that of a damaged
// block is an error.
func (f *File) Claim(keys []string, ids []model.SeriesID) error {
	if len(keys) != len(ids) {
		return fmt.Errorf("claim series: %d keys, %d ids", len(keys), len(ids))
	}
	for _, k := range keys {
		if k == "" || len(k) > model.MaxKeyLength {
			return fmt.Errorf("claim series: key of %d bytes", len(k))
		}
	}
	generation, missing, err := f.lookupAll(keys, ids)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		return nil
	}
	byKey := func(a, b missingKey) int { return cmp.Compare(keys[a.index], keys[b.index]) }
	if !slices.IsSortedFunc(missing, byKey) {
		slices.SortFunc(missing, byKey)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.generation != generation {
		for i, m := range missing {
			var err error
			if missing[i].id, err = f.findAnywayLocked(keys[m.index], m.fingerprint); err != nil {
				return err
			}
		}
	}
	need, previous := uint64(0), ""
	for _, m := range missing {
		if k := keys[m.index]; m.id == 0 && k != previous {
			need++
			previous = k
		}
	}
	if need > model.MaxSeriesID+1-f.mu.next {
		return fmt.Errorf("claim %d series: %w", need, ErrExhausted)
	}
	previous = ""
	for _, m := range missing {
		id, k := m.id, keys[m.index]
		if id == 0 && k != previous {
			f.claimLocked(uint32(f.mu.next), k, m.fingerprint)
			f.mu.next++
			previous = k
		}
		if id == 0 {
			id = uint32(f.mu.next - 1)
		}
		ids[m.index] = model.SeriesID(id)
	}
	return nil
}

// missingKey is a key of a Claim call that had no id when it was looked up.
type missingKey struct {
	index       int
	fingerprint uint32
	id          uint32 // found later, by another call's doing
}

// lookupAll sets the ids of known keys and returns the others. Candidates are
// verified in order of id, so that a block is unpacked once for its keys.
func (f *File) lookupAll(keys []string, ids []model.SeriesID) (uint64, []missingKey, error) {
	generation, missing, err := f.lookupAllOnce(keys, ids)
	f.mu.RLock()
	broken := f.indexDamageLocked(err)
	f.mu.RUnlock()
	if !broken {
		return generation, missing, err
	}
	f.mu.Lock()
	err = f.dropIndexLocked(err)
	f.mu.Unlock()
	if err != nil {
		return 0, nil, err
	}
	return f.lookupAllOnce(keys, ids)
}

func (f *File) lookupAllOnce(keys []string, ids []model.SeriesID) (_ uint64, missing []missingKey, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	defer vfs.CatchFault(&err)()
	var candidates []missingKey
	for i, k := range keys {
		fp := fingerprint(k)
		pos := -1
		id := f.mu.tail.Next(fp, &pos)
		if id == 0 && f.mu.index != nil {
			var err error
			pos = -1
			if id, err = f.mu.index.next(fp, &pos); err != nil {
				return 0, nil, err
			}
		}
		m := missingKey{index: i, fingerprint: fp, id: id}
		if id == 0 {
			missing = append(missing, m)
		} else {
			candidates = append(candidates, m)
		}
	}
	byID := func(a, b missingKey) int { return cmp.Compare(a.id, b.id) }
	if !slices.IsSortedFunc(candidates, byID) {
		slices.SortFunc(candidates, byID)
	}
	for _, c := range candidates {
		k := keys[c.index]
		same, err := f.sameKeyLocked(c.id, k)
		if err != nil {
			return 0, nil, err
		}
		id := c.id
		if !same { // another key with this fingerprint
			if id, err = f.findLocked(k, c.fingerprint); err != nil {
				return 0, nil, err
			}
		}
		if id == 0 {
			missing = append(missing, missingKey{index: c.index, fingerprint: c.fingerprint})
			continue
		}
		ids[c.index] = model.SeriesID(id)
	}
	return f.mu.generation, missing, nil
}

// claimLocked makes id the id of key until DropClaims, or for good by Confirm.
func (f *File) claimLocked(id uint32, key string, fp uint32) {
	if f.mu.claims.n == 0 {
		f.claimed.Store(id)
	}
	f.mu.claims.set(id, key)
	f.indexLocked(fp, id)
}

// FirstClaim returns an id below which there are no claims, 0 if there are none.
func (f *File) FirstClaim() model.SeriesID { return model.SeriesID(f.claimed.Load()) }

// Claimed reports whether an id is a claim.
func (f *File) Claimed(id model.SeriesID) bool {
	first := f.FirstClaim()
	if first == 0 || id < first {
		return false
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	_, claimed := f.mu.claims.get(uint32(id))
	return claimed
}

// Confirm makes claims final. Ids that are none are left out.
func (f *File) Confirm(ids []model.SeriesID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.confirmLocked(ids)
}

func (f *File) confirmLocked(ids []model.SeriesID) {
	for _, id := range ids {
		if key, ok := f.mu.claims.take(uint32(id)); ok {
			f.mu.pending.set(uint32(id), key)
			f.mu.n++
			f.mu.floor = max(f.mu.floor, uint64(id)+1)
		}
	}
	if f.mu.claims.n == 0 {
		f.claimed.Store(0)
	}
}

// Dropped returns how often DropClaims has forgotten any. Claims of before a change may be
// other keys'.
func (f *File) Dropped() uint64 { return f.dropped.Load() }

// DropClaims forgets all claims. Claim hands out their ids again, except those below a
// confirmed one. The caller makes sure that nobody uses the claims any more.
func (f *File) DropClaims() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.claims.n == 0 {
		return
	}
	gone := func(slot uint64) bool {
		_, claim := f.mu.claims.get(uint32(slot))
		return claim
	}
	tail := f.mu.tail.All()
	f.mu.tail = nil
	for _, s := range slices.DeleteFunc(tail, gone) {
		f.addSlotLocked(s)
	}
	f.mu.fresh = slices.DeleteFunc(f.mu.fresh, gone)
	f.mu.claims = keyPages{}
	f.mu.next = f.mu.floor
	f.mu.generation++
	f.claimed.Store(0)
	f.dropped.Add(1)
	f.countLocked()
}

func (f *File) insertLocked(id uint32, key string, fp uint32) {
	f.mu.pending.set(id, key)
	f.mu.n++
	f.raiseLocked(uint64(id) + 1)
	f.indexLocked(fp, id)
}

// raiseLocked makes sure that no id below next is handed out any more.
func (f *File) raiseLocked(next uint64) {
	f.mu.next, f.mu.floor = max(f.mu.next, next), max(f.mu.floor, next)
}

// indexLocked makes a pending key found.
func (f *File) indexLocked(fp, id uint32) {
	slot := slots.Slot(fp, id)
	f.addSlotLocked(slot)
	if f.mu.inSync {
		f.mu.fresh = append(f.mu.fresh, slot)
	}
	f.mu.generation++
	f.countLocked()
}

func (f *File) addSlotLocked(slot uint64) {
	f.mu.tail = f.mu.tail.Room()
	f.mu.tail.Insert(slot)
}

// Restore makes id the id of key: replay of the log calls it for the series it
// defines, repair for the ids of a damaged block. Another key or id is an
// ErrConflict.
func (f *File) Restore(id model.SeriesID, key string) error {
	if id == 0 || key == "" || len(key) > model.MaxKeyLength {
		return fmt.Errorf("restore series %d: key of %d bytes", id, len(key))
	}
	f.mu.RLock()
	have, err := f.keyLocked(uint32(id))
	f.mu.RUnlock()
	if err == nil {
		if have != key {
			return fmt.Errorf("restore series %d as %q, is %q: %w", id, key, have, ErrConflict)
		}
		return nil
	}
	damaged := errors.Is(err, binio.ErrCorrupt)
	if !damaged && !errors.Is(err, ErrNotFound) {
		return err
	}
	// A candidate that cannot be read is no objection: it may be this one.
	if other, err := f.find(key); err == nil && other != 0 && other != uint32(id) {
		return fmt.Errorf("restore series %d as %q, which is %d: %w", id, key, other, ErrConflict)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if have, err := f.keyLocked(uint32(id)); err == nil { // restored in between
		if have != key {
			return fmt.Errorf("restore series %d as %q, is %q: %w", id, key, have, ErrConflict)
		}
		return nil
	}
	counted := f.blockOfLocked(uint32(id)) != nil
	f.insertLocked(uint32(id), key, fingerprint(key))
	if counted {
		f.mu.n--
	}
	return nil
}

// RestoreAll is Restore of many: ids[i] becomes the id of keys[i]. Those that
// nothing speaks against cost one hold of the lock together.
func (f *File) RestoreAll(ids []model.SeriesID, keys []string) error {
	for at := 0; at < len(ids); at++ {
		at += f.restoreFresh(ids[at:], keys[at:])
		if at == len(ids) {
			return nil
		}
		if err := f.Restore(ids[at], keys[at]); err != nil {
			return err
		}
	}
	return nil
}

// restoreFresh restores series up to the first whose id or key is not new
// beyond doubt and returns how many those were.
func (f *File) restoreFresh(ids []model.SeriesID, keys []string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, key := range keys {
		id := uint32(ids[i])
		if id == 0 || key == "" || len(key) > model.MaxKeyLength || f.hasKeyLocked(id) {
			return i
		}
		fp := fingerprint(key)
		if other, err := f.findLocked(key, fp); other != 0 || err != nil {
			return i
		}
		f.insertLocked(id, key, fp)
	}
	return len(keys)
}

// hasKeyLocked reports whether an id has a key, or a block that should have it.
func (f *File) hasKeyLocked(id uint32) bool {
	_, loaded := f.loadedLocked(id)
	return loaded || f.blockOfLocked(id) != nil
}

// Given returns the id behind the highest one that was given for good, claims aside.
func (f *File) Given() uint64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.mu.floor
}

// Reserve makes sure that no id below next is handed out any more.
func (f *File) Reserve(next uint64) {
	f.mu.Lock()
	f.raiseLocked(next)
	f.mu.Unlock()
}

func (f *File) warn(msg string, err error) {
	if f.opt.Logger != nil {
		f.opt.Logger.Warn(msg, "path", f.logPath, "err", err)
	}
}

func (f *File) indexPath() string { return path.Join(f.dir, IndexName) }

// indexDamageLocked reports whether err is damage of the index file in use.
func (f *File) indexDamageLocked(err error) bool {
	return f.mu.index != nil && isIndexDamage(err, f.mu.index)
}

// isIndexDamage reports whether err is damage of the index file, not of the log.
func isIndexDamage(err error, x *indexFile) bool {
	var c *binio.CorruptError
	return errors.As(err, &c) && c.Path == x.path
}
