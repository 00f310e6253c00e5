package parquet

import (
	"encoding/binary"
	"math/bits"

	"tsdbd/internal/binio"
)

// packer appends numbers of a few bits each, the lowest bit first.
type packer struct {
	dst  []byte
	word uint64
	n    uint // bits of word
}

// add appends the lowest width bits of v; the others are 0.
func (p *packer) add(v uint64, width uint) {
	p.word |= v << p.n
	if p.n += width; p.n < 64 {
		return
	}
	p.dst = binary.LittleEndian.AppendUint64(p.dst, p.word)
	p.n -= 64
	p.word = v >> (width - p.n) // 0 if nothing is left, for shifts of 64 give 0
}

// finish appends the last bytes and returns all.
func (p *packer) finish() []byte {
	for ; p.n > 0; p.n -= min(p.n, 8) {
		p.dst = append(p.dst, byte(p.word))
		p.word >>= 8
	}
	p.word = 0
	return p.dst
}

// appendHybrid appends values of width bits in Parquet's hybrid of run lengths and packed
// bits.
func appendHybrid[T uint8 | uint32](dst []byte, values []T, width int) []byte {
	for i := 0; i < len(values); {
		n := runLength(values[i:])
		if n >= 8 || n == len(values)-i {
			dst = binary.AppendUvarint(dst, uint64(n)<<1)
			for v, w := uint32(values[i]), width; w > 0; w -= 8 {
				dst = append(dst, byte(v))
				v >>= 8
			}
			i += n
			continue
		}
		// Groups of eight up to the next run that is worth it.
		end := i + 8
		for end < len(values) && runLength(values[end:]) < 8 {
			end += 8
		}
		groups := (end - i) / 8
		dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
		p := packer{dst: dst}
		for ; i < end; i++ {
			v := uint64(0)
			if i < len(values) {
				v = uint64(values[i])
			}
			p.add(v, uint(width))
		}
		dst, i = p.finish(), min(end, len(values))
	}
	return dst
}

// runLength returns how many values equal the first.
func runLength[T comparable](values []T) int {
	n := 1
	for n < len(values) && values[n] == values[0] {
		n++
	}
	return n
}

// The blocks of DELTA_BINARY_PACKED.
const (
	deltaBlock = 128
	deltaParts = 4
	deltaPart  = deltaBlock / deltaParts
)

// appendDelta appends one or more integers as DELTA_BINARY_PACKED.
func appendDelta(dst []byte, values []int64) []byte {
	dst = binary.AppendUvarint(dst, deltaBlock)
	dst = binary.AppendUvarint(dst, deltaParts)
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	dst = binary.AppendUvarint(dst, binio.ZigZag(values[0]))
	var deltas [deltaBlock]int64
	for last, rest := values[0], values[1:]; len(rest) > 0; {
		n := min(len(rest), deltaBlock)
		least := rest[0] - last
		for i, v := range rest[:n] {
			deltas[i] = v - last
			least = min(least, deltas[i])
			last = v
		}
		rest = rest[n:]
		dst = binary.AppendUvarint(dst, binio.ZigZag(least))
		widths := len(dst)
		dst = append(dst, make([]byte, deltaParts)...)
		for part := 0; part*deltaPart < n; part++ {
			own := deltas[part*deltaPart : min(n, (part+1)*deltaPart)]
			all := uint64(0)
			for _, d := range own {
				all |= uint64(d - least)
			}
			width := bits.Len64(all)
			dst[widths+part] = byte(width)
			p := packer{dst: dst}
			for i := range deltaPart {
				v := uint64(0)
				if i < len(own) {
					v = uint64(own[i] - least)
				}
				p.add(v, uint(width))
			}
			dst = p.finish()
		}
	}
	return dst
}
