package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
)

// A segment file starts with a header, which fills its first sector:
//
//	 0       8         12      28       36     44             52     60    64       512
//	┌───────┬─────────┬───────┬────────┬──────┬──────────────┬──────┬─────┬────────┐
//	│ magic │ version │ log   │ number │ next │ previous end │ size │ crc │ zeros  │
//	│ 8     │ u32     │ 16    │ u64    │ u64  │ u64          │ u64  │ u32 │        │
//	└───────┴─────────┴───────┴────────┴──────┴──────────────┴──────┴─────┴────────┘
//
// log is the identity of the log, as in the base. number is the one in the name of
// the file. next is the index that the log went on with, previous end the offset
// behind the last batch of the segment before (0: there was none). What that segment
// has behind it is the rest of a write that failed. size is that of the file.
const (
	segmentMagic   = "TSDBDRFL"
	segmentVersion = 2
	segmentSuffix  = ".rlog"
	spareName      = "next.tmp"
	headerCRC      = 60
	firstSector    = sectorBytes // where the first batch is
	maxNumber      = 1 << 48
)

var (
	errCut      = errors.New("entry is cut")
	errChecksum = errors.New("checksum of an entry is wrong")
)

type segmentHeader struct {
	id          identity.Lineage
	number      uint64
	next        uint64
	previousEnd int64
	size        int64
}

// encode returns the first sector.
func (h *segmentHeader) encode() []byte {
	b := append(make([]byte, 0, sectorBytes), segmentMagic...)
	b = binary.LittleEndian.AppendUint32(b, segmentVersion)
	b = append(b, h.id[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, h.next)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.previousEnd))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.size))
	b = binary.LittleEndian.AppendUint32(b, binio.Checksum(b))
	return b[:sectorBytes]
}

// parseSegmentHeader reads the first sector. An unknown version is a binio.ErrVersion,
// all else a binio.ErrCorrupt.
func parseSegmentHeader(b []byte) (h segmentHeader, err error) {
	if len(b) < sectorBytes {
		return h, binio.Corruptf("", 0, "segment header is cut")
	}
	if string(b[:8]) != segmentMagic {
		return h, binio.Corruptf("", 0, "segment header has no magic")
	}
	if binio.Checksum(b[:headerCRC]) != binary.LittleEndian.Uint32(b[headerCRC:]) {
		return h, binio.Corruptf("", 0, "segment header checksum mismatch")
	}
	if err := binio.CheckVersion("", "segment of the raft log", uint64(binary.LittleEndian.Uint32(b[8:])), segmentVersion); err != nil {
		return h, err
	}
	copy(h.id[:], b[12:])
	h.number = binary.LittleEndian.Uint64(b[28:])
	h.next = binary.LittleEndian.Uint64(b[36:])
	h.previousEnd = int64(binary.LittleEndian.Uint64(b[44:]))
	h.size = int64(binary.LittleEndian.Uint64(b[52:]))
	if h.next == 0 || h.next > maxIndex || h.number == 0 || h.number > maxNumber || h.previousEnd < 0 ||
		h.previousEnd%sectorBytes != 0 || h.size < 2*sectorBytes || h.size%sectorBytes != 0 {
		return segmentHeader{}, binio.Corruptf("", 0, "segment header makes no sense")
	}
	return h, nil
}

func segmentPath(dir string, number uint64) string {
	return path.Join(dir, fmt.Sprintf("%012d%s", number, segmentSuffix))
}

// parseName returns the number in the name of a segment file.
func parseName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) < 12 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0 && n <= maxNumber
}

// segment is an open segment file.
type segment struct {
	segmentHeader
	path string
	file vfs.File
	end  int64 // behind the last batch

	// use is held for reading while the file is read, for writing while it is closed.
	use sync.RWMutex

	// Guarded by Store.mu: positions has the place in the stream of each entry that
	// is not deleted, from the index first on.
	first     uint64
	positions []uint32
}

// last returns the index of the last entry, which must exist.
func (g *segment) last() uint64 { return g.first + uint64(len(g.positions)) - 1 }

// room reports whether a batch of n bytes of stream fits, with a sector behind it for
// the batch that closes the log.
func (g *segment) room(n int64) bool { return g.end+(sectorsOf(n)+1)*sectorBytes <= g.size }

// close closes the file when nobody reads it.
func (g *segment) close() error {
	g.use.Lock()
	defer g.use.Unlock()
	return g.file.Close()
}

// zeroFile makes a file of zeros, durable except for its name. After a failure nothing
// is left of it.
func zeroFile(fsys vfs.FS, name string, size int64) (vfs.File, error) {
	f, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	if err = vfs.Zero(f, size); err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Close()
		_ = fsys.Remove(name)
		return nil, err
	}
	return f, nil
}
