package column

import (
	"encoding/binary"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"tsdbd/model"
)

// Table holds the series and layouts already seen of one database, and the
// spellings they were seen in: the raw bytes "measurement,tags" as they stand
// on a line, mapped to what a parser needs to know about them.
//
// It only grows and is dropped as a whole. Lookups take no lock and may run
// beside inserts; inserts are rare and take one short lock. Everything a
// lookup walks over is reached through a View, which is replaced, never
// changed, when one of its parts has to grow; the parts themselves are
// append-only, and what was appended is published by an atomic store of its
// number into a slot table or another entry.
type Table struct {
	database uint32
	seed     maphash.Seed
	view     atomic.Pointer[View]

	mu struct {
		sync.Mutex
		entries, series, layouts uint32 // numbers given out; 0 is never given
		seriesSlots              int    // slots in use
		free                     []byte // unused rest of the newest key chunk
		keyBytes, layoutBytes    int64
	}
}

const (
	chunkBits = 10 // entries and series per chunk
	chunkSize = 1 << chunkBits

	// Keys lie in chunks at multiples of 8 bytes; a place is chunk<<15 | unit.
	placeBits    = 15
	placeUnit    = 8
	keyChunk     = placeUnit << placeBits
	maxKeyChunks = 1 << (32 - placeBits)
	noPlace      = ^uint32(0)

	// Layouts beyond this number or size are not interned: a client that sends random
	// subsets of many fields must not fill the memory.
	maxLayouts     = 1 << 16
	maxLayoutBytes = 64 << 20

	// Spellings beyond this many per series are not remembered, for the same
	// reason: ten tags can be written in 3.6 million orders.
	spellingsPerSeries = 4
	minSpellings       = 1024
)

// Entry is one spelling of a series: what follows from raw bytes without
// parsing them. It holds no pointers, so a million of them cost the garbage
// collector nothing.
type Entry struct {
	place  uint32 // of the raw bytes
	length uint16
	series uint32
	layout atomic.Uint32 // number of the layout of the latest line
	next   atomic.Uint32 // number of the entry that followed the latest line
}

// View is a state of a Table. It stays valid for ever but does not know what
// was added after it was taken; its methods say so by returning nil, and the
// caller takes a new one.
type View struct {
	keys        [][]byte
	entries     []*[chunkSize]Entry
	series      []*[chunkSize]Series
	layouts     []*Layout // by number-1
	entrySlots  *slots
	seriesSlots *slots
	layoutSlots *slots
}

// slots is an open-addressing hash table with linear probing: hash<<32 |
// number, 0 where free. Readers load words atomically; the writer holds the
// table's lock.
type slots struct {
	mask  uint32
	words []uint64
}

func newSlots(n int) *slots { return &slots{mask: uint32(n - 1), words: make([]uint64, n)} }

func (s *slots) insert(hash, number uint32) {
	i := hash & s.mask
	for s.words[i] != 0 {
		i = (i + 1) & s.mask
	}
	atomic.StoreUint64(&s.words[i], uint64(hash)<<32|uint64(number))
}

// grown returns s, or a copy of twice the size when used slots fill more than
// three quarters of it.
func (s *slots) grown(used int) *slots {
	if used*4 < len(s.words)*3 {
		return s
	}
	g := newSlots(2 * len(s.words))
	for _, w := range s.words {
		if w != 0 {
			g.insert(uint32(w>>32), uint32(w))
		}
	}
	return g
}

// NewTable returns an empty table for the database with the given id.
func NewTable(database uint32) *Table {
	t := &Table{database: database, seed: maphash.MakeSeed()}
	t.view.Store(&View{entrySlots: newSlots(64), seriesSlots: newSlots(64), layoutSlots: newSlots(16)})
	return t
}

// Database returns the id of the database the table belongs to.
func (t *Table) Database() uint32 { return t.database }

// Len returns the number of series.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.mu.series)
}

// Bytes returns about how much memory the table takes.
func (t *Table) Bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.view.Load()
	n := t.mu.keyBytes + t.mu.layoutBytes + int64(unsafe.Sizeof(*t)) + int64(unsafe.Sizeof(*v))
	n += int64(len(v.entries)) * int64(unsafe.Sizeof([chunkSize]Entry{}))
	n += int64(len(v.series)) * int64(unsafe.Sizeof([chunkSize]Series{}))
	n += 8 * int64(len(v.entrySlots.words)+len(v.seriesSlots.words)+len(v.layoutSlots.words))
	return n + 8*int64(cap(v.entries)+cap(v.series)+cap(v.layouts)) + 24*int64(cap(v.keys))
}

// View returns the newest view.
func (t *Table) View() *View { return t.view.Load() }

// Entry returns the entry with the given number, or nil when number is 0 or
// the entry is newer than the view.
func (v *View) Entry(number uint32) *Entry {
	i := number - 1
	if c := i >> chunkBits; c < uint32(len(v.entries)) {
		return &v.entries[c][i&(chunkSize-1)]
	}
	return nil
}

// Series returns the series of an entry that matched in this view or was found
// with it.
func (v *View) Series(e *Entry) *Series {
	i := e.series - 1
	return &v.series[i>>chunkBits][i&(chunkSize-1)]
}

// Match returns the length of the entry's raw bytes when line begins with
// them and a space stands behind, else 0 (also when the view is too old to
// tell).
func (v *View) Match(e *Entry, line []byte) int {
	chunk := e.place >> placeBits
	if chunk >= uint32(len(v.keys)) || (e.series-1)>>chunkBits >= uint32(len(v.series)) {
		return 0
	}
	off := int(e.place&(1<<placeBits-1)) * placeUnit
	raw := v.keys[chunk][off : off+int(e.length)]
	if n := len(raw); n < len(line) && line[n] == ' ' && string(line[:n]) == string(raw) {
		return n
	}
	return 0
}

// Layout returns the layout of the entry's latest line, nil if there is none
// or the view is older than it.
func (v *View) Layout(e *Entry) *Layout {
	i := e.layout.Load() - 1
	if i < uint32(len(v.layouts)) {
		return v.layouts[i]
	}
	return nil
}

// SetLayout records the layout of the entry's latest line.
func (e *Entry) SetLayout(l *Layout) { e.layout.Store(l.number) }

// Next returns the number of the entry that followed last time, or 0.
func (e *Entry) Next() uint32 { return e.next.Load() }

// SetNext records which entry followed.
func (e *Entry) SetNext(number uint32) { e.next.Store(number) }

// key returns length bytes of key memory.
func (v *View) key(place uint32, length int) []byte {
	chunk := v.keys[place>>placeBits]
	off := int(place&(1<<placeBits-1)) * placeUnit
	return chunk[off : off+length]
}

// Find returns the number of the entry whose raw bytes are raw, or 0, and a
// view that knows it.
func (t *Table) Find(raw []byte) (uint32, *View) {
	return t.findEntry(t.hash(raw), raw)
}

func (t *Table) hash(b []byte) uint32 { return uint32(maphash.Bytes(t.seed, b) >> 32) }

func (t *Table) findEntry(hash uint32, raw []byte) (uint32, *View) {
	v := t.view.Load()
	s := v.entrySlots
	for i := hash & s.mask; ; i = (i + 1) & s.mask {
		w := atomic.LoadUint64(&s.words[i])
		if w == 0 {
			return 0, v
		}
		if uint32(w>>32) != hash {
			continue
		}
		e := v.Entry(uint32(w))
		if e == nil {
			// The view with its chunk was stored before the slot was.
			v = t.view.Load()
			e = v.Entry(uint32(w))
		}
		if int(e.place>>placeBits) >= len(v.keys) || int((e.series-1)>>chunkBits) >= len(v.series) {
			v = t.view.Load()
		}
		if string(v.key(e.place, int(e.length))) == string(raw) {
			return uint32(w), v
		}
	}
}

// findSeries finds a series by its key: by the entry of that spelling, if there
// is one, else in the slots of the series that had none when they were made.
func (t *Table) findSeries(hash uint32, key string) uint32 {
	n, v := t.findEntry(hash, unsafe.Slice(unsafe.StringData(key), len(key)))
	if e := v.Entry(n); e != nil && v.Series(e).Key == key {
		return e.series
	}
	v = t.view.Load()
	s := v.seriesSlots
	for i := hash & s.mask; ; i = (i + 1) & s.mask {
		w := atomic.LoadUint64(&s.words[i])
		if w == 0 {
			return 0
		}
		if uint32(w>>32) != hash {
			continue
		}
		n := uint32(w) - 1
		if int(n>>chunkBits) >= len(v.series) {
			v = t.view.Load()
		}
		if v.series[n>>chunkBits][n&(chunkSize-1)].Key == key {
			return n + 1
		}
	}
}

// Series returns the series with the canonical key, making it at the first
// call. The key is copied.
func (t *Table) Series(key string) *Series {
	hash := t.hash(unsafe.Slice(unsafe.StringData(key), len(key)))
	n := t.findSeries(hash, key)
	if n == 0 {
		t.mu.Lock()
		n = t.internSeriesLocked(hash, key, true)
		t.mu.Unlock()
	}
	n--
	return &t.view.Load().series[n>>chunkBits][n&(chunkSize-1)]
}

// Insert makes an entry for raw, a spelling of the series with the canonical
// key, and returns its series, its number and a view that knows it. The number
// is 0 when the spelling cannot be remembered (the series is valid all the
// same). Raw and key are copied; equal bytes are kept once.
func (t *Table) Insert(raw []byte, key string) (*Series, uint32, *View) {
	hash := t.hash(raw)
	if n, v := t.findEntry(hash, raw); n != 0 {
		return v.Series(v.Entry(n)), n, v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, v := t.findEntry(hash, raw); n != 0 {
		return v.Series(v.Entry(n)), n, v
	}
	known := len(raw) > 0 && len(raw) <= model.MaxKeyLength &&
		t.mu.entries < max(minSpellings, spellingsPerSeries*t.mu.series)
	canonical := string(raw) == key
	series := t.internSeriesLocked(t.hash(unsafe.Slice(unsafe.StringData(key), len(key))), key, !known || !canonical)
	v := t.view.Load()
	s := &v.series[(series-1)>>chunkBits][(series-1)&(chunkSize-1)]
	if !known {
		return s, 0, v
	}
	place := s.place
	if !canonical || place == noPlace {
		if place, _ = t.keepLocked(raw); place == noPlace {
			return s, 0, v
		}
	}
	t.mu.entries++
	n := t.mu.entries
	w := *t.view.Load()
	if c := int((n - 1) >> chunkBits); c >= len(w.entries) {
		w.entries = append(w.entries, new([chunkSize]Entry))
	}
	w.entrySlots = w.entrySlots.grown(int(n))
	e := w.Entry(n)
	e.place, e.length, e.series = place, uint16(len(raw)), series
	v = t.publishLocked(w)
	v.entrySlots.insert(hash, n)
	return s, n, v
}

// publishLocked makes w the view if it differs from the current one.
func (t *Table) publishLocked(w View) *View {
	v := t.view.Load()
	if len(w.keys) == len(v.keys) && len(w.entries) == len(v.entries) && len(w.series) == len(v.series) &&
		len(w.layouts) == len(v.layouts) && w.entrySlots == v.entrySlots && w.seriesSlots == v.seriesSlots &&
		w.layoutSlots == v.layoutSlots {
		return v
	}
	n := new(View)
	*n = w
	t.view.Store(n)
	return n
}

// internSeriesLocked returns the number of the series with the key, which it
// makes if need be. With slot it can be found by the series slots; without, the
// caller makes an entry for the key.
func (t *Table) internSeriesLocked(hash uint32, key string, slot bool) uint32 {
	if n := t.findSeries(hash, key); n != 0 {
		return n
	}
	place, kept := t.keepLocked(unsafe.Slice(unsafe.StringData(key), len(key)))
	if place == noPlace {
		kept, slot = strings.Clone(key), true // no entry without a place
		t.mu.keyBytes += int64(len(key))
	}
	t.mu.series++
	n := t.mu.series
	w := *t.view.Load()
	if c := int((n - 1) >> chunkBits); c >= len(w.series) {
		w.series = append(w.series, new([chunkSize]Series))
	}
	s := &w.series[(n-1)>>chunkBits][(n-1)&(chunkSize-1)]
	s.Key, s.place = kept, place
	if slot {
		t.mu.seriesSlots++
		w.seriesSlots = w.seriesSlots.grown(t.mu.seriesSlots)
	}
	v := t.publishLocked(w)
	if slot {
		v.seriesSlots.insert(hash, n)
	}
	return n
}

// keepLocked copies b into key memory, which is never written again. The
// place is noPlace when b does not fit any more.
func (t *Table) keepLocked(b []byte) (uint32, string) {
	v := t.view.Load()
	size := (len(b) + placeUnit - 1) &^ (placeUnit - 1)
	if len(b) == 0 || len(b) > model.MaxKeyLength {
		return noPlace, ""
	}
	if size > len(t.mu.free) {
		if len(v.keys) >= maxKeyChunks {
			return noPlace, ""
		}
		// Small databases are many: begin small.
		n := max(min(keyChunk, 8<<10<<(3*min(len(v.keys), 4))), size)
		w := *v
		w.keys = append(w.keys, make([]byte, n))
		t.mu.free = w.keys[len(w.keys)-1]
		t.mu.keyBytes += int64(n)
		v = t.publishLocked(w)
	}
	chunk := len(v.keys) - 1
	unit := (len(v.keys[chunk]) - len(t.mu.free)) / placeUnit
	kept := t.mu.free[:len(b):len(b)]
	t.mu.free = t.mu.free[min(size, len(t.mu.free)):]
	copy(kept, b)
	return uint32(chunk<<placeBits | unit), unsafe.String(unsafe.SliceData(kept), len(kept))
}

// AppendLayoutMeasurement begins the signature of a layout; see FindLayout.
func AppendLayoutMeasurement(dst []byte, measurement string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(measurement)))
	return append(dst, measurement...)
}

// AppendLayoutField adds a field to the signature of a layout.
func AppendLayoutField(dst []byte, t model.FieldType, key []byte) []byte {
	dst = append(dst, byte(t))
	if len(key) < 128 {
		dst = append(dst, byte(len(key)))
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(key)))
	}
	return append(dst, key...)
}

func appendSignature(dst []byte, measurement string, fields []Field) []byte {
	dst = AppendLayoutMeasurement(dst, measurement)
	for i := range fields {
		key := fields[i].Key
		dst = AppendLayoutField(dst, fields[i].Type, unsafe.Slice(unsafe.StringData(key), len(key)))
	}
	return dst
}

// FindLayout returns the layout with the given signature, or nil. It does not
// allocate.
func (t *Table) FindLayout(signature []byte) *Layout {
	return t.findLayout(t.hash(signature), signature)
}

func (t *Table) findLayout(hash uint32, signature []byte) *Layout {
	v := t.view.Load()
	s := v.layoutSlots
	for i := hash & s.mask; ; i = (i + 1) & s.mask {
		w := atomic.LoadUint64(&s.words[i])
		if w == 0 {
			return nil
		}
		if uint32(w>>32) != hash {
			continue
		}
		if int(uint32(w)) > len(v.layouts) {
			v = t.view.Load()
		}
		if l := v.layouts[uint32(w)-1]; l.signature == string(signature) {
			return l
		}
	}
}

// Layout returns the layout of a measurement's fields in the given order,
// making it at the first call; the names are copied. No key may stand twice.
// After 65,536 layouts or 64 MiB of them it returns new ones without keeping
// them: they are valid, but equal ones are no longer the same pointer.
func (t *Table) Layout(measurement string, fields []Field) *Layout {
	signature := appendSignature(nil, measurement, fields)
	hash := t.hash(signature)
	if l := t.findLayout(hash, signature); l != nil {
		return l
	}
	l := newLayout(string(signature), measurement, fields)
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.findLayout(hash, signature); l != nil {
		return l
	}
	if t.mu.layouts >= maxLayouts || t.mu.layoutBytes+l.Bytes() > maxLayoutBytes {
		return l
	}
	t.mu.layouts++
	l.number = t.mu.layouts
	t.mu.layoutBytes += l.Bytes()
	w := *t.view.Load()
	w.layouts = append(w.layouts, l)
	w.layoutSlots = w.layoutSlots.grown(int(l.number))
	t.publishLocked(w).layoutSlots.insert(hash, l.number)
	return l
}
