package point

import (
	"encoding/binary"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"tsdbd/internal/slots"
	"tsdbd/model"
	"tsdbd/model/column"
)

// Table holds the series and layouts already seen of one database, and the
// spellings they were seen in: the raw bytes "measurement,tags" of a line, mapped to what a parser needs to know about them.
//
// Of labels that are no line it keeps a Fingerprint in place of the bytes.
//
// It only grows; Trim makes a smaller one of it. Lookups take no lock and may run
// during inserts; inserts are rare and take one short lock. Everything a
// lookup walks over is reached through a View, which is replaced, never
// changed, when one of its parts has to grow; the parts themselves are
// append-only, and what was appended is published by an atomic store of its
// number into a slot table or another entry.
//
// Entries and their bytes lie together: all entries of a chunk have their bytes in one piece
// of key memory. So a Table forgets piece by piece.
type Table struct {
	database uint32
	seed     maphash.Seed
	second   maphash.Seed // of the other half of a Fingerprint
	view     atomic.Pointer[View]

	mu struct {
		sync.Mutex
		last      uint32 // number given out last
		series    int
		spellings int
		chunks    int
		layouts   uint32
		longKeys  map[string]*Series // series whose keys are too long for an entry
		free      []byte             // unused rest of the newest piece

		keyBytes, layoutBytes int64
	}
}

const (
	chunkBits = 8 // entries per chunk, of which the first place is the head
	chunkSize = 1 << chunkBits

	// Keys lie in pieces at multiples of 8 bytes; a place is piece<<15 | unit.
	placeBits = 15
	placeUnit = 8
	pieceSize = placeUnit << placeBits
	maxPieces = 1 << (32 - placeBits)

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
// parsing them. The spelling that is the series' key is the Series itself. It
// holds no pointers, so a million of them cost the garbage collector nothing.
type Entry struct {
	series Series
	layout atomic.Uint32 // number of the layout of the latest line
	next   atomic.Uint32 // number of the entry that followed the latest line
}

// chunk is memory of entries, by number. Its head, of an entry's size, says where the bytes of
// its entries are.
type chunk struct {
	keys    *byte  // the beginning of the piece
	piece   uint32 // its number
	_       [headRest - 1]uint32
	entries [chunkSize - 1]Entry
}

// piece is key memory. The entries that lie in it are in chunks of their own.
type piece struct {
	bytes []byte         // nil: forgotten
	use   *atomic.Uint32 // inUse when an entry is found, 1 less with each Trim, down to 0
}

// inUse is the Trims that make a table forget as much as it has.
const inUse = 8

// View is a state of a Table. It stays valid forever but does not know what was added
// later. Its methods return nil then, and the caller takes a new View.
type View struct {
	pieces      []piece
	chunks      []*chunk  // nil: forgotten
	layouts     []*Layout // by number-1
	entrySlots  *slots.Table
	layoutSlots *slots.Table
}

// NewTable returns an empty table for the database with the given id.
func NewTable(database uint32) *Table {
	t := &Table{database: database, seed: maphash.MakeSeed(), second: maphash.MakeSeed()}
	t.view.Store(&View{})
	return t
}

// Database returns the id of the database the table belongs to.
func (t *Table) Database() uint32 { return t.database }

// Bytes returns about how much memory the table takes.
func (t *Table) Bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytesLocked()
}

func (t *Table) bytesLocked() int64 {
	v := t.view.Load()
	n := t.mu.keyBytes + t.mu.layoutBytes + int64(unsafe.Sizeof(*t)) + int64(unsafe.Sizeof(*v))
	n += int64(t.mu.chunks) * int64(unsafe.Sizeof(chunk{}))
	n += int64(v.entrySlots.Bytes() + v.layoutSlots.Bytes())
	return n + 8*int64(cap(v.chunks)+cap(v.layouts)) + int64(cap(v.pieces))*int64(unsafe.Sizeof(piece{})+unsafe.Sizeof(atomic.Uint32{}))
}

// View returns the newest view.
func (t *Table) View() *View { return t.view.Load() }

// Entry returns the entry with the given number, or nil when number is 0 or
// the entry is forgotten or newer than the view.
func (v *View) Entry(number uint32) *Entry {
	c, i := number>>chunkBits, number&(chunkSize-1)-1
	if c < uint32(len(v.chunks)) && i < chunkSize-1 && v.chunks[c] != nil {
		return &v.chunks[c].entries[i]
	}
	return nil
}

// Series returns the series of an entry that matched in this view or was found
// with it.
func (v *View) Series(e *Entry) *Series {
	if e.series.slot&isKey != 0 {
		return &e.series
	}
	return &v.Entry(e.series.id.Load()).series // made before e
}

// alive reports whether the series of an entry is in the view. That of a spelling may be forgotten before
// the spelling is, which then has lost its slot, but entries may still say that it followed them.
func (v *View) alive(e *Entry) bool {
	return e.series.slot&isKey != 0 || v.Entry(e.series.id.Load()) != nil
}

// Match returns the length of the entry's raw bytes if line begins with them and a
// space, else 0. It returns 0 too if the view is too old to know.
func (v *View) Match(e *Entry, line []byte) int {
	if e.series.place>>placeBits >= uint32(len(v.pieces)) || !v.alive(e) {
		return 0
	}
	raw := v.key(&e.series)
	if n := len(raw); n < len(line) && line[n] == ' ' && string(line[:n]) == string(raw) {
		v.use(e)
		return n
	}
	return 0
}

// use notes that an entry was found.
func (v *View) use(e *Entry) {
	if use := v.pieces[e.series.place>>placeBits].use; use.Load() != inUse {
		use.Store(inUse)
	}
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

// key returns the raw bytes of an entry.
func (v *View) key(s *Series) []byte {
	off := int(s.place&(1<<placeBits-1)) * placeUnit
	return v.pieces[s.place>>placeBits].bytes[off : off+int(s.length)]
}

// Find returns the number of the entry whose raw bytes are raw, or 0, and a
// view that knows it.
func (t *Table) Find(raw []byte) (uint32, *View) {
	n, v := t.find(t.hash(raw), raw, isSpelling)
	if n != 0 {
		v.use(v.Entry(n))
	}
	return n, v
}

func (t *Table) hash(b []byte) uint32 { return uint32(maphash.Bytes(t.seed, b) >> 32) }

// find returns the number of the entry of a kind with the given raw bytes.
func (t *Table) find(hash uint32, raw []byte, kind uint16) (uint32, *View) {
	v := t.view.Load()
	s := v.entrySlots
	for pos := -1; ; {
		n := s.Next(hash, &pos)
		if n == 0 {
			return 0, v
		}
		e := v.Entry(n)
		if e == nil {
			// The view with its chunk was stored before the slot was.
			v = t.view.Load()
			e = v.Entry(n)
		}
		if int(e.series.place>>placeBits) >= len(v.pieces) {
			v = t.view.Load()
		}
		if e.series.slot&kind != 0 && string(v.key(&e.series)) == string(raw) {
			return n, v
		}
	}
}

// Series returns the series with the canonical key, making it at the first
// call. The key is copied.
func (t *Table) Series(key string) *Series {
	s, _ := t.series(key)
	return s
}

// series also returns the number of the series' entry, 0 if the series was made now or its key
// is long.
func (t *Table) series(key string) (*Series, uint32) {
	raw := bytesOf(key)
	hash := t.hash(raw)
	if n, v := t.find(hash, raw, isKey); n != 0 {
		e := v.Entry(n)
		v.use(e)
		return &e.series, n
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, _ := t.seriesLocked(hash, key, 0)
	return s, 0
}

// fullLocked reports whether the table remembers no more spellings.
func (t *Table) fullLocked() bool {
	return t.mu.spellings >= max(minSpellings, spellingsPerSeries*t.mu.series)
}

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Insert makes an entry for raw, a spelling of the series with the canonical
// key, and returns its series, its number and a view that knows it. The number
// is 0 when the spelling cannot be remembered (the series is valid all the
// same). Raw and key are copied; equal bytes are kept once.
func (t *Table) Insert(raw []byte, key string) (*Series, uint32, *View) {
	hash := t.hash(raw)
	if n, v := t.find(hash, raw, isSpelling); n != 0 {
		return v.Series(v.Entry(n)), n, v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, v := t.find(hash, raw, isSpelling); n != 0 {
		return v.Series(v.Entry(n)), n, v
	}
	canonical, keyHash, kind := string(raw) == key, hash, uint16(isSpelling)
	if !canonical {
		keyHash, kind = t.hash(bytesOf(key)), 0
	}
	s, n := t.seriesLocked(keyHash, key, kind)
	v := t.view.Load()
	if s.slot&kind != 0 {
		return s, n, v
	}
	if n == 0 || len(raw) == 0 || len(raw) > model.MaxKeyLength || t.fullLocked() {
		return s, 0, v
	}
	place, ok := s.place, true
	if !canonical {
		place, ok = t.keepLocked(raw)
	}
	if !ok {
		return s, 0, v
	}
	_, number := t.addLocked(hash, place, len(raw), isSpelling, n)
	return s, number, t.view.Load()
}

// seriesLocked returns the series with the key and its number, 0 if the key is long.
// A series that it makes is of the given kind besides.
func (t *Table) seriesLocked(hash uint32, key string, kind uint16) (*Series, uint32) {
	raw := bytesOf(key)
	if n, v := t.find(hash, raw, isKey); n != 0 {
		return &v.Entry(n).series, n
	}
	if s := t.mu.longKeys[key]; s != nil {
		return s, 0
	}
	t.mu.series++
	if place, ok := t.keepLocked(raw); ok {
		e, n := t.addLocked(hash, place, len(raw), isKey|kind, 0)
		return &e.series, n
	}
	s := NewSeries(strings.Clone(key))
	if t.mu.longKeys == nil {
		t.mu.longKeys = make(map[string]*Series)
	}
	t.mu.longKeys[s.Key()] = s
	t.mu.keyBytes += int64(len(key)) + oddBytes
	return s, 0
}

// addLocked makes an entry of kept bytes. id is the number of the key's entry,
// 0 if it is this one.
func (t *Table) addLocked(hash, place uint32, length int, kind uint16, id uint32) (*Entry, uint32) {
	w := *t.view.Load()
	newest := len(w.pieces) - 1
	if n := len(w.chunks); t.mu.last&(chunkSize-1) == chunkSize-1 || n == 0 || w.chunks[n-1] == nil || int(w.chunks[n-1].piece) != newest {
		w.chunks = append(w.chunks, &chunk{keys: unsafe.SliceData(w.pieces[newest].bytes), piece: uint32(newest)})
		t.mu.last = uint32(n) << chunkBits // the head's place
		t.mu.chunks++
	}
	t.mu.last++
	n := t.mu.last
	w.entrySlots = w.entrySlots.Room()
	e := w.Entry(n)
	s := &e.series
	s.place, s.length, s.slot = place, uint16(length), uint16(n&(chunkSize-1))|kind
	s.id.Store(id)
	if kind&(isSpelling|isPrint) != 0 {
		t.mu.spellings++
	}
	t.publishLocked(w).entrySlots.Insert(slots.Slot(hash, n))
	return e, n
}

// publishLocked makes w the view if it differs from the current one.
func (t *Table) publishLocked(w View) *View {
	v := t.view.Load()
	if len(w.pieces) == len(v.pieces) && len(w.chunks) == len(v.chunks) && len(w.layouts) == len(v.layouts) &&
		w.entrySlots == v.entrySlots && w.layoutSlots == v.layoutSlots {
		return v
	}
	n := new(View)
	*n = w
	t.view.Store(n)
	return n
}

// keepLocked copies b into key memory, which is never written again, and
// returns its place; false when b does not fit.
func (t *Table) keepLocked(b []byte) (uint32, bool) {
	v := t.view.Load()
	size := (len(b) + placeUnit - 1) &^ (placeUnit - 1)
	if len(b) == 0 || len(b) > model.MaxKeyLength {
		return 0, false
	}
	if size > len(t.mu.free) {
		if len(v.pieces) >= maxPieces {
			return 0, false
		}
		// Small databases are many: begin small.
		n := max(min(pieceSize, 8<<10<<(3*min(len(v.pieces), 4))), size)
		w := *v
		t.mu.free = make([]byte, n)
		w.pieces = append(w.pieces, piece{bytes: t.mu.free, use: new(atomic.Uint32)})
		t.mu.keyBytes += int64(n)
		v = t.publishLocked(w)
	}
	at := len(v.pieces) - 1
	unit := (len(v.pieces[at].bytes) - len(t.mu.free)) / placeUnit
	copy(t.mu.free, b)
	t.mu.free = t.mu.free[min(size, len(t.mu.free)):]
	return uint32(at<<placeBits | unit), true
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

func appendSignature(dst []byte, measurement string, fields []column.Field) []byte {
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
	for pos := -1; ; {
		n := s.Next(hash, &pos)
		if n == 0 {
			return nil
		}
		if int(n) > len(v.layouts) {
			v = t.view.Load()
		}
		if l := v.layouts[n-1]; l.signature == string(signature) {
			return l
		}
	}
}

// Layout returns the layout of a measurement's fields in the given order,
// making it at the first call; the names are copied. No key may occur twice.
// After 65,536 layouts or 64 MiB of them it returns new ones without keeping
// them: they are valid, but equal ones are no longer the same pointer.
func (t *Table) Layout(measurement string, fields []column.Field) *Layout {
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
	w.layoutSlots = w.layoutSlots.Room()
	t.publishLocked(w).layoutSlots.Insert(slots.Slot(hash, l.number))
	return l
}
