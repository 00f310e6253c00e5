package tsm1

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/transfer/tsm1/tombstone"
)

// columnDelete is a delete of a field of a series.
type columnDelete struct {
	field string
	times model.TimeRange
}

// deletes are the tombstones of one TSM file.
type deletes struct {
	file     *shardFile
	damage   func(path string, offset int64, err error)
	names    namer
	window   keyWindow[[]columnDelete]
	prefixes []tombstone.Delete
	loaded   bool
}

// columnDeleteBytes is about what a delete takes in memory.
const columnDeleteBytes = 48

// maxPrefixes bounds the deletes of prefixes. Each column compares its key with all of them.
const maxPrefixes = 1 << 13

func (d *deletes) load(from string) {
	d.window.reset(from)
	err := d.read()
	if err != nil && !d.loaded {
		d.damage(d.file.path, offsetOf(err), err)
	}
	if len(d.prefixes) > maxPrefixes && !d.loaded {
		d.damage(d.file.path, -1, fmt.Errorf("more than %d deletes of prefixes: what the others have deleted comes back", maxPrefixes))
	}
	d.loaded = true
}

func (d *deletes) read() error {
	r, err := d.file.open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return tombstone.Read(r, func(t tombstone.Delete) error {
		if t.Prefix {
			if !d.loaded && len(d.prefixes) <= maxPrefixes {
				t.Key = bytes.Clone(t.Key)
				d.prefixes = append(d.prefixes, t)
			}
			return nil
		}
		series, field, ok := splitKey(t.Key)
		if !ok {
			return nil // of no column
		}
		if list := d.window.slot(d.names.name(series).key, columnDeleteBytes+len(field)); list != nil {
			*list = append(*list, columnDelete{string(field), t.Times})
		}
		return nil
	})
}

// of returns the deleted times of a column, sorted. Series are asked for in ascending
// order of key.
func (d *deletes) of(key string, raw, field []byte) []model.TimeRange {
	if d == nil {
		return nil
	}
	if !d.loaded || d.window.cut && key >= d.window.to {
		d.load(key)
	}
	var out []model.TimeRange
	if list := d.window.find(key); list != nil {
		for _, c := range *list {
			if c.field == string(field) {
				out = append(out, c.times)
			}
		}
	}
	for _, t := range d.prefixes {
		if bytes.HasPrefix(raw, t.Key) {
			out = append(out, t.Times)
		}
	}
	slices.SortFunc(out, func(a, b model.TimeRange) int { return cmp.Compare(a.Min, b.Min) })
	return out
}

// offsetOf returns the offset of damage, -1 if it is not known.
func offsetOf(err error) int64 {
	var c *binio.CorruptError
	if errors.As(err, &c) {
		return c.Offset
	}
	return -1
}
