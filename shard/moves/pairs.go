package moves

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// Pairs are the sources of a move, each with its target. A source has one target; a
// target may have several sources, in the order of their keys.
type Pairs struct {
	runs     []run    // ascending by to, and the sources of one target in their order
	byFrom   []uint32 // runs, ascending by from
	sources  *roaring.Bitmap
	involved *roaring.Bitmap // sources and targets
}

// run is n pairs: from, from+1, ... with to, to+step, ...
type run struct {
	to, from, n uint32
	step        uint32 // 0 or 1
}

func (r *run) last() uint32 { return r.to + r.step*(r.n-1) }

// runBytes is about what a run takes in memory.
const runBytes = 24

// Bytes returns about what the pairs take in memory.
func (p *Pairs) Bytes() int64 {
	return int64(len(p.runs))*runBytes + int64(p.sources.GetSizeInBytes()+p.involved.GetSizeInBytes())
}

// Len returns the number of sources.
func (p *Pairs) Len() int { return int(p.sources.GetCardinality()) }

// Sources returns the set of the sources, which must not be changed.
func (p *Pairs) Sources() *roaring.Bitmap { return p.sources }

// Targets returns the set of the targets. The caller owns it.
func (p *Pairs) Targets() *roaring.Bitmap {
	set := roaring.New()
	for i := range p.runs {
		set.AddRange(uint64(p.runs[i].to), uint64(p.runs[i].last())+1)
	}
	return set
}

// Targets returns the set of the targets of moves. The caller owns it.
func Targets(list []*Move) *roaring.Bitmap {
	set := roaring.New()
	for _, m := range list {
		set.Or(m.Pairs.Targets())
	}
	return set
}

// To returns the target of a source.
func (p *Pairs) To(from model.SeriesID) (model.SeriesID, bool) {
	i := sort.Search(len(p.byFrom), func(i int) bool { return p.runs[p.byFrom[i]].from > uint32(from) }) - 1
	if i < 0 {
		return 0, false
	}
	r := &p.runs[p.byFrom[i]]
	d := uint32(from) - r.from
	if d >= r.n {
		return 0, false
	}
	return model.SeriesID(r.to + r.step*d), true
}

// From calls fn with the sources of a target, in the order of their keys, until fn returns
// false. It then returns false.
func (p *Pairs) From(to model.SeriesID, fn func(from model.SeriesID) bool) bool {
	i := sort.Search(len(p.runs), func(i int) bool { return p.runs[i].last() >= uint32(to) })
	for ; i < len(p.runs) && p.runs[i].to <= uint32(to); i++ {
		r := &p.runs[i]
		if r.step == 1 {
			if !fn(model.SeriesID(r.from + uint32(to) - r.to)) {
				return false
			}
			continue
		}
		for k := range r.n {
			if !fn(model.SeriesID(r.from + k)) {
				return false
			}
		}
	}
	return true
}

// All calls fn with each pair, ascending by source.
func (p *Pairs) All(fn func(from, to model.SeriesID) error) error {
	for _, i := range p.byFrom {
		r := &p.runs[i]
		for k := range r.n {
			if err := fn(model.SeriesID(r.from+k), model.SeriesID(r.to+r.step*k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Only returns the pairs whose sources are in set.
func (p *Pairs) Only(set *roaring.Bitmap) *Pairs {
	if set.AndCardinality(p.sources) == p.sources.GetCardinality() {
		return p
	}
	var b Builder
	for i := range p.runs {
		r := &p.runs[i]
		it := set.Iterator()
		for it.AdvanceIfNeeded(r.from); it.HasNext(); {
			k := it.Next() - r.from
			if k >= r.n {
				break
			}
			b.Add(model.SeriesID(r.from+k), model.SeriesID(r.to+r.step*k))
		}
	}
	q, err := b.Pairs()
	if err != nil {
		return p // not for a part of what is sound
	}
	return q
}

// Builder makes Pairs. The zero value is empty.
type Builder struct{ runs []run }

// Add adds a pair. Pairs come ascending by target, those of one target in the order of
// the keys of their sources.
func (b *Builder) Add(from, to model.SeriesID) {
	if n := len(b.runs); n > 0 {
		r := &b.runs[n-1]
		if uint32(from) == r.from+r.n {
			step := uint32(to) - r.last()
			if step <= 1 && (r.n == 1 || step == r.step) {
				r.n, r.step = r.n+1, step
				return
			}
		}
	}
	b.runs = append(b.runs, run{to: uint32(to), from: uint32(from), n: 1})
}

var errPairs = errors.New("pairs of series are out of order")

// Pairs returns what was added, or an error if a source comes twice or is its own
// target, or targets do not ascend.
func (b *Builder) Pairs() (*Pairs, error) {
	p := &Pairs{runs: slices.Clip(b.runs), sources: roaring.New(), involved: roaring.New()}
	p.byFrom = make([]uint32, len(p.runs))
	last := uint32(0)
	for i := range p.runs {
		r := &p.runs[i]
		if r.to == 0 || r.from == 0 || r.to < last || r.from == r.to {
			return nil, errPairs
		}
		last = r.last()
		p.byFrom[i] = uint32(i)
		p.sources.AddRange(uint64(r.from), uint64(r.from)+uint64(r.n))
		p.involved.AddRange(uint64(r.to), uint64(last)+1)
		if r.step == 0 && r.to > r.from && r.to-r.from < r.n {
			return nil, errPairs
		}
	}
	slices.SortFunc(p.byFrom, func(a, b uint32) int { return cmp.Compare(p.runs[a].from, p.runs[b].from) })
	for i := 1; i < len(p.byFrom); i++ {
		if a, b := &p.runs[p.byFrom[i-1]], &p.runs[p.byFrom[i]]; b.from-a.from < a.n {
			return nil, errPairs
		}
	}
	p.involved.Or(p.sources)
	p.sources.RunOptimize()
	p.involved.RunOptimize()
	return p, nil
}

// appendPairs appends the encoded pairs:
//
//	runs uv, then per run: to uv, less the last target of the run before,
//	                       from zv, less the source behind the run before,
//	                       2 n + step uv
func appendPairs(dst []byte, p *Pairs) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p.runs)))
	to, from := uint32(0), uint32(0)
	for i := range p.runs {
		r := &p.runs[i]
		dst = binary.AppendUvarint(dst, uint64(r.to-to))
		dst = binary.AppendUvarint(dst, binio.ZigZag(int64(r.from)-int64(from)))
		dst = binary.AppendUvarint(dst, uint64(r.n)<<1|uint64(r.step))
		to, from = r.last(), r.from+r.n
	}
	return dst
}

func decodePairs(d *binio.Decoder) *Pairs {
	var b Builder
	n := d.Count(3)
	b.runs = make([]run, 0, n)
	to, from := uint64(0), int64(0)
	for range n {
		to += d.Uvarint()
		from += d.Varint()
		w := d.Uvarint()
		step, n := w&1, w>>1
		if to > math.MaxUint32 || from < 0 || from > math.MaxUint32 || n == 0 || n > math.MaxUint32 ||
			uint64(from)+n-1 > math.MaxUint32 || to+step*(n-1) > math.MaxUint32 || n == 1 && step == 1 {
			d.Fail("series out of range")
		}
		if d.Err() != nil {
			return nil
		}
		b.runs = append(b.runs, run{to: uint32(to), from: uint32(from), n: uint32(n), step: uint32(step)})
		to, from = to+step*(n-1), int64(uint32(from)+uint32(n))
	}
	p, err := b.Pairs()
	if err != nil {
		d.Fail(err.Error())
	}
	return p
}
