package raftlog

import "tsdbd/internal/vfs"

// After its header, a segment is a sequence of sectors:
//
//	 0       1                  512
//	┌───────┬──────────────────┐
//	│ stamp │ 511 bytes        │
//	└───────┴──────────────────┘
//
// A stream is what the sectors hold without their stamps. A batch begins in a
// sector of its own and fills as many as it needs. The first has the stamp
// stampStart, the others stampMore. Sectors that no batch has been written to
// are zeros, because segments are filled with zeros and never recycled.
//
// So a sector of zeros tells a write that did not reach the disk from damage:
// four bits of every stamp are set, and four differ between the two.
const (
	sectorBytes = 512
	// streamBytes is what a sector holds of the stream.
	streamBytes = sectorBytes - 1

	stampStart = 0x5a
	stampMore  = 0xa5
)

// sectorsOf returns how many sectors n bytes of stream fill.
func sectorsOf(n int64) int64 { return (n + streamBytes - 1) / streamBytes }

// fileOffset returns where the byte at position p of the stream is in the file.
// Position 0 would be the second byte of the file.
func fileOffset(p int64) int64 { return p/streamBytes*sectorBytes + 1 + p%streamBytes }

// position returns the position in the stream of the first byte of the sector at
// an offset of the file.
func position(sector int64) int64 { return sector / sectorBytes * streamBytes }

// appendSectors appends the sectors of a batch.
func appendSectors(dst, stream []byte) []byte {
	stamp := byte(stampStart)
	for len(stream) > 0 {
		n := min(len(stream), streamBytes)
		dst = append(append(dst, stamp), stream[:n]...)
		dst = append(dst, zeroSector[:streamBytes-n]...)
		stream, stamp = stream[n:], stampMore
	}
	return dst
}

// unstamp appends the stream of the sectors in b to dst, which may be b[:0]. b begins
// anywhere in a sector, at offset off of the file. It does not look at the stamps.
func unstamp(dst, b []byte, off int64) []byte {
	for at := 0; at < len(b); {
		in := int((off + int64(at)) % sectorBytes)
		if in == 0 {
			at, in = at+1, 1
		}
		n := min(len(b)-at, sectorBytes-in)
		dst = append(dst, b[at:at+n]...)
		at += n
	}
	return dst
}

var (
	zeroSector [sectorBytes]byte
	zeroPage   [vfs.PageBytes]byte
)

func allZero(b []byte) bool {
	for len(b) > sectorBytes {
		if [sectorBytes]byte(b) != zeroSector {
			return false
		}
		b = b[sectorBytes:]
	}
	return string(b) == string(zeroSector[:len(b)])
}
