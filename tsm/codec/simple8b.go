package codec

import (
	"encoding/binary"

	"github.com/jwilder/encoding/simple8b"

	"tsdbd/internal/binio"
)

// A Simple-8b block has the header of a frame without exceptions, then the
// words, big-endian. The offsets are written with bit 0 flipped: the words for
// 120 and 240 equal values mean ones, and the common offset is zero.
//
// The batch decoder of the module takes each word for room of 240 values, so the
// values are counted first, and the last words are decoded where there is room
// beyond them. Bit 0 is flipped back in the words, where one operation does it
// for all values of a word; words of 240 and 120 ones become zeros here.

// simple8Words is, by selector, the number of values of a word and a bit for
// bit 0 of each of them.
var simple8Words = func() (t [16]struct {
	count int
	bits  uint64
},
) {
	t[0].count, t[1].count = 240, 120
	for i, count := range [...]int{60, 30, 20, 15, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1} {
		t[i+2].count = count
		for k := range count {
			t[i+2].bits |= 1 << (60 / count * k)
		}
	}
	return t
}()

// simple8Milli is 64000 over the number of values of a given width in a word.
// The words for 240 and 120 values are left out: the encoder uses them at the
// end of a block only.
var simple8Milli = func() (m [65]int64) {
	per := [...]struct{ width, count int }{{1, 60}, {2, 30}, {3, 20}, {4, 15}, {5, 12}, {6, 10}, {7, 8}, {8, 7}, {10, 6}, {12, 5}, {15, 4}, {20, 3}, {30, 2}, {60, 1}}
	w := 0
	for _, p := range per {
		for ; w <= p.width; w++ {
			m[w] = 64000 / int64(p.count)
		}
	}
	for ; w <= 64; w++ {
		m[w] = simple8Never
	}
	return m
}()

// simple8Never is for a width that cannot be written: a value of it in a
// sample makes the bound larger than any cost.
const simple8Never = 1 << 40

const (
	// simple8Room is how many values the batch decoder takes each word for.
	simple8Room = 240

	simple8Sample = 64
	simple8Window = 60
)

// simple8Promises reports whether q seems to take no more than limit bits in
// Simple-8b words: first by a bound from a sample, each value in the densest
// word for its width, then, if that is not far below, by encoding two stretches.
func simple8Promises(q []uint64, limit int) bool {
	bound, count := int64(0), int64(0)
	for i := 0; i < len(q); i += (len(q) + simple8Sample - 1) / simple8Sample {
		bound += simple8Milli[width(q[i])]
		count++
	}
	if bound/count*int64(len(q))/1000 > int64(limit) {
		return false
	}
	if len(q) < 4*simple8Window || bound/count*int64(len(q))/1000 < int64(limit/8*7) {
		return true
	}
	var w [2 * simple8Window]uint64
	for i := range simple8Window {
		w[i] = q[len(q)/4+i] ^ 1
		w[simple8Window+i] = q[len(q)*3/4+i] ^ 1
	}
	enc, err := simple8b.EncodeAll(w[:])
	return err == nil && 64*len(enc)*len(q)/len(w) <= limit
}

// appendSimple8 appends q if that takes no more than limit bytes besides the
// header. It leaves q alone.
func appendSimple8(dst []byte, f *frame, q []uint64, limit int) ([]byte, bool) {
	s := longPool.Get().(*longScratch)
	defer longPool.Put(s)
	w := s[:len(q)]
	for i, x := range q {
		w[i] = x ^ 1
	}
	enc, err := simple8b.EncodeAll(w)
	if err != nil || len(enc)*8 > limit {
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
	if d.Err() != nil || len(enc)%8 != 0 || len(enc) > 8*len(q) || f.exceptions > 0 || f.width > 0 {
		return f, corrupt("simple8b words")
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	src := s.a[:len(enc)/8]
	// Words from number from on are still to be decoded, to q[at:]; those below
	// direct have room behind them in q; count is the values of all words so far.
	from, at, direct, count := 0, 0, 0, 0
	for i := range src {
		u := binary.BigEndian.Uint64(enc[8*i:])
		w := &simple8Words[u>>60]
		src[i] = u ^ w.bits
		if count+simple8Room <= len(q) {
			direct = i + 1
		}
		if count += w.count; count > len(q) {
			return f, corrupt("simple8b words")
		}
		if u>>60 < 2 {
			if err := decodeSimple8Words(q[at:], src[from:i], direct-from); err != nil {
				return f, err
			}
			from, at = i+1, count
			clear(q[count-w.count : count])
		}
	}
	if count != len(q) {
		return f, corrupt("simple8b words")
	}
	return f, decodeSimple8Words(q[at:], src[from:], direct-from)
}

// decodeSimple8Words decodes words whose values fit in dst, so many of them
// where simple8Room values fit from each on.
func decodeSimple8Words(dst, src []uint64, direct int) error {
	if direct = min(max(direct, 0), len(src)); direct > 0 {
		n, err := simple8b.DecodeAll(dst, src[:direct])
		if err != nil {
			return corrupt(err.Error())
		}
		dst, src = dst[n:], src[direct:]
	}
	if len(src) == 0 {
		return nil
	}
	s := longPool.Get().(*longScratch)
	defer longPool.Put(s)
	n, err := simple8b.DecodeAll(s[:], src)
	if err != nil {
		return corrupt(err.Error())
	}
	copy(dst, s[:n])
	return nil
}
