package tsm

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/binio"
)

// Series of one scrape, or of one agent, have the same times. If the times of a chunk
// in the data section are those of an earlier chunk of the file, byte by byte, their
// column is a reference:
//
//	distance uvarint | size uvarint | CRC32C of the block u32
//
// The block is distance bytes before the body of the chunk. A reference never leads to
// another reference. The lowest bit of the column's table word is set for it: times
// have no presence.

const (
	// maxTimesDistance bounds how far before a chunk its times are.
	maxTimesDistance = 1 << 20
	// A block of less is not worth a reference, and one of more is not remembered.
	minSharedTimes = 16
	maxSharedTimes = 4 << 10
	// timeSlots is how many blocks a Writer remembers, so at most 1 MiB.
	timeSlots = 256
)

// timeBlocks remembers the time blocks that were written lately, by their hash.
type timeBlocks struct {
	slots     []timeSlot // made at first use
	reference []byte
}

type timeSlot struct {
	off   uint64 // in the file
	bytes []byte
}

// share replaces the times of a chunk, whose body begins at the offset at, by a
// reference if they were written lately. Else it returns the slot that is to remember
// them, or nil.
func (t *timeBlocks) share(times *rawColumn, at uint64) *timeSlot {
	b := times.bytes
	if len(b) < minSharedTimes || len(b) > maxSharedTimes {
		return nil
	}
	if t.slots == nil {
		t.slots = make([]timeSlot, timeSlots)
	}
	slot := &t.slots[xxhash.Sum64(b)%timeSlots]
	if !bytes.Equal(slot.bytes, b) || at-slot.off > maxTimesDistance {
		slot.bytes = append(slot.bytes[:0], b...)
		return slot
	}
	t.reference = binary.AppendUvarint(t.reference[:0], at-slot.off)
	t.reference = binary.AppendUvarint(t.reference, uint64(len(b)))
	t.reference = binary.LittleEndian.AppendUint32(t.reference, binio.Checksum(b))
	*times = rawColumn{bytes: t.reference, sparse: true}
	return nil
}

const sharedMismatch = "checksum mismatch of times that several series share"

// timeBlock returns the block of a chunk's times, checked, and its offset in the file.
func (c *Chunk) timeBlock() (b []byte, off int64, err error) {
	if b, err = c.raw(0); err != nil {
		return nil, 0, err
	}
	off = c.off + int64(c.places[0].off)
	if !c.places[0].sparse {
		return b, off, nil
	}
	distance, at := binio.Uvarint(b, 0)
	size := uint64(0)
	if at >= 0 {
		size, at = binio.Uvarint(b, at)
	}
	if at < 0 || len(b)-at != 4 || c.e.inline || size == 0 || distance < size || distance > min(maxTimesDistance, uint64(c.off)-headerSize) {
		return nil, 0, c.damage(off, "bad reference to times")
	}
	want := binary.LittleEndian.Uint32(b[at:])
	off = c.off - int64(distance)
	if c.r.body != nil {
		b, err = c.sharedTimes(off, int(size), want)
		return b, off, err
	}
	b = c.r.section(uint64(off), uint64(off)+size)
	if binio.Checksum(b) != want {
		return nil, 0, c.damage(off, sharedMismatch)
	}
	return b, off, nil
}
