package series

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/golang/snappy"

	"tsdbd/internal/binio"
	"tsdbd/internal/keyblock"
	"tsdbd/model"
)

// The series log: a header, then blocks, then nothing or zeros.
//
//	log header   | magic "tsdbSER\x02" 8 | version u32 | database u32 | lineage 16 | crc u32 |
//	block        | magic "SBLK" 4 | length u32 | first u32 | count u16 | flags u16 |
//	             | batch u64 | payload crc u32 | header crc u32 | payload ... |
//
// Both header crcs start from the header's own offset, so that a block written
// to the wrong place is not taken for the one that belongs there.
const (
	logMagic         = "tsdbSER\x02"
	logVersion       = 2
	logHeaderBytes   = 36
	blockMagic       = "SBLK"
	blockHeaderBytes = 32
	blockKeys        = 128       // 256 would save 1 B a key and double the time to decode
	blockText        = 64 << 10  // a block is cut once its keys pass this
	blockMaxText     = 256 << 10 // no block unpacks to more: one longest key over the cut, with room
)

// Flags of a block: how its keys are written.
const (
	blockSnappy  = 0 // Snappy of each key's shared prefix length, suffix length, suffix
	blockColumns = 1 // package keyblock
)

// block is an unpacked block: the keys of ids first, first+1, ...
type block struct {
	first uint32
	text  string
	ends  []uint32
}

// key returns the key of an id that the block holds, sharing its memory.
func (b *block) key(id uint32) string {
	i := id - b.first
	start := uint32(0)
	if i > 0 {
		start = b.ends[i-1]
	}
	return b.text[start:b.ends[i]]
}

// size is what the block costs in memory.
func (b *block) size() int { return len(b.text) + 4*len(b.ends) + 64 }

// blockHeader is the decoded header of a block.
type blockHeader struct {
	length     int    // payload bytes
	first      uint32 // id of the first key
	count      int    // keys, of consecutive ids
	flags      int
	batch      int64 // offset of the first block of the same Sync
	payloadCRC uint32
	headerCRC  uint32
}

func (h *blockHeader) last() uint32 { return h.first + uint32(h.count) - 1 }

// blockScratch is memory for making blocks.
type blockScratch struct {
	encoder      keyblock.Encoder
	columns, raw []byte
}

// appendBlock appends a block for the keys of ids first, first+1, ...
// that will stand at offset in the log.
func appendBlock(dst []byte, offset, batch int64, first uint32, keys []string, scratch *blockScratch) []byte {
	payload, flags := packKeys(keys, scratch)
	start := len(dst)
	dst = append(dst, blockMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint32(dst, first)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(keys)))
	dst = binary.LittleEndian.AppendUint16(dst, flags)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(batch))
	dst = binary.LittleEndian.AppendUint32(dst, binio.Checksum(payload))
	dst = binary.LittleEndian.AppendUint32(dst, binio.PlacedChecksum(offset, dst[start:]))
	return append(dst, payload...)
}

// packKeys returns the payload of a block, valid until the next call, and
// its flags.
func packKeys(keys []string, scratch *blockScratch) ([]byte, uint16) {
	text := 0
	for _, k := range keys {
		text += len(k)
	}
	ok := len(keys) >= keyblock.Worthwhile
	if ok {
		if scratch.columns, ok = scratch.encoder.Append(scratch.columns[:0], keys); ok && 8*len(scratch.columns) < text {
			return scratch.columns, blockColumns
		}
	}
	raw := scratch.raw[:0]
	prev := ""
	for _, k := range keys {
		n := keyblock.SharedPrefix(prev, k)
		raw = binary.AppendUvarint(raw, uint64(n))
		raw = binary.AppendUvarint(raw, uint64(len(k)-n))
		raw = append(raw, k[n:]...)
		prev = k
	}
	scratch.raw = raw
	if payload := snappy.Encode(nil, raw); !ok || len(payload) <= len(scratch.columns) {
		return payload, blockSnappy
	}
	return scratch.columns, blockColumns
}

// parseBlockHeader decodes the header at b[:blockHeaderBytes]; false says that
// it is none or damaged.
func parseBlockHeader(b []byte, offset int64) (blockHeader, bool) {
	var h blockHeader
	if len(b) < blockHeaderBytes || string(b[:4]) != blockMagic {
		return h, false
	}
	h.headerCRC = binary.LittleEndian.Uint32(b[28:])
	if binio.PlacedChecksum(offset, b[:28]) != h.headerCRC {
		return h, false
	}
	h.length = int(binary.LittleEndian.Uint32(b[4:]))
	h.first = binary.LittleEndian.Uint32(b[8:])
	h.count = int(binary.LittleEndian.Uint16(b[12:]))
	h.flags = int(binary.LittleEndian.Uint16(b[14:]))
	h.batch = int64(binary.LittleEndian.Uint64(b[16:]))
	h.payloadCRC = binary.LittleEndian.Uint32(b[24:])
	ok := h.first > 0 && h.count > 0 && uint64(h.first)+uint64(h.count)-1 <= model.MaxSeriesID &&
		h.length <= snappy.MaxEncodedLen(blockMaxText) && h.batch <= offset && h.batch >= 0
	return h, ok
}

// unpacker is memory that a block is unpacked in before it is copied: its size
// is not known before, and a flush unpacks all blocks.
type unpacker struct {
	decoder keyblock.Decoder
	text    []byte
	ends    []uint32
}

var unpackers = sync.Pool{New: func() any { return new(unpacker) }}

// decodeBlock checks and unpacks a payload. Errors are ErrCorrupt.
func decodeBlock(h *blockHeader, payload []byte) (*block, error) {
	if binio.Checksum(payload) != h.payloadCRC {
		return nil, binio.Corruptf("", 0, "series block: checksum mismatch")
	}
	if h.flags == blockColumns {
		u := unpackers.Get().(*unpacker)
		defer unpackers.Put(u)
		var err error
		if u.text, u.ends, err = u.decoder.Decode(u.text[:0], u.ends[:0], payload, h.count, blockMaxText); err != nil {
			return nil, err
		}
		return &block{first: h.first, text: string(u.text), ends: slices.Clone(u.ends)}, nil
	}
	if h.flags != blockSnappy {
		return nil, binio.Corruptf("", 0, "series block: flags %d", h.flags)
	}
	n, err := snappy.DecodedLen(payload)
	if err != nil || n > blockMaxText {
		return nil, binio.Corruptf("", 0, "series block: bad length")
	}
	raw, err := snappy.Decode(nil, payload)
	if err != nil {
		return nil, binio.Corruptf("", 0, "series block: %v", err)
	}
	ends := make([]uint32, 0, h.count)
	// First pass: the size of the text, so that it is built in one piece.
	size, prev := 0, 0
	d := binio.NewDecoder(raw)
	for range h.count {
		shared, suffix := d.Uvarint(), d.Count(1)
		d.Bytes(suffix)
		if shared > uint64(prev) {
			d.Fail("shared prefix exceeds key")
		}
		if d.Err() != nil {
			return nil, d.Err()
		}
		prev = int(shared) + suffix
		if prev == 0 || prev > model.MaxKeyLength {
			return nil, binio.Corruptf("", 0, "series block: bad key length %d", prev)
		}
		size += prev
		ends = append(ends, uint32(size))
	}
	if d.Len() != 0 {
		return nil, binio.Corruptf("", 0, "series block: %d bytes left over", d.Len())
	}
	var text strings.Builder
	text.Grow(size)
	d = binio.NewDecoder(raw)
	last := 0
	for range h.count {
		shared, suffix := int(d.Uvarint()), int(d.Uvarint())
		// The builder never reallocates, so a prefix may be copied from itself.
		sofar := text.String()
		text.WriteString(sofar[last : last+shared])
		last = len(sofar)
		text.Write(d.Bytes(suffix))
	}
	return &block{first: h.first, text: text.String(), ends: ends}, nil
}
