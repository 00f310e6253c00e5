package raftlog

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
)

// A batch is what one write and one sync put into the log. Its stream:
//
//	 0     4        8       16      20       28     29     30                      length
//	┌─────┬────────┬───────┬───────┬────────┬──────┬──────┬─────────────┬──────────┐
//	│ crc │ length │ index │ count │ commit │ kind │ mark │ entries     │ end mark │
//	│ u32 │ u32    │ u64   │ u32   │ u64    │ u8   │ 0x96 │             │ 0x69     │
//	└─────┴────────┴───────┴───────┴────────┴──────┴──────┴─────────────┴──────────┘
//
// crc is the CRC32C of the bytes 4 to 29, started from the salt of the segment and
// the offset of the batch. length is that of the stream of the batch. The entries up to
// commit are committed. mark and end mark have four bits set, so that zeros in their
// place show a write that was cut off there.
//
// An entry:
//
//	 0     4      8           12      20     28            36     37
//	┌─────┬──────┬───────────┬───────┬──────┬─────────────┬──────┬──────┬────────────┐
//	│ crc │ data │ extension │ index │ term │ appended at │ type │ data │ extensions │
//	│ u32 │ u32  │ u32       │ u64   │ u64  │ i64         │ u8   │      │            │
//	└─────┴──────┴───────────┴───────┴──────┴─────────────┴──────┴──────┴────────────┘
//
// crc covers what follows it, started from the salt of the segment. appended at is
// in nanoseconds since 1970, the smallest number for the zero time.
const (
	batchHeaderBytes = 30
	entryHeaderBytes = 37

	headerMark = 0x96
	endMark    = 0x69

	// maxBatchBytes is the largest stream of a batch.
	maxBatchBytes = 1 << 30
	// maxIndex bounds what a reader believes; no writer gets there.
	maxIndex = 1 << 62
)

// Kinds of batches. The numbers are part of the format.
const (
	kindEntries  = 1 // count entries from index on
	kindTruncate = 2 // entries above index are deleted
	kindClosed   = 3 // the log was closed; index is its last one
	kindCommit   = 4 // no more than the commit index; index is the last one of the log
)

type batchHeader struct {
	length int64
	index  uint64
	count  int
	commit uint64
	kind   byte
}

// salt is the start of the checksums of a segment.
func (h *segmentHeader) salt() uint32 {
	return binio.ChecksumUpdate(binio.Checksum(h.id[:]), binary.LittleEndian.AppendUint64(nil, h.number))
}

// appendBatchHeader appends the header of a batch at offset off of the file.
func appendBatchHeader(dst []byte, salt uint32, off int64, h batchHeader) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.length))
	dst = binary.LittleEndian.AppendUint64(dst, h.index)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.count))
	dst = binary.LittleEndian.AppendUint64(dst, h.commit)
	dst = append(dst, h.kind, headerMark)
	binary.LittleEndian.PutUint32(dst[start:], batchChecksum(salt, off, dst[start:]))
	return dst
}

func batchChecksum(salt uint32, off int64, header []byte) uint32 {
	var o [8]byte
	binary.LittleEndian.PutUint64(o[:], uint64(off))
	return binio.ChecksumUpdate(binio.ChecksumUpdate(salt, o[:]), header[4:batchHeaderBytes])
}

// parseBatchHeader reads the header of the batch in the sector at offset off. ok
// says that it is whole.
func parseBatchHeader(sector []byte, salt uint32, off int64) (h batchHeader, ok bool) {
	b := sector[1 : 1+batchHeaderBytes]
	if sector[0] != stampStart || b[batchHeaderBytes-1] != headerMark || binary.LittleEndian.Uint32(b) != batchChecksum(salt, off, b) {
		return h, false
	}
	h.length = int64(binary.LittleEndian.Uint32(b[4:]))
	h.index = binary.LittleEndian.Uint64(b[8:])
	count := binary.LittleEndian.Uint32(b[16:])
	h.commit = binary.LittleEndian.Uint64(b[20:])
	h.count, h.kind = int(count), b[28]
	switch {
	case h.length <= batchHeaderBytes || h.length > maxBatchBytes || h.index > maxIndex:
		return h, false
	case h.kind == kindEntries:
		return h, h.index > 0 && count > 0 && int64(count) <= h.length/entryHeaderBytes && h.commit < h.index+uint64(count)
	case h.kind == kindTruncate || h.kind == kindClosed || h.kind == kindCommit:
		return h, count == 0 && h.length == batchHeaderBytes+1 && h.commit <= h.index
	}
	return h, false
}

// entryBytes is the length of an entry.
func entryBytes(l *raft.Log) int64 {
	return entryHeaderBytes + int64(len(l.Data)) + int64(len(l.Extensions))
}

const zeroTime = math.MinInt64

// appendEntry appends an entry.
func appendEntry(dst []byte, salt uint32, l *raft.Log) []byte {
	start := len(dst)
	at := int64(zeroTime)
	if !l.AppendedAt.IsZero() {
		at = l.AppendedAt.UnixNano()
	}
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(l.Data)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(l.Extensions)))
	dst = binary.LittleEndian.AppendUint64(dst, l.Index)
	dst = binary.LittleEndian.AppendUint64(dst, l.Term)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(at))
	dst = append(dst, byte(l.Type))
	dst = append(dst, l.Data...)
	dst = append(dst, l.Extensions...)
	binary.LittleEndian.PutUint32(dst[start:], binio.ChecksumUpdate(salt, dst[start+4:]))
	return dst
}

// entryLength returns the length of the entry that b begins with, which has at
// least entryHeaderBytes. The checksum is not looked at.
func entryLength(b []byte) int64 {
	return entryHeaderBytes + int64(binary.LittleEndian.Uint32(b[4:])) + int64(binary.LittleEndian.Uint32(b[8:]))
}

// parseEntry reads the entry that b begins with and returns its length. The entry
// shares the memory of b. Damage is an error without a place.
func parseEntry(b []byte, salt uint32, l *raft.Log) (int64, error) {
	if len(b) < entryHeaderBytes {
		return 0, errCut
	}
	n := entryLength(b)
	if n > int64(len(b)) {
		return 0, errCut
	}
	if binary.LittleEndian.Uint32(b) != binio.ChecksumUpdate(salt, b[4:n]) {
		return 0, errChecksum
	}
	data := entryHeaderBytes + int64(binary.LittleEndian.Uint32(b[4:]))
	*l = raft.Log{
		Index: binary.LittleEndian.Uint64(b[12:]),
		Term:  binary.LittleEndian.Uint64(b[20:]),
		Type:  raft.LogType(b[36]),
	}
	if data > entryHeaderBytes {
		l.Data = b[entryHeaderBytes:data:data]
	}
	if n > data {
		l.Extensions = b[data:n:n]
	}
	if at := int64(binary.LittleEndian.Uint64(b[28:])); at != zeroTime {
		l.AppendedAt = time.Unix(0, at)
	}
	return n, nil
}

// decodeConfiguration returns what an entry of type raft.LogConfiguration holds.
func decodeConfiguration(b []byte) (c raft.Configuration, err error) {
	defer func() {
		if p := recover(); p != nil { // raft panics
			err = fmt.Errorf("%v", p)
		}
	}()
	return raft.DecodeConfiguration(b), nil
}
