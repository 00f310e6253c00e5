package codec

import (
	"encoding/binary"
	"testing"

	"github.com/dgryski/go-tsz"
	"github.com/jwilder/encoding/simple8b"
)

const benchBlocks, benchValues = 64, 1000

// benchBoth measures one data set: 64 different blocks of 1000 values.
func benchBoth[T any](b *testing.B, name string, make func(seed uint64) []T, enc func([]byte, []T) []byte, dec func([]T, []byte, int) ([]T, error)) {
	var sets [benchBlocks][]T
	var blocks [benchBlocks][]byte
	size := 0
	for i := range sets {
		sets[i] = make(uint64(i))
		blocks[i] = enc(nil, sets[i])
		size += len(blocks[i])
	}
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchValues, "ns/value")
		b.ReportMetric(float64(size)/(benchBlocks*benchValues), "B/value")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("encode/"+name, func(b *testing.B) {
		var dst []byte
		for i := 0; b.Loop(); i++ {
			dst = enc(dst[:0], sets[i%benchBlocks])
		}
		report(b)
	})
	b.Run("decode/"+name, func(b *testing.B) {
		var dst []T
		for i := 0; b.Loop(); i++ {
			var err error
			if dst, err = dec(dst[:0], blocks[i%benchBlocks], benchValues); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
}

func BenchmarkTimes(b *testing.B) {
	for _, set := range timeSets {
		benchBoth(b, set.name, func(s uint64) []int64 { return set.make(seeded(s), benchValues) }, AppendTimes, DecodeTimes)
	}
}

func BenchmarkIntegers(b *testing.B) {
	for _, set := range intSets {
		benchBoth(b, set.name, func(s uint64) []int64 { return set.make(seeded(s), benchValues) }, AppendIntegers, DecodeIntegers)
	}
}

func BenchmarkFloats(b *testing.B) {
	for _, set := range floatSets {
		benchBoth(b, set.name, func(s uint64) []float64 { return set.make(seeded(s), benchValues) }, AppendFloats, DecodeFloats)
	}
}

// BenchmarkDense decodes the dense forms; encoding is from the values.
func BenchmarkDense(b *testing.B) {
	for _, set := range intSets {
		if _, name := bytesPerValue(func(s uint64) []int64 { return set.make(seeded(s), benchValues) }, dense(AppendIntegers)); name == "rice" {
			benchBoth(b, set.name, func(s uint64) []int64 { return set.make(seeded(s), benchValues) }, dense(AppendIntegers), DecodeIntegers)
		}
	}
	for _, set := range floatSets {
		if _, name := bytesPerValue(func(s uint64) []float64 { return set.make(seeded(s), benchValues) }, dense(AppendFloats)); name == "quotient" || name == "alp-rd" {
			benchBoth(b, set.name, func(s uint64) []float64 { return set.make(seeded(s), benchValues) }, dense(AppendFloats), DecodeFloats)
		}
	}
}

func BenchmarkStrings(b *testing.B) {
	for _, set := range stringSets {
		benchBoth(b, set.name, func(s uint64) []string { return set.make(seeded(s), benchValues) }, AppendStrings, DecodeStrings)
	}
}

func BenchmarkBooleans(b *testing.B) {
	for name, every := range map[string]int{"half": 2, "2%": 50} {
		benchBoth(b, name, func(s uint64) []bool {
			rng, v := seeded(s), make([]bool, benchValues)
			for i := range v {
				v[i] = rng.IntN(every) == 0
			}
			return v
		}, AppendBooleans, DecodeBooleans)
	}
}

// BenchmarkGorilla forces the Gorilla form on every float set.
func BenchmarkGorilla(b *testing.B) {
	for _, set := range floatSets {
		benchBoth(b, set.name, func(s uint64) []float64 { return set.make(seeded(s), benchValues) },
			func(dst []byte, v []float64) []byte {
				dst, _ = appendGorilla(dst, words(v), 16+10*len(v))
				return dst
			}, DecodeFloats)
	}
}

// BenchmarkReferenceTSZ is go-tsz, timestamps at 10 s included. Its iterator
// shifts its input in place, hence the copy.
func BenchmarkReferenceTSZ(b *testing.B) {
	for _, set := range floatSets {
		benchBoth(b, set.name, func(s uint64) []float64 { return set.make(seeded(s), benchValues) },
			func(dst []byte, v []float64) []byte {
				s := tsz.New(1_700_000_000)
				for i, x := range v {
					s.Push(uint32(1_700_000_000+10*i), x)
				}
				s.Finish()
				return append(dst, s.Bytes()...)
			},
			func(dst []float64, block []byte, n int) ([]float64, error) {
				it, err := tsz.NewIterator(append([]byte(nil), block...))
				if err != nil {
					return dst, err
				}
				for it.Next() {
					_, x := it.Values()
					dst = append(dst, x)
				}
				return dst, it.Err()
			})
	}
}

// BenchmarkReferenceSimple8b is the module's batch interface over zigzag deltas.
func BenchmarkReferenceSimple8b(b *testing.B) {
	work := make([]uint64, benchValues+240)
	for _, set := range append(timeSets[:4:4], intSets[:6]...) {
		benchBoth(b, set.name, func(s uint64) []int64 { return set.make(seeded(s), benchValues) },
			func(dst []byte, v []int64) []byte {
				prev := v[0]
				for i, x := range v {
					work[i] = uint64((x-prev)<<1 ^ (x-prev)>>63)
					prev = x
				}
				enc, err := simple8b.EncodeAll(work[:len(v)])
				if err != nil {
					panic(err)
				}
				dst = binary.LittleEndian.AppendUint64(dst, uint64(v[0]))
				for _, x := range enc {
					dst = binary.BigEndian.AppendUint64(dst, x)
				}
				return dst
			},
			func(dst []int64, block []byte, n int) ([]int64, error) {
				src := make([]uint64, len(block)/8-1)
				x := int64(binary.LittleEndian.Uint64(block))
				for i := range src {
					src[i] = binary.BigEndian.Uint64(block[8+8*i:])
				}
				if _, err := simple8b.DecodeAll(work, src); err != nil {
					return dst, err
				}
				for _, u := range work[:n] {
					x += int64(u>>1) ^ -int64(u&1)
					dst = append(dst, x)
				}
				return dst, nil
			})
	}
}

// BenchmarkShort measures blocks of 3 values, as many series with few points
// have them.
func BenchmarkShort(b *testing.B) {
	v, w := []float64{20.1, 20.3, 20.2}, []int64{5, 7, 6}
	b.Run("encode/floats", func(b *testing.B) {
		var dst []byte
		for b.Loop() {
			dst = AppendFloats(dst[:0], v)
		}
		b.ReportMetric(float64(len(dst)), "B/block")
	})
	b.Run("decode/floats", func(b *testing.B) {
		block := AppendFloats(nil, v)
		var dst []float64
		for b.Loop() {
			dst, _ = DecodeFloats(dst[:0], block, 3)
		}
	})
	b.Run("encode/integers", func(b *testing.B) {
		var dst []byte
		for b.Loop() {
			dst = AppendIntegers(dst[:0], w)
		}
		b.ReportMetric(float64(len(dst)), "B/block")
	})
	b.Run("decode/integers", func(b *testing.B) {
		block := AppendIntegers(nil, w)
		var dst []int64
		for b.Loop() {
			dst, _ = DecodeIntegers(dst[:0], block, 3)
		}
	})
}
