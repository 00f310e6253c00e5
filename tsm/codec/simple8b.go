package codec

import (
	"encoding/binary"

	"github.com/jwilder/encoding/simple8b"

	"tsdbd/internal/binio"
)

// A Simple-8b block has the header of a frame without exceptions, then the
// words, big-endian. The offsets are written with bit 0 flipped: the words for
// 120 and 240 equal values stand for ones, and the common offset is zero.
//
// The batch decoder of the module writes 240 values at a time without a check,
// so the values are counted first and the destination has room beyond them.

// simple8Milli is 64000 over the number of values of a given width in a word.
// The words for 240 and 120 values are left out: the encoder uses them at the
// end of a block only.
var simple8Milli = func() (m [65]int) {
	per := [...]struct{ width, count int }{{1, 60}, {2, 30}, {3, 20}, {4, 15}, {5, 12}, {6, 10}, {7, 8}, {8, 7}, {10, 6}, {12, 5}, {15, 4}, {20, 3}, {30, 2}, {60, 1}}
	w := 0
	for _, p := range per {
		for ; w <= p.width; w++ {
			m[w] = 64000 / p.count
		}
	}
	for ; w <= 64; w++ {
		m[w] = 1 << 40 // cannot be written
	}
	return m
}()

const (
	simple8Sample = 64
	simple8Window = 60
)

// simple8Promises reports whether q seems to take less than cost bits in
// Simple-8b words: first by a bound from a sample, each value in the densest
// word for its width, then by encoding two stretches.
func simple8Promises(q []uint64, cost int) bool {
	if len(q) < 4*simple8Window {
		return false
	}
	bound, count := 0, 0
	for i := 0; i < len(q); i += len(q) / simple8Sample {
		bound += simple8Milli[width(q[i])]
		count++
	}
	if bound/count*len(q)/1000 > cost/16*15 {
		return false
	}
	var w [2 * simple8Window]uint64
	for i := range simple8Window {
		w[i] = q[len(q)/4+i] ^ 1
		w[simple8Window+i] = q[len(q)*3/4+i] ^ 1
	}
	enc, err := simple8b.EncodeAll(w[:])
	return err == nil && 64*len(enc)*len(q)/len(w) < cost/16*15
}

// appendSimple8 appends q if that takes less than limit bytes besides the
// header. It leaves q alone.
func appendSimple8(dst []byte, f *frame, q []uint64, limit int) ([]byte, bool) {
	s := longPool.Get().(*longScratch)
	defer longPool.Put(s)
	w := s[:len(q)]
	for i, x := range q {
		w[i] = x ^ 1
	}
	enc, err := simple8b.EncodeAll(w)
	if err != nil || len(enc)*8 >= limit {
		return dst, false
	}
	h := *f
	h.width = 0
	dst = h.appendHeader(dst, encSimple8)
	for _, x := range enc {
		dst = binary.BigEndian.AppendUint64(dst, x)
	}
	return dst, true
}

func decodeSimple8(dst []uint64, block []byte) error {
	f, err := readSimple8(dst, block)
	if err != nil {
		return err
	}
	f.restore(dst, nil)
	return nil
}

// readSimple8 fills dst with the offsets of a Simple-8b block, from
// dst[f.lead()] on.
func readSimple8(dst []uint64, block []byte) (frame, error) {
	d := binio.NewDecoder(block)
	var f frame
	if err := f.read(&d, len(dst)); err != nil {
		return f, err
	}
	q := f.offsets(dst)
	enc := d.Bytes(d.Len())
	count, err := simple8b.CountBytes(enc)
	if err != nil || count != len(q) || f.exceptions > 0 || f.width > 0 {
		return f, corrupt("simple8b words")
	}
	s := longPool.Get().(*longScratch)
	defer longPool.Put(s)
	in := wordPool.Get().(*wordScratch)
	defer wordPool.Put(in)
	src := in.a[:len(enc)/8]
	for i := range src {
		src[i] = binary.BigEndian.Uint64(enc[8*i:])
	}
	if _, err := simple8b.DecodeAll(s[:], src); err != nil {
		return f, corrupt(err.Error())
	}
	for i := range q {
		q[i] = s[i] ^ 1
	}
	return f, nil
}
