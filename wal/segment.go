package wal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
)

// A segment file starts with a header:
//
//	 0       8         12      16       24      32         40     48        64         68     72
//	┌───────┬─────────┬───────┬────────┬───────┬──────────┬──────┬─────────┬──────────┬──────┐
//	│ magic │ version │ epoch │ number │ first │ previous │ size │ lineage │ reserved │ crc  │
//	│ 8     │ u32     │ u32   │ u64    │ u64   │ u64      │ u64  │ 16      │ u32      │ u32  │
//	└───────┴─────────┴───────┴────────┴───────┴──────────┴──────┴─────────┴──────────┴──────┘
//
// and goes on with records. number is the one in the file's name, first the
// sequence of the segment's first entry, previous the sequence of the last
// entry of the log before it (0: none). The file never has fewer bytes than
// size. lineage is that of the data directory.

const (
	segmentMagic      = "TSDBDWAL"
	formatVersion     = 5
	segmentHeaderSize = 72

	segmentSuffix = ".wal"
	spareSuffix   = ".spare"
	quarantineDir = "quarantine"
	damagedKind   = "damaged" // in the name of a copy of a span that had entries
)

type segmentHeader struct {
	epoch    uint32
	number   uint64
	first    uint64
	previous uint64
	size     uint64
	lineage  identity.Lineage
}

func (h segmentHeader) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, segmentMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, formatVersion)
	dst = binary.LittleEndian.AppendUint32(dst, h.epoch)
	dst = binary.LittleEndian.AppendUint64(dst, h.number)
	dst = binary.LittleEndian.AppendUint64(dst, h.first)
	dst = binary.LittleEndian.AppendUint64(dst, h.previous)
	dst = binary.LittleEndian.AppendUint64(dst, h.size)
	dst = append(dst, h.lineage[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	return binary.LittleEndian.AppendUint32(dst, binio.Checksum(dst[start:]))
}

// segmentFormat is the name of the format in errors.
const segmentFormat = "segment of the log"

// parseSegmentHeader reads a header. A binio.ErrVersion is not a corruption.
func parseSegmentHeader(path string, b []byte) (h segmentHeader, err error) {
	// Version 1 had a header of 48 bytes.
	if len(b) >= 48 && string(b[:8]) == segmentMagic && binary.LittleEndian.Uint32(b[8:]) == 1 &&
		binio.Checksum(b[:44]) == binary.LittleEndian.Uint32(b[44:]) {
		return h, binio.CheckVersion(path, segmentFormat, 1, formatVersion)
	}
	if len(b) < segmentHeaderSize {
		return h, binio.Corruptf("", 0, "segment header is cut")
	}
	b = b[:segmentHeaderSize]
	if string(b[:8]) != segmentMagic {
		return h, binio.Corruptf("", 0, "segment header has no magic")
	}
	if binio.Checksum(b[:68]) != binary.LittleEndian.Uint32(b[68:]) {
		return h, binio.Corruptf("", 0, "segment header checksum mismatch")
	}
	// What is not zero is of a newer version.
	if err := binio.CheckVersion(path, segmentFormat, uint64(binary.LittleEndian.Uint32(b[8:]))|uint64(binary.LittleEndian.Uint32(b[64:]))<<32, formatVersion); err != nil {
		return h, err
	}
	h.epoch = binary.LittleEndian.Uint32(b[12:])
	h.number = binary.LittleEndian.Uint64(b[16:])
	h.first = binary.LittleEndian.Uint64(b[24:])
	h.previous = binary.LittleEndian.Uint64(b[32:])
	h.size = binary.LittleEndian.Uint64(b[40:])
	copy(h.lineage[:], b[48:])
	if h.first == 0 || h.first > maxSequence || h.previous >= h.first || h.number > maxNumber {
		return segmentHeader{}, binio.Corruptf("", 0, "segment header makes no sense")
	}
	return h, nil
}

func segmentPath(dir string, number uint64) string {
	return path.Join(dir, fmt.Sprintf("%012d%s", number, segmentSuffix))
}

func sparePath(dir string, number uint64) string {
	return path.Join(dir, fmt.Sprintf("%012d%s", number, spareSuffix))
}

// maxNumber bounds the number of a segment; no writer gets there, and what lies
// beyond it is not ours: numbers must not wrap, for they order the segments.
const maxNumber = 1 << 62

// parseName returns the number in a file name of ours.
func parseName(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) < 12 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n <= maxNumber
}

// SegmentInfo describes a segment file that is not written to any more.
type SegmentInfo struct {
	Path     string
	Number   uint64
	Epoch    uint32
	Lineage  identity.Lineage // of the data directory
	Size     int64            // bytes of the file at least, as the header says
	First    uint64           // sequence of the first entry it can hold
	Previous uint64           // sequence of the last entry of the log before it
	Bytes    int64            // size of the file

	// Known once it is read:
	Last    uint64 // sequence of its last entry; of the last one before it if it has none
	Entries int
	End     int64 // offset behind the last record
	Sealed  bool  // an end record stands there
	Torn    int64 // bytes of an unfinished write behind End

	// headerErr says that the header cannot be read; Number is then the one in the
	// name, and the other fields from the header are zero.
	headerErr error
	cutOff    bool // entries are missing at its end
	clean     bool // nothing was found in it but entries and perhaps a torn end
	gone      bool // it was trimmed while it was read
}

// findSegments reads the headers of the segments in dir, in order of their numbers,
// and tells report what is wrong with their names. A segment of a version that is
// not known is an error. Those that drop is true for are left out.
func findSegments(fsys vfs.FS, dir string, report func(Damage), drop func(*SegmentInfo) (bool, error)) ([]SegmentInfo, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var out []SegmentInfo
	byNumber := make(map[uint64]int)
	for _, name := range names {
		n, ok := parseName(name, segmentSuffix)
		if !ok {
			continue
		}
		s, err := readHeader(fsys, path.Join(dir, name), n)
		if errors.Is(err, fs.ErrNotExist) {
			continue // trimmed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if gone, err := drop(&s); gone || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		if s.Number != n {
			report(Damage{Segment: s.Path, Reason: fmt.Sprintf("file holds segment %d", s.Number)})
		}
		if i, twice := byNumber[s.Number]; twice {
			// A copy under another name. The one whose name is right counts.
			if s.Number == n {
				out[i], s = s, out[i]
			}
			report(Damage{Segment: s.Path, Bytes: s.Bytes, Reason: fmt.Sprintf("second file of segment %d, not read", s.Number)})
			continue
		}
		byNumber[s.Number] = len(out)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b SegmentInfo) int { return cmp.Compare(a.Number, b.Number) })
	return out, nil
}

// readHeader reads the header of a segment file. A damaged one is kept in
// headerErr: the records can still be read.
func readHeader(fsys vfs.FS, file string, number uint64) (SegmentInfo, error) {
	s := SegmentInfo{Path: file, Number: number}
	f, err := fsys.Open(file)
	if err != nil {
		return s, err
	}
	defer f.Close()
	if s.Bytes, err = f.Size(); err != nil {
		return s, err
	}
	b := make([]byte, min(segmentHeaderSize, s.Bytes))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return s, fmt.Errorf("read wal segment %s: %w", file, err)
	}
	h, err := parseSegmentHeader(file, b)
	switch {
	case errors.Is(err, binio.ErrVersion):
		return s, err
	case err != nil:
		s.headerErr = err
	default:
		s.Number, s.Epoch, s.First, s.Previous = h.number, h.epoch, h.first, h.previous
		s.Lineage, s.Size = h.lineage, int64(h.size)
	}
	return s, nil
}

// openFile is the segment being written, or the next one. Only the committer
// writes to it.
type openFile struct {
	file   vfs.File
	path   string
	number uint64
	first  uint64
	size   int64 // bytes zero-filled or recycled; writes beyond extend the file
	end    int64 // where the next record goes
}

// limit is where an entry's records must end: behind it there is room for the
// end record, and for so many quarters of the reserve.
func (s *openFile) limit(quarters int64) int64 {
	return s.size - 2*recordHeaderSize - quarters*(min(reserveBytes, s.size/8)/4)
}

// reserveBytes is what writes leave free at the end of a segment for entries that make
// room, when there is no space for another segment: a part of it for those that only let
// others drop something (entry.Entry.Reserve), so that there is room for the drops.
const reserveBytes = 64 << 10
