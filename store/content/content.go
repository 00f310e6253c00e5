// Package content sums up what a store holds, so that the nodes of a cluster can be
// compared.
//
// A Cut is what the store holds at one sequence of the log. Its Sums are those of the
// points that a reader sees then, by shard, and of the catalog. Two stores with the
// same points and the same catalog have equal sums, whatever their files, flushes and
// merges are. What was overwritten or deleted does not count.
//
// A Cut is for one goroutine.
package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/identity"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// Part is a shard of a Cut.
type Part struct {
	Database, RetentionPolicy string
	Shard                     scan.Shard
	// Key returns the canonical key of a series.
	Key func(model.SeriesID) (string, error)
}

// Cut is what a store holds at Sequence. Release must be called: until then the
// store keeps files and memory for it, and Close waits.
type Cut struct {
	Sequence uint64
	Catalog  *meta.Data
	Parts    []Part
	// Release gives everything back. It may be called once.
	Release func()
}

// Sum is a sum of 128 bits.
type Sum [16]byte

// String returns the sum in hexadecimal digits.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText makes a Sum its digits in JSON.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText made.
func (s *Sum) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(s)) {
		return fmt.Errorf("content sum of %d digits", len(b))
	}
	_, err := hex.Decode(s[:], b)
	return err
}

// Sums are the sums of a Cut.
type Sums struct {
	Sequence uint64
	Catalog  Sum
	Shards   []Shard // those with points, by id
}

// Shard is the sum of a shard's points.
type Shard struct {
	ID                        uint64
	Database, RetentionPolicy string
	Values                    int64 // points, a field each
	Sum                       Sum
}

// Sum reads all points of the cut and sums them up. The end of ctx ends it.
func (c *Cut) Sum(ctx context.Context) (*Sums, error) {
	out := &Sums{Sequence: c.Sequence}
	var err error
	if out.Catalog, err = catalogSum(c.Catalog); err != nil {
		return nil, err
	}
	for _, p := range c.Parts {
		s := Shard{ID: p.Shard.ID(), Database: p.Database, RetentionPolicy: p.RetentionPolicy}
		var a adder
		for _, m := range p.Shard.Measurements() {
			if err := a.measurement(ctx, p, m); err != nil {
				return nil, fmt.Errorf("content of shard %d: %w", s.ID, err)
			}
		}
		if a.values > 0 {
			s.Values, s.Sum = a.values, a.sum()
			out.Shards = append(out.Shards, s)
		}
	}
	slices.SortFunc(out.Shards, func(a, b Shard) int { return int(int64(a.ID) - int64(b.ID)) })
	return out, nil
}

// catalogSum sums up what of a catalog all nodes have in common.
func catalogSum(d *meta.Data) (Sum, error) {
	common := *d
	common.Lineage, common.Dropped = identity.Lineage{}, meta.Dropped{}
	b, err := json.Marshal(&common)
	if err != nil {
		return Sum{}, fmt.Errorf("content of the catalog: %w", err)
	}
	h := sha256.Sum256(b)
	return Sum(h[:16]), nil
}

// Difference is a shard whose content is not the same on all nodes. The catalog has no
// shard.
type Difference struct {
	Database, RetentionPolicy string
	Shard                     uint64
	Sums                      map[string]string // by node; "" where the shard is missing
	Values                    map[string]int64  // by node; none of the catalog
}

// Differences says what differs between the sums of nodes at one sequence, the catalog
// first.
func Differences(nodes map[string]*Sums) (out []Difference) {
	places := map[uint64]*Difference{0: {Sums: map[string]string{}}} // 0: the catalog
	for name, sums := range nodes {
		places[0].Sums[name] = sums.Catalog.String()
		for _, s := range sums.Shards {
			d := places[s.ID]
			if d == nil {
				d = &Difference{s.Database, s.RetentionPolicy, s.ID, map[string]string{}, map[string]int64{}}
				for name := range nodes {
					d.Sums[name] = ""
				}
				places[s.ID] = d
			}
			d.Sums[name], d.Values[name] = s.Sum.String(), s.Values
		}
	}
	for _, id := range slices.Sorted(maps.Keys(places)) {
		different := map[string]bool{}
		for _, sum := range places[id].Sums {
			different[sum] = true
		}
		if len(different) > 1 {
			out = append(out, *places[id])
		}
	}
	return out
}

// fieldsAtOnce bounds the columns of one scan: a measurement may have very many
// fields.
const fieldsAtOnce = 64

// measurement adds the points of a measurement.
func (a *adder) measurement(ctx context.Context, p Part, name string) error {
	set, err := p.Shard.Select(ctx, name, nil)
	if err != nil {
		return err
	}
	for fields := range slices.Chunk(p.Shard.Fields(name), fieldsAtOnce) {
		if err := a.fields(ctx, p, name, set, fields); err != nil {
			return err
		}
	}
	return nil
}

// fields adds the points of some fields.
func (a *adder) fields(ctx context.Context, p Part, name string, set *roaring.Bitmap, fields []column.Field) error {
	req := scan.Request{Measurement: name, Series: set, Range: model.AllTime}
	for _, f := range fields {
		req.Fields = append(req.Fields, f.Key)
	}
	c, err := p.Shard.Scan(ctx, req)
	if err != nil {
		return err
	}
	defer c.Close()
	seeds := make([]seed, len(fields))
	for id, ok := c.NextSeries(); ok; id, ok = c.NextSeries() {
		key, err := p.Key(id)
		if err != nil {
			return err
		}
		for i, f := range fields {
			seeds[i] = newSeed(key, f)
		}
		for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
			times, err := ch.Times()
			if err != nil {
				return err
			}
			for i := range fields {
				v, err := ch.Column(i)
				if err != nil {
					return err
				}
				a.column(seeds[i], times, v)
			}
		}
	}
	return c.Err()
}
