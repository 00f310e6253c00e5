package entry

import (
	"encoding/binary"

	"tsdbd/internal/binio"
)

// A record is an entry with the definitions that its reader needs, for a log that
// keeps whole messages (uv = unsigned varint):
//
//	crc u32 | version u8 | kind u8 | sequence uv |
//	blocks uv, per block: packed u8, length uv, bytes | payload
//
// crc is the CRC32C of everything after it. kind is the Kind of the entry.
const recordVersion = 3

// AppendRecord appends the record of e to dst. It defines the series that are not
// in known, and adds them. If known is nil the record defines all its series: it
// can be decoded alone.
func (c *Encoder) AppendRecord(dst []byte, e *Entry, known *Definitions) ([]byte, error) {
	if err := c.Encode(e); err != nil {
		return dst, err
	}
	return c.AppendEncoded(dst, e, known), nil
}

// AppendEncoded is AppendRecord for the entry that Encode was called with last.
func (c *Encoder) AppendEncoded(dst []byte, e *Entry, known *Definitions) []byte {
	if known == nil {
		known = new(Definitions)
	}
	count, blocks := 0, []byte(nil)
	known.Append(e, c.IDs, func(block []byte, packed bool) {
		flag := byte(0)
		if packed {
			flag = 1
		}
		blocks = binary.AppendUvarint(append(blocks, flag), uint64(len(block)))
		blocks = append(blocks, block...)
		count++
	})
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, recordVersion, byte(e.Kind()))
	dst = binary.AppendUvarint(dst, e.Sequence)
	dst = binary.AppendUvarint(dst, uint64(count))
	dst = append(append(dst, blocks...), c.Payload...)
	binary.LittleEndian.PutUint32(dst[start:], binio.Checksum(dst[start+4:]))
	return dst
}

// Record reads a record. The entry is valid until the next call and shares the
// record's memory. Damage is a *binio.CorruptError.
func (c *Decoder) Record(b []byte) (*Entry, error) {
	d := binio.NewDecoder(b)
	crc := d.Uint32()
	version, kind := d.Byte(), d.Byte()
	sequence, blocks := d.Uvarint(), d.Count(2)
	if err := d.Err(); err != nil {
		return nil, err
	}
	if binio.Checksum(b[4:]) != crc {
		return nil, binio.Corruptf("", 0, "record checksum mismatch")
	}
	if err := binio.CheckVersion("", "record of the log", uint64(version), recordVersion); err != nil {
		return nil, err
	}
	for range blocks {
		packed, block := d.Byte(), d.Bytes(d.Count(1))
		if err := d.Err(); err != nil {
			return nil, err
		}
		if err := c.Define(block, packed == 1); err != nil {
			return nil, err
		}
	}
	return c.Decode(Kind(kind), sequence, b[d.Offset():])
}
