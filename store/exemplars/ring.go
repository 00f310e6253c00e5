package exemplars

import (
	"cmp"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// Exemplar is an exemplar of a series of a database. One without a series is removed.
type Exemplar struct {
	Database uint32
	Series   model.SeriesID
	Time     int64 // ms since the epoch
	Value    float64
	Labels   string
}

// order compares two exemplars of a series.
func (e *Exemplar) order(other *Exemplar) int {
	return cmp.Or(cmp.Compare(e.Time, other.Time), cmp.Compare(e.Value, other.Value), cmp.Compare(e.Labels, other.Labels))
}

func (e *Exemplar) place() uint64 { return uint64(e.Database)<<32 | uint64(e.Series) }

// Overhead is what an exemplar takes in addition to its labels: itself, and its part of
// the map.
const Overhead = 128

func (e *Exemplar) bytes() int64 { return Overhead + int64(len(e.Labels)) }

// Ring has the latest exemplars.
type Ring struct {
	most      int
	mostBytes int64
	bytes     atomic.Int64 // changes with mu held

	mu struct {
		sync.RWMutex
		all    []Exemplar       // nil until the first
		oldest int              // place of the oldest one
		count  int              // places that are used
		kept   int              // those that are not removed
		newest map[uint64]int32 // of each series: its place
	}
}

// New returns a ring of up to so many exemplars, which take up to so many bytes. 0
// exemplars: the ring stays empty.
func New(most int, mostBytes int64) *Ring {
	r := &Ring{most: max(0, min(most, int(mostBytes/Overhead))), mostBytes: mostBytes}
	r.mu.newest = map[uint64]int32{}
	return r
}

// Most returns how many exemplars the ring takes.
func (r *Ring) Most() int { return r.most }

// Bytes returns how many bytes the exemplars take. Every write asks, so it takes no lock.
func (r *Ring) Bytes() int64 { return r.bytes.Load() }

// Held returns how many exemplars the ring has, and how many bytes they take.
func (r *Ring) Held() (n int, bytes int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.mu.kept, r.bytes.Load()
}

// Fresh returns those of a list that are newer than what the ring has of their series, and
// how many others are repeated, and how many are older.
func (r *Ring) Fresh(list []Exemplar) (fresh []Exemplar, repeated, older int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	last := map[uint64]*Exemplar{}
	for i := range list {
		e := &list[i]
		before := last[e.place()]
		if at, ok := r.mu.newest[e.place()]; ok && before == nil {
			before = &r.mu.all[at]
		}
		if before != nil {
			if c := e.order(before); c == 0 {
				repeated++
				continue
			} else if c < 0 {
				older++
				continue
			}
		}
		last[e.place()] = e
		fresh = append(fresh, *e)
	}
	return fresh, repeated, older
}

// Append appends the payload of a log entry of exemplars (zv = zigzag varint):
//
//	per exemplar: series uv, time zv, value u64, labels uv length, bytes
func Append(dst []byte, list []Exemplar) []byte {
	for i := range list {
		e := &list[i]
		dst = binary.AppendUvarint(dst, uint64(e.Series))
		dst = binary.AppendUvarint(dst, binio.ZigZag(e.Time))
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(e.Value))
		dst = binary.AppendUvarint(dst, uint64(len(e.Labels)))
		dst = append(dst, e.Labels...)
	}
	return dst
}

// Apply puts a payload into the ring. What is not newer than the ring has of its series
// is left out.
func (r *Ring) Apply(database uint32, payload []byte) error {
	if r.most == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for d := binio.NewDecoder(payload); d.Len() > 0; {
		e := Exemplar{Database: database, Series: model.SeriesID(d.Uvarint()), Time: d.Varint(), Value: math.Float64frombits(d.Uint64()), Labels: string(d.Bytes(d.Count(1)))}
		if err := d.Err(); err != nil {
			return err
		}
		if at, ok := r.mu.newest[e.place()]; e.Series != 0 && (!ok || e.order(&r.mu.all[at]) > 0) {
			r.addLocked(e)
		}
	}
	return nil
}

func (r *Ring) addLocked(e Exemplar) {
	m := &r.mu
	if m.all == nil {
		m.all = make([]Exemplar, r.most)
	}
	for m.count == r.most || m.count > 0 && r.bytes.Load()+e.bytes() > r.mostBytes {
		r.removeLocked(m.oldest)
		m.oldest = (m.oldest + 1) % len(m.all)
		m.count--
	}
	at := (m.oldest + m.count) % len(m.all)
	m.all[at] = e
	m.count++
	m.kept++
	r.bytes.Add(e.bytes())
	m.newest[e.place()] = int32(at)
}

// removeLocked leaves the place of an exemplar in use.
func (r *Ring) removeLocked(at int) {
	e := &r.mu.all[at]
	if e.Series == 0 {
		return
	}
	if r.mu.newest[e.place()] == int32(at) {
		delete(r.mu.newest, e.place())
	}
	r.bytes.Add(-e.bytes())
	r.mu.kept--
	*e = Exemplar{}
}

// eachLocked calls fn with the exemplars of a database from the oldest on.
func (r *Ring) eachLocked(database uint32, fn func(at int, e *Exemplar)) {
	for i := range r.mu.count {
		at := (r.mu.oldest + i) % len(r.mu.all)
		if e := &r.mu.all[at]; e.Series != 0 && e.Database == database {
			fn(at, e)
		}
	}
}

// Select returns the exemplars of a database between two times, both inclusive. Those of a
// series are in order.
func (r *Ring) Select(database uint32, start, end int64) (found []Exemplar) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.eachLocked(database, func(_ int, e *Exemplar) {
		if e.Time >= start && e.Time <= end {
			found = append(found, *e)
		}
	})
	return found
}

// Drop removes the exemplars of a database that match. nil matches all.
func (r *Ring) Drop(database uint32, match func(*Exemplar) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.eachLocked(database, func(at int, e *Exemplar) {
		if match == nil || match(e) {
			r.removeLocked(at)
		}
	})
}

// Deleted are series of a database that lose their rows in a range of nanoseconds.
type Deleted struct {
	Database uint32
	Range    model.TimeRange
	Series   *roaring.Bitmap
}

// Delete removes the exemplars of what an entry deletes. Those of many shards are mostly of
// one range: it goes through the ring once for each range, not for each shard.
func (r *Ring) Delete(list []Deleted) {
	for len(list) > 0 {
		d, n := list[0], 1
		d.Series = d.Series.Clone() // the shard has the set
		for ; n < len(list) && list[n].Database == d.Database && list[n].Range == d.Range; n++ {
			d.Series.Or(list[n].Series)
		}
		list = list[n:]
		r.Drop(d.Database, func(e *Exemplar) bool {
			ns, ok := nanoseconds(e.Time)
			return ok && d.Range.Contains(ns) && d.Series.Contains(uint32(e.Series))
		})
	}
}

// nanoseconds returns the time of an exemplar, and false if it is none that a row may have.
func nanoseconds(ms int64) (int64, bool) {
	const unit = 1_000_000
	return ms * unit, ms >= model.MinTime/unit && ms <= model.MaxTime/unit
}
