package meta

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
)

// A catalog file is a header and a JSON document, and records of changes behind it, see
// appendRecord:
//
//	+----------+---------+----------+--------+-------+---------------+
//	| magic    | version | sequence | length | crc   | payload       |
//	| 8 bytes  | uint32  | uint64   | uint64 | uint32| length bytes  |
//	+----------+---------+----------+--------+-------+---------------+
//
// Integers are little-endian. crc is the CRC32C of everything before it and of
// the payload. sequence is the Index of the Data in the payload.
const (
	fileMagic     = "TSDBDCAT"
	formatVersion = 9
	oldestVersion = 8 // lacks boards and what queries may take of downsamples
	headerLength  = 8 + 4 + 8 + 8 + 4
	crcOffset     = headerLength - 4
)

// encode appends the file of d to dst. Spaces behind the payload make it least bytes long
// at least.
func encode(dst []byte, d *Data, least int) ([]byte, error) {
	payload, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode catalog: %w", err)
	}
	if more := least - headerLength - len(payload); more > 0 {
		payload = append(payload, bytes.Repeat([]byte{' '}, more)...)
	}
	start := len(dst)
	dst = append(dst, fileMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, formatVersion)
	dst = binary.LittleEndian.AppendUint64(dst, d.Index)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(payload)))
	crc := binio.ChecksumUpdate(binio.Checksum(dst[start:]), payload)
	dst = binary.LittleEndian.AppendUint32(dst, crc)
	return append(dst, payload...), nil
}

// decode reads a catalog file. Damage is a binio.CorruptError; a sound file of
// a version this code does not know is a binio.ErrVersion. It also returns what the file
// is made of. With an ErrTorn, Data is the catalog before the record that is torn.
func decode(path string, b []byte) (*Data, copyState, error) {
	if len(b) < headerLength {
		return nil, copyState{}, binio.Corruptf(path, 0, "catalog has %d bytes, its header needs %d", len(b), headerLength)
	}
	if string(b[:8]) != fileMagic {
		return nil, copyState{}, binio.Corruptf(path, 0, "bad magic %q", b[:8])
	}
	version := binary.LittleEndian.Uint32(b[8:])
	sequence := binary.LittleEndian.Uint64(b[12:])
	length := binary.LittleEndian.Uint64(b[20:])
	want := binary.LittleEndian.Uint32(b[crcOffset:])
	payload := b[headerLength:]
	if length > uint64(len(payload)) {
		return nil, copyState{}, binio.Corruptf(path, 20, "payload has %d bytes, header says %d", len(payload), length)
	}
	payload = payload[:length]
	if got := binio.ChecksumUpdate(binio.Checksum(b[:crcOffset]), payload); got != want {
		return nil, copyState{}, binio.Corruptf(path, crcOffset, "checksum %08x, header says %08x", got, want)
	}
	if version < oldestVersion || version > formatVersion {
		return nil, copyState{}, binio.CheckVersions(path, "catalog", uint64(version), oldestVersion, formatVersion)
	}
	d := new(Data)
	if err := json.Unmarshal(payload, d); err != nil {
		return nil, copyState{}, binio.Corruptf(path, headerLength, "%v", err)
	}
	if d.Index != sequence {
		return nil, copyState{}, binio.Corruptf(path, 12, "sequence %d, payload has index %d", sequence, d.Index)
	}
	if err := d.validate(); err != nil {
		return nil, copyState{}, binio.Corruptf(path, headerLength, "%v", err)
	}
	if d.Lineage == (identity.Lineage{}) {
		return nil, copyState{}, binio.Corruptf(path, headerLength, "payload has no lineage")
	}
	d.index()
	s := soundCopy(b, d)
	if s.base == s.size {
		return d, s, nil
	}
	d, err := replay(path, d, b, headerLength+len(payload))
	if err != nil {
		s = copyState{}
	}
	return d, s, err
}

// soundCopy returns what the catalog file b, whose base is d, is made of.
func soundCopy(b []byte, d *Data) copyState {
	base := headerLength + int(binary.LittleEndian.Uint64(b[20:]))
	return copyState{
		base: int64(base), size: int64(len(b)), shards: d.LastShardID, sound: true,
		spaces: int64(base - len(bytes.TrimRight(b[:base], " "))),
	}
}
