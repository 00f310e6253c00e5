package quantiles

import (
	"encoding/base64"
	"errors"
	"math"
	"slices"

	"github.com/DataDog/sketches-go/ddsketch/encoding"
	"github.com/DataDog/sketches-go/ddsketch/mapping"

	"tsdbd/internal/binio"
)

// Error is how far an estimate is off at most, as a part of the value.
const Error = 0.01

// logarithmic maps values above 0 to bins.
var logarithmic, _ = mapping.NewLogarithmicMapping(Error) // an error is of another Error

// smallest and largest are the bounds of what has bins. Values not above the first count as 0, values
// farther from it as the largest.
var smallest, largest = logarithmic.MinIndexableValue(), logarithmic.MaxIndexableValue()

// zero is what is added to the index of a bin above 0, so that it is above that of 0.
const zero = 1 << 16

// A place is that of a bin in the order of values: 0 is the bin of 0, those of values above it
// are positive.
func placeOf(v float64) int32 {
	switch size := math.Abs(v); {
	case size <= smallest:
		return 0
	case v < 0:
		return -int32(logarithmic.Index(min(size, largest))) - zero
	default:
		return int32(logarithmic.Index(min(size, largest))) + zero
	}
}

// valueOf returns the value that stands for those of a bin.
func valueOf(place int32) float64 {
	switch {
	case place < 0:
		return -logarithmic.Value(int(-place - zero))
	case place == 0:
		return 0
	}
	return logarithmic.Value(int(place - zero))
}

// bin is how many values lie in a bin.
type bin struct {
	place int32
	count uint64
}

const (
	binBytes = 16
	pending  = 512 // values that are gathered before they are sorted in
)

// Sketch holds what is known of the values. The zero value has none.
type Sketch struct {
	bins  []bin   // by place
	fresh []int32 // places of values that bins do not count yet
}

// Add adds a value. One that is no number is left out.
func (s *Sketch) Add(v float64) {
	if v != v {
		return
	}
	if s.fresh = append(s.fresh, placeOf(v)); len(s.fresh) >= pending {
		s.settle()
	}
}

// settle counts the fresh values.
func (s *Sketch) settle() {
	if len(s.fresh) == 0 {
		return
	}
	slices.Sort(s.fresh)
	var more []bin
	if len(s.bins) == 0 {
		more = s.bins
	}
	for _, p := range s.fresh {
		if n := len(more); n > 0 && more[n-1].place == p {
			more[n-1].count++
		} else {
			more = append(more, bin{p, 1})
		}
	}
	s.fresh = s.fresh[:0]
	s.add(more)
}

// add adds bins, which are in order. If there are none yet they become those of s.
func (s *Sketch) add(more []bin) {
	if len(s.bins) == 0 {
		s.bins = more
		return
	}
	both, i := 0, 0 // places that both have
	for _, b := range more {
		for i < len(s.bins) && s.bins[i].place < b.place {
			i++
		}
		if i < len(s.bins) && s.bins[i].place == b.place {
			both++
		}
	}
	// From the last on, so that no bin of s is written over before it has moved.
	i, k := len(s.bins)-1, len(more)-1
	s.bins = slices.Grow(s.bins, len(more)-both)[:len(s.bins)+len(more)-both]
	for at := len(s.bins) - 1; k >= 0; at-- {
		switch {
		case i >= 0 && s.bins[i].place > more[k].place:
			s.bins[at] = s.bins[i]
			i--
		case i >= 0 && s.bins[i].place == more[k].place:
			s.bins[at] = bin{more[k].place, min(s.bins[i].count+more[k].count, most)}
			i--
			k--
		default:
			s.bins[at] = more[k]
			k--
		}
	}
}

// Merge adds the values of o, which it changes in nothing but their form.
func (s *Sketch) Merge(o *Sketch) {
	s.settle()
	o.settle()
	if len(s.bins) == 0 {
		s.bins = slices.Clone(o.bins)
		return
	}
	s.add(o.bins)
}

// Bytes returns the memory of the sketch.
func (s *Sketch) Bytes() int64 { return binBytes*int64(cap(s.bins)) + 4*int64(cap(s.fresh)) }

// Count returns the number of values.
func (s *Sketch) Count() (n uint64) {
	s.settle()
	for _, b := range s.bins {
		n += b.count
	}
	return n
}

// At estimates the value of a rank, counted from 0. There is at least one value.
func (s *Sketch) At(rank uint64) float64 {
	s.settle()
	for _, b := range s.bins {
		if rank < b.count {
			return valueOf(b.place)
		}
		rank -= b.count
	}
	return valueOf(s.bins[len(s.bins)-1].place)
}

// The text of a sketch is prefix and, in base64: a version, which stands for the mapping, and the
// blocks of DDSketch for the bins of values below 0, from 0 on downwards, for the count of
// zeros, and for the bins of values above 0. Each block is there if there are such values.
const (
	prefix  = "DDS_"
	version = 1
	most    = 1 << 44 // values of a text, and of a bin: those of all bins fit into 64 bits
)

var (
	negative = encoding.NewFlag(encoding.FlagTypeNegativeStore, encoding.BinEncodingIndexDeltasAndCounts)
	positive = encoding.NewFlag(encoding.FlagTypePositiveStore, encoding.BinEncodingIndexDeltasAndCounts)
	negOnes  = encoding.NewFlag(encoding.FlagTypeNegativeStore, encoding.BinEncodingIndexDeltas)
	posOnes  = encoding.NewFlag(encoding.FlagTypePositiveStore, encoding.BinEncodingIndexDeltas)
)

// Text returns the sketch as text. It has at least one value.
func (s *Sketch) Text() string {
	s.settle()
	from, _ := slices.BinarySearchFunc(s.bins, 0, func(b bin, place int32) int { return int(b.place - place) })
	below, above := slices.Clone(s.bins[:from]), s.bins[from:]
	slices.Reverse(below)
	for i := range below {
		below[i].place = -below[i].place
	}
	b := appendBins([]byte{version}, below, negative, negOnes)
	if len(above) > 0 && above[0].place == 0 {
		encoding.EncodeFlag(&b, encoding.FlagZeroCountVarFloat)
		encoding.EncodeVarfloat64(&b, float64(above[0].count))
		above = above[1:]
	}
	return prefix + base64.StdEncoding.EncodeToString(appendBins(b, above, positive, posOnes))
}

// appendBins appends the block of bins of places above 0, with a flag for any counts or one
// for counts that are all 1.
func appendBins(dst []byte, bins []bin, counted, ones encoding.Flag) []byte {
	if len(bins) == 0 {
		return dst
	}
	flag := counted
	if !slices.ContainsFunc(bins, func(b bin) bool { return b.count != 1 }) {
		flag = ones
	}
	encoding.EncodeFlag(&dst, flag)
	encoding.EncodeUvarint64(&dst, uint64(len(bins)))
	last := int64(zero)
	for _, b := range bins {
		encoding.EncodeVarint64(&dst, int64(b.place)-last)
		if flag == counted {
			encoding.EncodeVarfloat64(&dst, float64(b.count))
		}
		last = int64(b.place)
	}
	return dst
}

var errText = errors.New("not the text of a sketch of quantiles")

// Parse returns the sketch of a text.
func Parse(text string) (*Sketch, error) {
	if len(text) < len(prefix) || text[:len(prefix)] != prefix {
		return nil, errText
	}
	b, err := base64.StdEncoding.DecodeString(text[len(prefix):])
	if err == nil && len(b) > 0 && b[0] > version {
		return nil, binio.CheckVersion("", "sketch of quantiles", uint64(b[0]), version)
	}
	if err != nil || len(b) == 0 || b[0] != version {
		return nil, errText
	}
	s := &Sketch{}
	for b = b[1:]; len(b) > 0; {
		flag, _ := encoding.DecodeFlag(&b)
		var ok bool
		switch flag {
		case negative, negOnes:
			ok = len(s.bins) == 0 && s.parseBins(&b, flag == negOnes)
			slices.Reverse(s.bins)
			for i := range s.bins {
				s.bins[i].place = -s.bins[i].place
			}
		case encoding.FlagZeroCountVarFloat:
			var n float64
			if n, err = encoding.DecodeVarfloat64(&b); err == nil {
				ok = s.parsed(0, n)
			}
		case positive, posOnes:
			ok = s.parseBins(&b, flag == posOnes)
		}
		if !ok {
			return nil, errText
		}
	}
	if n := s.Count(); n == 0 || n > most {
		return nil, errText
	}
	return s, nil
}

// parseBins reads what appendBins writes behind the flag. Its places are above 0, so they are
// behind all that s has.
func (s *Sketch) parseBins(b *[]byte, ones bool) bool {
	n, err := encoding.DecodeUvarint64(b)
	if err != nil || n == 0 || n > uint64(len(*b)) {
		return false
	}
	s.bins = slices.Grow(s.bins, int(n))
	for last := int64(zero); n > 0; n-- {
		delta, err := encoding.DecodeVarint32(b)
		count := 1.0
		if err == nil && !ones {
			count, err = encoding.DecodeVarfloat64(b)
		}
		last += int64(delta)
		if err != nil || last <= 0 || last > lastPlace || !s.parsed(int32(last), count) {
			return false
		}
	}
	return true
}

// lastPlace is that of the largest values.
var lastPlace = int64(placeOf(largest))

// parsed appends a bin, and reports whether it can follow those before it.
func (s *Sketch) parsed(place int32, count float64) bool {
	if n := len(s.bins); n > 0 && s.bins[n-1].place >= place || !(count >= 1 && count <= most) || count != math.Trunc(count) {
		return false
	}
	s.bins = append(s.bins, bin{place, uint64(count)})
	return true
}
