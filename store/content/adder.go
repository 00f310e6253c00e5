package content

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"tsdbd/model"
	"tsdbd/model/column"
)

// adder adds points in any order: each is hashed to two words, which are added.
type adder struct {
	low, high uint64
	values    int64
}

func (a *adder) sum() (s Sum) {
	binary.BigEndian.PutUint64(s[:], a.high)
	binary.BigEndian.PutUint64(s[8:], a.low)
	return s
}

// seed is the hash of a series, a field and its type.
type seed struct{ low, high uint64 }

// Odd constants without a pattern, as wyhash has them.
const (
	mixA = 0xa0761d6478bd642f
	mixB = 0xe7037ed1a0b428db
	mixC = 0x8ebc6af09c88c6e3
	mixD = 0x589965cc75374cc3
)

func newSeed(key string, f column.Field) seed {
	k, n := xxhash.Sum64String(key), xxhash.Sum64String(f.Key)
	return seed{
		low:  mix(mix(k^mixA, n^mixB)^uint64(f.Type), mixC^uint64(len(key))),
		high: mix(mix(k^mixC, n^mixD)^uint64(f.Type), mixB^uint64(len(key))),
	}
}

// mix folds the product of two words.
func mix(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return hi ^ lo
}

// add adds a point.
func (a *adder) add(s seed, time int64, value uint64) {
	t := uint64(time)
	a.low += mix(mix(s.low^t, mixA)^value, s.high|1)
	a.high += mix(mix(s.high^t, mixC)^value, s.low|1)
	a.values++
}

// column adds the points of a column.
func (a *adder) column(s seed, times []int64, v *column.Vector) {
	for i, t := range times {
		if !v.IsValid(i) {
			continue
		}
		switch v.Type {
		case model.Float:
			a.add(s, t, math.Float64bits(v.Floats[i]))
		case model.Integer:
			a.add(s, t, uint64(v.Ints[i]))
		case model.Unsigned:
			a.add(s, t, v.Uints[i])
		case model.Boolean:
			word := uint64(0)
			if v.Bools[i] {
				word = 1
			}
			a.add(s, t, word)
		case model.String:
			a.add(s, t, xxhash.Sum64String(v.Strings[i]))
		}
	}
}
