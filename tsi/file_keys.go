package tsi

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/mapped"
	"tsdbd/internal/vfs"
	"tsdbd/tsi/dictionary"
)

// fileKeys are the tag keys of all measurements of a file.
type fileKeys struct{ keys []*fileKey } // sorted

// fileKey is a tag key with the measurements that have it. These are known by their
// numbers: places in the directory, from 1.
type fileKey struct {
	key  string
	only uint32               // the only measurement that has it, or 0:
	tag  lazy[dictionary.Tag] // its values, each with the measurements that have it
}

// keys reads the tag keys of all measurements.
func (f *File) keys() ([]*fileKey, error) {
	k, err := f.everyKey.read(f, "tag keys", func(d *binio.Decoder) *fileKeys {
		all := &fileKeys{}
		for range d.Count(2) {
			k := &fileKey{key: d.String()}
			if n := len(all.keys); n > 0 && k.key <= all.keys[n-1].key {
				d.Fail("tag keys out of order")
			}
			only := d.Uvarint()
			if only > uint64(len(f.measured)) {
				d.Fail("no such measurement")
			}
			if k.only = uint32(only); only == 0 {
				k.tag.offset, k.tag.size = int64(d.Uvarint()), int64(d.Uvarint())
			}
			all.keys = append(all.keys, k)
		}
		return all
	})
	if err != nil {
		return nil, err
	}
	return k.keys, nil
}

// key returns a tag key of any measurement, nil if no measurement has it.
func (f *File) key(key string) (*fileKey, error) {
	keys, err := f.keys()
	if err != nil {
		return nil, err
	}
	i := sort.Search(len(keys), func(i int) bool { return keys[i].key >= key })
	if i == len(keys) || keys[i].key != key {
		return nil, nil
	}
	return keys[i], nil
}

// measurementsByValue returns the values of a tag key that several measurements have.
func (f *File) measurementsByValue(k *fileKey) (*dictionary.Tag, error) {
	return k.tag.read(f, "values of all measurements", func(d *binio.Decoder) *dictionary.Tag {
		all := roaring.New()
		all.AddRange(1, uint64(len(f.measured))+1)
		t := dictionary.ReadTag(d, all, len(f.Data()))
		if d.Err() == nil && (t.Present.IsEmpty() || int(t.Present.Maximum()) > len(f.measured)) {
			d.Fail("no such measurement")
		}
		return t
	})
}

// numbered returns the measurement of a number that the file's bytes gave.
func (f *File) numbered(n uint32) (*fileMeasurement, error) {
	if n == 0 || int(n) > len(f.measured) {
		return nil, binio.Corruptf(f.Path(), f.everyKey.offset, "no measurement %d", n)
	}
	return f.measured[n-1], nil
}

// keyCounts are how many measurements have a tag key, and how many values these have,
// added up.
type keyCounts struct{ measurements, values int }

// verifyKeys reads what the file says of its tag keys over all measurements. found is what
// the measurements have.
func (f *File) verifyKeys(found map[string]keyCounts) error {
	keys, err := f.keys()
	if err != nil {
		return err
	}
	if len(keys) != len(found) {
		return binio.Corruptf(f.Path(), f.everyKey.offset, "%d tag keys, the measurements have %d", len(keys), len(found))
	}
	var numbers []uint32
	for _, k := range keys {
		if k.only != 0 {
			t, err := f.tag(f.measured[k.only-1], k.key)
			if err != nil {
				return err
			}
			if t == nil || found[k.key].measurements != 1 {
				return binio.Corruptf(f.Path(), f.everyKey.offset, "measurement %d has no tag %q, or others have it", k.only, k.key)
			}
			continue
		}
		t, err := f.measurementsByValue(k)
		if err != nil {
			return err
		}
		listed := keyCounts{measurements: int(t.Present.GetCardinality())}
		c := t.Cursor(f)
		for c.Next() {
			if numbers, err = c.Posting.IDs(numbers[:0]); err != nil {
				return c.At(err)
			}
			listed.values += len(numbers)
			for _, n := range numbers {
				if _, err := f.numbered(n); err != nil {
					return err
				}
			}
		}
		if c.Err() != nil {
			return c.Err()
		}
		if listed != found[k.key] {
			return binio.Corruptf(f.Path(), k.tag.offset, "tag %q of all measurements has %d and %d values, they have %d and %d",
				k.key, listed.measurements, listed.values, found[k.key].measurements, found[k.key].values)
		}
	}
	return nil
}

// tagPlace is where a tag section of a measurement is.
type tagPlace struct {
	measurement uint32 // number
	size        int32
	offset      int64
}

// writeKeys writes which measurements have which tag keys and values. It reads the
// values that are in the file already.
func (w *fileWriter) writeKeys(fs vfs.FS) (place section, err error) {
	defer vfs.CatchFault(&err)()
	w.flush()
	if w.err != nil {
		return section{}, fmt.Errorf("write tsi %s: %w", w.path, w.err)
	}
	written, err := mapped.Open(fs, w.path)
	if err != nil {
		return section{}, err
	}
	defer func() { _ = written.Release() }()
	all := roaring.New()
	all.AddRange(1, uint64(w.entries)+1)
	list := binary.AppendUvarint(nil, uint64(len(w.places)))
	for _, key := range slices.Sorted(maps.Keys(w.places)) {
		places := w.places[key]
		list = binio.AppendString(list, key)
		if len(places) == 1 {
			list = binary.AppendUvarint(list, uint64(places[0].measurement))
			continue
		}
		if err := w.valuesOf(written, places); err != nil {
			return section{}, err
		}
		offset, size := w.tag.Finish(all)
		list = append(list, 0)
		list = binary.AppendUvarint(list, uint64(offset))
		list = binary.AppendUvarint(list, uint64(size))
	}
	offset, size := w.section(list)
	return section{offset, int64(size)}, nil
}

// valuesOf gives the tag writer the values of a tag key in several measurements.
func (w *fileWriter) valuesOf(written *mapped.File, places []tagPlace) error {
	var all dictionary.Union
	all.Reserve(len(places))
	none := roaring.New() // who has the tags is not asked
	for _, p := range places {
		raw, err := written.Checked(p.offset, int64(p.size))
		if err != nil {
			return err
		}
		d := binio.NewDecoder(raw)
		t := dictionary.ReadTag(&d, none, len(written.Data()))
		if d.Err() != nil {
			return binio.Corruptf(w.path, p.offset, "tag: %s", binio.Reason(d.Err()))
		}
		t.Present = nil
		all.Add(written, t, p.measurement)
	}
	for all.Next() {
		w.tag.Add(all.Value, all.Tags)
		if err := w.pace(len(all.Tags) * (len(all.Value) + idCost)); err != nil {
			return err
		}
	}
	return all.Err()
}
