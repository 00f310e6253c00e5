package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

// A pair is a file with two copies of a small payload, in slots of fixed size:
//
//	 0       8         12       16           24        24+length
//	┌───────┬─────────┬────────┬────────────┬─────────┬─────┬───────┐
//	│ magic │ version │ length │ generation │ payload │ crc │ zeros │
//	│ 8     │ u32     │ u32    │ u64        │         │ u32 │       │
//	└───────┴─────────┴────────┴────────────┴─────────┴─────┴───────┘
//
// crc is the CRC32C of the offset of the slot and of everything before crc. A change
// replaces the first copy and syncs it, and then the second. So a crash leaves one
// copy whole, and a change that was acknowledged is in both. The file keeps its size:
// a change needs no space on a full disk.
type pair struct {
	name       string
	magic      string
	slot       int64 // bytes
	file       vfs.File
	generation uint64
	first      int64 // offset of the copy that is written first: if one is not whole, this one
	failed     error // of a sync
}

const (
	pairVersion     = 1
	pairHeaderBytes = 24
)

// encodePair appends one copy, without the zeros behind it.
func encodePair(magic string, at int64, generation uint64, payload []byte) []byte {
	b := append(make([]byte, 0, pairHeaderBytes+len(payload)+4), magic...)
	b = binary.LittleEndian.AppendUint32(b, pairVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint64(b, generation)
	b = append(b, payload...)
	return binary.LittleEndian.AppendUint32(b, binio.PlacedChecksum(at, b))
}

// decodePair reads the copy at offset at. An unknown version is a binio.ErrVersion,
// all else a binio.ErrCorrupt.
func decodePair(magic string, at int64, b []byte) (generation uint64, payload []byte, err error) {
	if len(b) < pairHeaderBytes+4 || string(b[:8]) != magic {
		return 0, nil, binio.Corruptf("", at, "no magic")
	}
	n := int64(binary.LittleEndian.Uint32(b[12:]))
	if n > int64(len(b))-pairHeaderBytes-4 {
		return 0, nil, binio.Corruptf("", at, "length is damaged")
	}
	end := pairHeaderBytes + n
	if binio.PlacedChecksum(at, b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return 0, nil, binio.Corruptf("", at, "checksum is wrong")
	}
	if err := binio.CheckVersion("", "file of the raft log", uint64(binary.LittleEndian.Uint32(b[8:])), pairVersion); err != nil {
		return 0, nil, err
	}
	return binary.LittleEndian.Uint64(b[16:]), b[pairHeaderBytes:end], nil
}

// createPair makes a file with both copies. dir is its directory.
func createPair(fsys vfs.FS, dir, name, magic string, slot int64, payload []byte) error {
	b := make([]byte, 2*slot)
	for _, at := range []int64{0, slot} {
		c := encodePair(magic, at, 1, payload)
		if int64(len(c)) > slot {
			return fmt.Errorf("%d bytes do not fit into %d", len(c), slot)
		}
		copy(b[at:], c)
	}
	return vfs.WriteFileAtomic(fsys, dir, name, b)
}

// readPair reads the newer of the two copies. other is the offset of the other one, if
// that is not equal, and -1 if it is. If no copy is whole, the error is a
// binio.ErrCorrupt.
func readPair(f vfs.File, name, magic string, slot int64) (generation uint64, payload []byte, other int64, err error) {
	b := make([]byte, 2*slot)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return 0, nil, -1, fmt.Errorf("read %s: %w", name, err)
	}
	b = b[:n]
	g0, p0, err0 := decodePair(magic, 0, b[:min(slot, int64(n))])
	g1, p1, err1 := decodePair(magic, slot, b[min(slot, int64(n)):])
	for _, e := range []error{err0, err1} {
		if errors.Is(e, binio.ErrVersion) {
			return 0, nil, -1, binio.InFile(e, name)
		}
	}
	switch {
	case err0 != nil && err1 != nil:
		return 0, nil, -1, binio.Corruptf(name, 0, "both copies are damaged: %s; %s", binio.Reason(err0), binio.Reason(err1))
	case err0 != nil || err1 == nil && g1 > g0:
		return g1, p1, 0, nil
	case err1 != nil || g0 > g1 || !bytes.Equal(p0, p1):
		return g0, p0, slot, nil
	}
	return g0, p0, -1, nil
}

// openPair reads a pair for changes, and makes its copies equal. What it returns is
// durable.
func openPair(fsys vfs.FS, name, magic string, slot int64, logger *slog.Logger) (*pair, []byte, error) {
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", name, err)
	}
	p := &pair{name: name, magic: magic, slot: slot, file: f}
	// What is read may be in the page cache only.
	if err := f.SyncData(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("sync %s: %w", name, err), f.Close())
	}
	generation, payload, other, err := readPair(f, name, magic, slot)
	p.generation = generation
	if err == nil && other >= 0 {
		logger.Warn("a copy in a file of the raft log was damaged or old, it is replaced from the other", "path", name)
		p.first = other
		err = p.write(payload)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return p, payload, nil
}

// write replaces the payload, durably. After a failed sync all later calls fail.
func (p *pair) write(payload []byte) error {
	if p.failed != nil {
		return p.failed
	}
	p.generation++
	for range 2 {
		b := encodePair(p.magic, p.first, p.generation, payload)
		if int64(len(b)) > p.slot {
			return fmt.Errorf("write %s: %d bytes do not fit into %d", p.name, len(b), p.slot)
		}
		if _, err := p.file.WriteAt(b, p.first); err != nil {
			return fmt.Errorf("write %s: %w", p.name, err)
		}
		if err := p.file.SyncData(); err != nil {
			p.failed = fmt.Errorf("%s failed, reopen it: %w", p.name, err)
			return p.failed
		}
		p.first = p.slot - p.first // the other one
	}
	return nil
}

func (p *pair) close() error { return p.file.Close() }
