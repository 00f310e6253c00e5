package series

import (
	"encoding/binary"
	"slices"
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

// The flags of a block are the form of its keys: 0 for Snappy, 1 for columns.
const firstForm = keyblock.Snappy

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

// appendBlock appends a block for the keys of ids first, first+1, ...
// that will be at offset in the log.
func appendBlock(dst []byte, offset, batch int64, first uint32, keys []string, packer *keyblock.Packer) []byte {
	packer.NoPlain = true
	form, payload := packer.Pack(keys)
	start := len(dst)
	dst = append(dst, blockMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.LittleEndian.AppendUint32(dst, first)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(keys)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(form-firstForm))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(batch))
	dst = binary.LittleEndian.AppendUint32(dst, binio.Checksum(payload))
	dst = binary.LittleEndian.AppendUint32(dst, binio.PlacedChecksum(offset, dst[start:]))
	return append(dst, payload...)
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

// pages is memory that blocks are unpacked in before they are copied: their size
// is not known before, and a flush unpacks all blocks.
var pages = sync.Pool{New: func() any { return new(keyblock.Page) }}

// decodeBlock checks and unpacks a payload. Errors are ErrCorrupt.
func decodeBlock(h *blockHeader, payload []byte) (*block, error) {
	if binio.Checksum(payload) != h.payloadCRC {
		return nil, binio.Corruptf("", 0, "series block: checksum mismatch")
	}
	if h.flags > int(keyblock.Columns-firstForm) {
		return nil, binio.Corruptf("", 0, "series block: flags %d", h.flags)
	}
	p := pages.Get().(*keyblock.Page)
	defer pages.Put(p)
	if err := p.Unpack(firstForm+keyblock.Form(h.flags), payload, h.count, blockMaxText); err != nil {
		return nil, err
	}
	return &block{first: h.first, text: string(p.Text), ends: slices.Clone(p.Ends)}, nil
}
