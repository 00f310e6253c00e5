package wal

import (
	"encoding/binary"

	"tsdbd/internal/binio"
	"tsdbd/wal/entry"
)

// A record:
//
//	 0       4        8          16     17      18     20
//	┌───────┬────────┬──────────┬──────┬───────┬──────┬─────────────┐
//	│ crc   │ length │ sequence │ type │ flags │ part │ payload     │
//	│ u32   │ u32    │ u64      │ u8   │ u8    │ u16  │ length bytes│
//	└───────┴────────┴──────────┴──────┴───────┴──────┴─────────────┘
//
// crc is the CRC32C of everything after it, started from the segment's number
// in place of zero. CRC32C maps different start values to different sums over
// the same bytes, so a record left over from a recycled segment's earlier life
// never passes.

// MaxRecordBytes is the largest record, header included.
const MaxRecordBytes = 1 << 20

const (
	recordHeaderSize = 20
	maxPayload       = MaxRecordBytes - recordHeaderSize
	maxParts         = 1 << 16
	// maxSequence bounds what a reader believes; no writer gets there.
	maxSequence = 1 << 62
)

// Record types. The numbers are part of the format.
const (
	typeSeries = 1 // definitions of series used by the entry of the same sequence and later ones
	typeEnd    = 3 // nothing of this life of the segment follows
	// An entry, or a part of one, has its entry.Kind.
	typeEntry     = byte(entry.KindPoints)
	typeExemplars = byte(entry.KindExemplars) // the highest
)

// Record flags.
const (
	flagContinues = 1 << 0 // the next record holds the next part of the entry
	flagSnappy    = 1 << 1 // the payload is a snappy block
	flagSynced    = 1 << 2 // everything before this record was synced when it was written
	knownFlags    = flagContinues | flagSnappy | flagSynced
)

type recordHeader struct {
	crc      uint32
	length   int
	sequence uint64
	kind     byte
	flags    byte
	part     uint16
}

// appendRecord appends a record for the segment numbered segment.
func appendRecord(dst []byte, segment, sequence uint64, kind, flags byte, part uint16, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint64(dst, sequence)
	dst = append(dst, kind, flags)
	dst = binary.LittleEndian.AppendUint16(dst, part)
	dst = append(dst, payload...)
	binary.LittleEndian.PutUint32(dst[start:], recordChecksum(segment, dst[start:]))
	return dst
}

// appendEntryRecords cuts an entry's payload into as many records of a type as it
// needs. mark is added to the flags of the record that comes first in dst.
func appendEntryRecords(dst []byte, segment, sequence uint64, kind, mark byte, payload []byte) []byte {
	for part := 0; ; part++ {
		n := min(len(payload), maxPayload)
		flags := byte(0)
		if n < len(payload) {
			flags = flagContinues
		}
		if len(dst) == 0 {
			flags |= mark
		}
		dst = appendRecord(dst, segment, sequence, kind, flags, uint16(part), payload[:n])
		if payload = payload[n:]; len(payload) == 0 {
			return dst
		}
	}
}

// appendDefinitions appends a record of series definitions. mark is added to its
// flags if it comes first in dst.
func appendDefinitions(dst []byte, segment, sequence uint64, mark byte, block []byte, packed bool) []byte {
	flags := byte(0)
	if packed {
		flags = flagSnappy
	}
	if len(dst) == 0 {
		flags |= mark
	}
	return appendRecord(dst, segment, sequence, typeSeries, flags, 0, block)
}

// recordChecksum computes the checksum of a whole record, header included.
func recordChecksum(segment uint64, record []byte) uint32 {
	return binio.ChecksumUpdate(uint32(segment), record[4:])
}

// parseRecordHeader reads a header from at least recordHeaderSize bytes. ok
// says that the fields hold values that a writer of this version uses; the
// checksum is not looked at.
func parseRecordHeader(b []byte) (h recordHeader, ok bool) {
	_ = b[recordHeaderSize-1]
	h.length = int(binary.LittleEndian.Uint32(b[4:]))
	h.kind, h.flags = b[16], b[17]
	if uint(h.length) > maxPayload || h.kind < typeSeries || h.kind > typeExemplars || h.flags&^knownFlags != 0 {
		return h, false
	}
	h.crc = binary.LittleEndian.Uint32(b)
	h.sequence = binary.LittleEndian.Uint64(b[8:])
	h.part = binary.LittleEndian.Uint16(b[18:])
	return h, h.sequence <= maxSequence
}
