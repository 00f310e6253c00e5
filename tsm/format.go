package tsm

import (
	"encoding/binary"
	"math"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/tsm/codec"
)

// These constants are part of the file format and must not change.
const (
	headerMagic  = "tsdbdTSM"
	trailerMagic = "MSTdbdst"
	// Version is the format version that Writer writes.
	Version = 4
	// oldestVersion is the first version that Open reads: version 2 only added
	// delta-of-delta blocks, version 3 references to times, and version 4 blocks of quotients.
	oldestVersion = 1

	headerSize  = 16 // magic, version u16, features u16, CRC32C of the 12 bytes
	trailerSize = 16 // footer length u32, CRC32C u32, magic

	// groupSeries series share a key page and an entry page.
	groupSeries = 64
	// blockSize is the unit of the index region's checksums.
	blockSize = 4096
	// dirRecordSize is the size of a group's record: key page, entry page.
	dirRecordSize = 16
	// inlineLimit bounds the body of a chunk that is in its index entry.
	inlineLimit = 256
	// smallColumn is the first size at which a column of a chunk in the data
	// section has a checksum of its own and is outside the head.
	smallColumn = 256
	// pageHeaderSize is the fixed start of an entry page.
	pageHeaderSize = 3 + 4 + 8 + 8
)

// MaxChunkRows is the largest number of rows of a chunk.
const MaxChunkRows = codec.MaxValues

// MaxChunkText is the largest number of bytes that the strings of a chunk may
// have together. A chunk is read whole, so callers cut far earlier.
const MaxChunkText = 1 << 30

// StatsRows is the number of rows from which on a chunk has statistics.
// Decoding fewer costs less than keeping statistics for them.
const StatsRows = 8

// Info sums up a file.
type Info struct {
	Path string
	Size int64 // bytes
	// Checksum is the xxHash64 of all bytes before the footer. The footer
	// holds it, so Open knows it without reading the file and the caller can
	// tell whether this is the file it means; Verify recomputes it.
	Checksum uint64
	Series   int
	Chunks   int64
	Rows     int64 // rows over all series
	Values   int64 // non-null values over all rows and fields
	// IndexSize is the part of Size that is not data section. It includes the
	// rows of small chunks.
	IndexSize int64
	// Range is the range from the first to the last row; Empty without rows.
	Range          model.TimeRange
	MinKey, MaxKey string
	// MinSequence and MaxSequence are the range of log sequence numbers whose
	// effects the file holds.
	MinSequence, MaxSequence uint64
	Level                    int
}

// sections are the file offsets where the parts of the index region begin.
// Each part ends where the next begins.
type sections struct {
	keys      uint64 // key pages; also the end of the data section
	entries   uint64 // entry pages
	lists     uint64 // field lists
	listDir   uint64 // u32 offset of each field list from lists, and the end
	dir       uint64 // a record per group, and one for the end
	idDir     uint64 // u32 record number where each bucket begins, and the end
	idRecords uint64
	checksums uint64 // CRC32C of each block of [keys, checksums)
	footer    uint64
}

// all returns the offsets in their order.
func (s *sections) all() []*uint64 {
	return []*uint64{&s.keys, &s.entries, &s.lists, &s.listDir, &s.dir, &s.idDir, &s.idRecords, &s.checksums, &s.footer}
}

// footer is what Open reads. The offset of itself is not in it.
type footer struct {
	info        Info
	sec         sections
	fieldLists  uint32
	checksumCRC uint32 // CRC32C of the checksum table
	idBase      uint32 // smallest id
	idShift     uint8  // bucket of an id: (id-idBase)>>idShift
	idWidth     uint8  // bytes of an id record
}

func appendHeader(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, headerMagic...)
	dst = binary.LittleEndian.AppendUint16(dst, Version)
	dst = binary.LittleEndian.AppendUint16(dst, 0)
	return binary.LittleEndian.AppendUint32(dst, binio.Checksum(dst[at:]))
}

// append writes footer and trailer.
func (f *footer) append(dst []byte) []byte {
	at := len(dst)
	le := binary.LittleEndian
	i := &f.info
	for _, v := range []uint64{
		uint64(i.Series), uint64(i.Chunks), uint64(i.Rows), uint64(i.Values),
		uint64(i.Range.Min), uint64(i.Range.Max), i.MinSequence, i.MaxSequence, i.Checksum,
	} {
		dst = le.AppendUint64(dst, v)
	}
	for _, p := range f.sec.all()[:8] {
		dst = le.AppendUint64(dst, *p)
	}
	for _, v := range []uint32{uint32(i.Level), f.fieldLists, f.checksumCRC, f.idBase} {
		dst = le.AppendUint32(dst, v)
	}
	dst = append(dst, f.idShift, f.idWidth)
	dst = binio.AppendString(dst, i.MinKey)
	dst = binio.AppendString(dst, i.MaxKey)
	dst = le.AppendUint32(dst, uint32(len(dst)-at))
	dst = le.AppendUint32(dst, binio.Checksum(dst[at:]))
	return append(dst, trailerMagic...)
}

// parseFooter checks header, trailer and footer of a file and the relations between
// what the footer says. b has the file's bytes from the offset base on.
func parseFooter(path string, header, b []byte, base uint64) (footer, error) {
	var f footer
	bad := func(off int, reason string) (footer, error) {
		return footer{}, binio.Corruptf(path, int64(off)+int64(base), "tsm: %s", reason)
	}
	le := binary.LittleEndian
	if string(header[:8]) != headerMagic {
		return footer{}, binio.Corruptf(path, 0, "tsm: bad header magic")
	}
	if le.Uint32(header[12:]) != binio.Checksum(header[:12]) {
		return footer{}, binio.Corruptf(path, 0, "tsm: header checksum mismatch")
	}
	// Features are above the version: a file with one that is not known is newer.
	if v := uint64(le.Uint32(header[8:])); v < oldestVersion || v > Version {
		return footer{}, binio.CheckVersions(path, "TSM file", v, oldestVersion, Version)
	}
	end := len(b) - trailerSize
	if end < 0 {
		return bad(0, "file too short")
	}
	t := b[end:]
	if string(t[8:]) != trailerMagic {
		return bad(end, "bad trailer magic")
	}
	length := uint64(le.Uint32(t))
	if length > uint64(end) || base+uint64(end)-length < headerSize {
		return bad(end, "footer length exceeds file")
	}
	start := end - int(length)
	if binio.ChecksumUpdate(binio.Checksum(b[start:end]), t[:4]) != le.Uint32(t[4:]) {
		return bad(start, "footer checksum mismatch")
	}
	d := binio.NewDecoder(b[start:end])
	i := &f.info
	series, chunks, rows, values := d.Uint64(), d.Uint64(), d.Uint64(), d.Uint64()
	i.Range.Min, i.Range.Max = int64(d.Uint64()), int64(d.Uint64())
	i.MinSequence, i.MaxSequence, i.Checksum = d.Uint64(), d.Uint64(), d.Uint64()
	all := f.sec.all()
	for _, p := range all[:8] {
		*p = d.Uint64()
	}
	i.Level = int(d.Uint32())
	f.fieldLists, f.checksumCRC, f.idBase = d.Uint32(), d.Uint32(), d.Uint32()
	f.idShift, f.idWidth = d.Byte(), d.Byte()
	i.MinKey, i.MaxKey = d.String(), d.String()
	if d.Err() != nil || d.Len() != 0 {
		return bad(start, "footer does not parse")
	}
	f.sec.footer = base + uint64(start)
	i.Path, i.Size = path, int64(base)+int64(len(b))
	last := uint64(headerSize)
	for _, p := range all {
		if *p < last {
			return bad(start, "sections out of order")
		}
		last = *p
	}
	s := &f.sec
	if series > math.MaxUint32 || chunks > math.MaxInt64 || rows > math.MaxInt64 || values > math.MaxInt64 {
		return bad(start, "counts out of range")
	}
	i.Series, i.Chunks, i.Rows, i.Values = int(series), int64(chunks), int64(rows), int64(values)
	i.IndexSize = i.Size - int64(s.keys)
	groups := (series + groupSeries - 1) / groupSeries
	if s.idDir-s.dir != (groups+1)*dirRecordSize || s.dir-s.listDir != (uint64(f.fieldLists)+1)*4 {
		return bad(start, "directory size does not match counts")
	}
	if f.idShift > 32 || f.idWidth > 8 || f.idWidth == 0 || s.checksums-s.idRecords != series*uint64(f.idWidth) {
		return bad(start, "id section size does not match counts")
	}
	if n := s.idRecords - s.idDir; n < 4 || n%4 != 0 || n > 1<<35 {
		return bad(start, "id directory size does not match counts")
	}
	if s.footer-s.checksums != (s.checksums-s.keys+blockSize-1)/blockSize*4 {
		return bad(start, "checksum table size does not match index size")
	}
	if binio.Checksum(b[s.checksums-base:s.footer-base]) != f.checksumCRC {
		return footer{}, binio.Corruptf(path, int64(s.checksums), "tsm: checksum table mismatch")
	}
	return f, nil
}

// floorDiv returns the quotient rounded towards negative infinity; d > 0.
func floorDiv(v, d int64) int64 {
	q := v / d
	if v%d < 0 {
		q--
	}
	return q
}

// timeUnits are the units that a series' times may be kept in, by code.
var timeUnits = [4]int64{1, 1e3, 1e6, 1e9}

// lane reads the fixed-width little-endian number i of a lane of width w <= 8.
func lane(b []byte, i, w int) uint64 {
	b = b[i*w:]
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b) & (1<<(8*w) - 1)
	}
	return shortLane(b[:w])
}

// shortLane reads the little-endian number b near the end of a page.
func shortLane(b []byte) uint64 {
	var v uint64
	for j := len(b) - 1; j >= 0; j-- {
		v = v<<8 | uint64(b[j])
	}
	return v
}

// laneWidth returns the bytes that numbers up to most take; 0 for 0.
func laneWidth(most uint64) int {
	w := 0
	for ; most > 0; most >>= 8 {
		w++
	}
	return w
}

func appendLane(dst []byte, v uint64, w int) []byte {
	for range w {
		dst = append(dst, byte(v))
		v >>= 8
	}
	return dst
}
