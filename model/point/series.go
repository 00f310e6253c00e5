package point

import (
	"sync/atomic"
	"unsafe"

	"tsdbd/model"
)

// Series is a series that the parser has found: one per series key and database,
// shared by all batches of that database, valid while anybody points to it. The
// store gives it its id. It lies in a Table's chunk or comes from NewSeries;
// any other has no key.
type Series struct {
	id     atomic.Uint32 // in an entry that is not the key's: the number of that one
	place  uint32        // of the raw bytes in its table's key memory; of a lone series 1 if it is marked
	length uint16        // of the raw bytes
	slot   uint16        // place in its chunk, 1 for a lone series; the kind above it
}

// What an entry's raw bytes are, a bit each. An entry made for a key that no
// line has spelled yet is not found by a line: what a spelling means is for the
// parser to say.
const (
	isKey      = chunkSize << iota // the key of a series
	isSpelling                     // found on a line
	isLone                         // nothing: the series is not an entry
	isPrint                        // the Fingerprint of labels
)

// headRest is what the head of a chunk has besides a pointer, so that it is as
// large as an entry, whatever the size of a pointer is.
const headRest = (unsafe.Sizeof(Entry{}) - unsafe.Sizeof(uintptr(0))) / 4

// lone is a Series of its own: the beginning of a chunk, then the key.
type lone struct {
	_      unsafe.Pointer // the alignment of a chunk
	_      [headRest]uint32
	series Series
	key    string
}

// Key goes from a Series to the head by the size of an entry: a layout that
// does not fit does not compile.
var (
	_ [0]struct{} = [unsafe.Offsetof(chunk{}.entries) - unsafe.Sizeof(Entry{})]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(lone{}.series) - unsafe.Sizeof(Entry{})]struct{}{}
	_ [0]struct{} = [unsafe.Offsetof(Entry{}.series)]struct{}{}
)

// oddBytes is about what a lone series takes in a table, besides its key.
const oddBytes = int64(unsafe.Sizeof(lone{})) + 64

// NewSeries returns a series that belongs to no table, as the log has them. The
// key is kept.
func NewSeries(key string) *Series {
	l := &lone{key: key}
	l.series.slot = 1 | isLone
	return &l.series
}

// Key returns the canonical series key. It shares the memory of the table.
func (s *Series) Key() string {
	if s.slot == 0 {
		return ""
	}
	// A Series lies slot entries behind the head of its chunk, which is what
	// says where its key is: a pointer in each of a million would be 8 bytes more,
	// and a million pointers for the garbage collector to follow.
	head := unsafe.Add(unsafe.Pointer(s), -int(s.slot&(chunkSize-1))*int(unsafe.Sizeof(Entry{})))
	if s.slot&isLone != 0 {
		return (*lone)(head).key
	}
	off := int(s.place&(1<<placeBits-1)) * placeUnit
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer((*chunk)(head).keys), off)), int(s.length))
}

// Mark marks a series that belongs to no table and reports whether it was marked
// before. Another series is never marked. One goroutine calls it at a time: the one
// that follows a log marks the series that it knows.
func (s *Series) Mark() (before bool) {
	if s.slot&isLone == 0 {
		return false
	}
	before = s.place != 0
	s.place = 1
	return before
}

// Unmark takes the mark away.
func (s *Series) Unmark() {
	if s.slot&isLone != 0 {
		s.place = 0
	}
}

// KeyLength returns the length of Key, without looking at it.
func (s *Series) KeyLength() int {
	if s.slot&isLone != 0 {
		return len(s.Key())
	}
	return int(s.length)
}

// ID returns the series' id, or 0 when the store has not registered it yet.
func (s *Series) ID() model.SeriesID { return model.SeriesID(s.id.Load()) }

// SetID records the id; only the store calls it, with the same id, or with 0 to
// take it back while no batch with the series is being written.
func (s *Series) SetID(id model.SeriesID) { s.id.Store(uint32(id)) }
