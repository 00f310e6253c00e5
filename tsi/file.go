package tsi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/mapped"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/tsi/dictionary"
)

// File is an open, mapped, immutable TSI file. It is safe for concurrent use
// while a reference is held: OpenFile returns the first one.
type File struct {
	*mapped.File
	info     FileInfo
	all      section            // the set of the series
	measured []*fileMeasurement // sorted by name
	everyKey lazy[fileKeys]     // the tag keys of all measurements

	kept struct {
		sync.Mutex
		bodies []*fileMeasurement // those that have a body, a ring
		oldest int                // place of the one that was read first
	}
}

// keptBodies is how many measurements of a file stay open. A walk over very many
// then takes no more memory, and what a dashboard asks for is at hand.
const keptBodies = 256

// section is where a section begins, and its size with the crc.
type section struct{ offset, size int64 }

// fileMeasurement is a directory entry. Its section is read on first use.
type fileMeasurement struct {
	name   string
	fields []column.Field
	series int
	body   lazy[fileBody]
}

type fileBody struct {
	set  *roaring.Bitmap // read-only
	tags []*fileTagRef   // sorted by key
}

type fileTagRef struct {
	key string
	tag lazy[dictionary.Tag]
}

// lazy is what a section holds, which is read at first use.
type lazy[T any] struct {
	section
	mu    sync.Mutex // held while reading
	value atomic.Pointer[T]
}

// read returns what the section holds. decode reads it from the bytes, and fails the
// decoder if they make no sense.
func (l *lazy[T]) read(f *File, what string, decode func(d *binio.Decoder) *T) (_ *T, err error) {
	if v := l.value.Load(); v != nil {
		return v, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer vfs.CatchFault(&err)()
	if v := l.value.Load(); v != nil {
		return v, nil
	}
	raw, err := f.Checked(l.offset, l.size)
	if err != nil {
		return nil, err
	}
	d := binio.NewDecoder(raw)
	v := decode(&d)
	if d.Err() != nil || d.Len() > 0 {
		return nil, f.bad(l.offset, &d, what)
	}
	l.value.Store(v)
	return v, nil
}

// OpenFile maps a TSI file and reads its footer and its directory; the rest is
// read, and checked, on first use. Damage is a *binio.CorruptError.
func OpenFile(fs vfs.FS, path string) (*File, error) {
	m, err := mapped.Open(fs, path)
	if err != nil {
		return nil, fmt.Errorf("open tsi %s: %w", path, err)
	}
	f := &File{File: m}
	if err := f.load(); err != nil {
		return nil, fmt.Errorf("open tsi %s: %w", path, errors.Join(err, m.Release()))
	}
	return f, nil
}

func (f *File) load() (err error) {
	defer vfs.CatchFault(&err)()
	if len(f.Data()) < headerBytes+footerBytes {
		return binio.Corruptf(f.Path(), 0, "%d bytes are no TSI file", len(f.Data()))
	}
	at := int64(len(f.Data()) - footerBytes)
	foot := f.Data()[at:]
	if string(foot[footerBytes-8:]) != fileMagic || string(f.Data()[:8]) != fileMagic {
		return binio.Corruptf(f.Path(), at, "bad magic")
	}
	version := binary.LittleEndian.Uint32(foot[footerBytes-16:])
	if version == 1 {
		at += footerBytes - footerOfOne
		foot = f.Data()[at:]
	}
	if binio.PlacedChecksum(at, foot[:len(foot)-12]) != binary.LittleEndian.Uint32(foot[len(foot)-12:]) {
		return binio.Corruptf(f.Path(), at, "footer checksum mismatch")
	}
	if err := binio.CheckVersion(f.Path(), "TSI file", uint64(version), fileVersion); err != nil {
		return err
	}
	if _, err := f.Checked(0, headerBytes); err != nil {
		return err
	}
	var v [9]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(foot[8*i:])
	}
	if v[6] != uint64(len(f.Data())) {
		return binio.Corruptf(f.Path(), at, "file has %d bytes, footer says %d", len(f.Data()), v[6])
	}
	f.info = FileInfo{
		Path: f.Path(), Bytes: int64(v[6]), Series: int(v[7]), Measurements: int(v[8]),
		MinID: binary.LittleEndian.Uint32(foot[72:]), MaxID: binary.LittleEndian.Uint32(foot[76:]),
	}
	f.everyKey.section = section{int64(v[4]), int64(v[5])}
	f.all = section{int64(v[2]), int64(v[3])}
	b, err := f.Checked(int64(v[0]), int64(v[1]))
	if err != nil {
		return err
	}
	return f.loadDirectory(b, int64(v[0]))
}

func (f *File) loadDirectory(b []byte, offset int64) error {
	d := binio.NewDecoder(b)
	n := d.Count(5)
	if n != f.info.Measurements {
		return f.bad(offset, &d, "directory")
	}
	f.measured = make([]*fileMeasurement, 0, n)
	var fields []column.Field
	for range n {
		m := &fileMeasurement{name: d.String()}
		fields = fields[:0]
		for i := range d.Count(2) {
			fields = append(fields, column.Field{Key: d.String(), Type: model.FieldType(d.Byte())})
			if !fields[i].Type.Valid() || i > 0 && fields[i].Key <= fields[i-1].Key {
				d.Fail("bad field")
			}
		}
		// Where measurements are very many they have the same few fields.
		if n := len(f.measured); n > 0 && slices.Equal(fields, f.measured[n-1].fields) {
			m.fields = f.measured[n-1].fields
		} else if len(fields) > 0 {
			m.fields = slices.Clone(fields)
		}
		m.series = int(d.Uvarint())
		m.body.offset, m.body.size = int64(d.Uvarint()), int64(d.Uvarint())
		if len(f.measured) > 0 && m.name <= f.measured[len(f.measured)-1].name {
			d.Fail("measurements out of order")
		}
		if d.Err() != nil {
			return f.bad(offset, &d, "directory")
		}
		f.measured = append(f.measured, m)
	}
	if d.Len() > 0 {
		return f.bad(offset, &d, "directory")
	}
	return nil
}

// bad is the error for a section that has the right checksum and makes no sense.
func (f *File) bad(offset int64, d *binio.Decoder, what string) error {
	if d.Err() != nil {
		return binio.Corruptf(f.Path(), offset, "%s: %s", what, binio.Reason(d.Err()))
	}
	return binio.Corruptf(f.Path(), offset, "%s contradicts the footer", what)
}

// Info describes the file; its Hash is 0, for opening does not read all of it.
func (f *File) Info() FileInfo { return f.info }

// Series reads the set of the file's series. The caller owns it.
func (f *File) Series() (*roaring.Bitmap, error) {
	b, err := f.Checked(f.all.offset, f.all.size)
	if err != nil {
		return nil, err
	}
	d := binio.NewDecoder(b)
	set := dictionary.ReadSet(&d, nil)
	if d.Err() != nil || d.Len() > 0 || set.GetCardinality() != uint64(f.info.Series) {
		return nil, f.bad(f.all.offset, &d, "series set")
	}
	return set, nil
}

// SeriesOf returns the set of the series of files. The caller owns it.
func SeriesOf(files []*File) (*roaring.Bitmap, error) {
	all := roaring.New()
	for i, f := range files {
		set, err := f.Series()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			all = set
		} else {
			all.Or(set)
		}
	}
	return all, nil
}

// measurement returns the directory entry of a name, or nil.
func (f *File) measurement(name string) *fileMeasurement {
	if n := f.number(name); n > 0 {
		return f.measured[n-1]
	}
	return nil
}

// number returns the number of a measurement: its place in the directory, from 1, or 0.
func (f *File) number(name string) uint32 {
	i := sort.Search(len(f.measured), func(i int) bool { return f.measured[i].name >= name })
	if i < len(f.measured) && f.measured[i].name == name {
		return uint32(i) + 1
	}
	return 0
}

// bodyOf reads the measurement's section.
func (f *File) bodyOf(m *fileMeasurement) (*fileBody, error) {
	if b := m.body.value.Load(); b != nil { // without memory for what read gets
		return b, nil
	}
	return m.body.read(f, "measurement", func(d *binio.Decoder) *fileBody {
		b := &fileBody{set: dictionary.ReadSet(d, nil)}
		for range d.Count(3) {
			t := &fileTagRef{key: d.String()}
			t.tag.offset, t.tag.size = int64(d.Uvarint()), int64(d.Uvarint())
			if n := len(b.tags); n > 0 && t.key <= b.tags[n-1].key {
				d.Fail("tag keys out of order")
			}
			b.tags = append(b.tags, t)
		}
		if d.Err() == nil {
			if int(b.set.GetCardinality()) != m.series {
				d.Fail("another number of series than in the directory")
			}
			f.keep(m)
		}
		return b
	})
}

// keep drops the body that was read first if there are more than keptBodies with that
// of m. Its present users keep it.
func (f *File) keep(m *fileMeasurement) {
	k := &f.kept
	k.Lock()
	defer k.Unlock()
	if len(k.bodies) < keptBodies {
		k.bodies = append(k.bodies, m)
		return
	}
	k.bodies[k.oldest].body.value.Store(nil)
	k.bodies[k.oldest] = m
	k.oldest = (k.oldest + 1) % keptBodies
}

// tag reads the section of a tag key; nil if the measurement lacks the key.
func (f *File) tag(m *fileMeasurement, key string) (*dictionary.Tag, error) {
	b, err := f.bodyOf(m)
	if err != nil {
		return nil, err
	}
	i := sort.Search(len(b.tags), func(i int) bool { return b.tags[i].key >= key })
	if i == len(b.tags) || b.tags[i].key != key {
		return nil, nil
	}
	return f.loadTag(b, b.tags[i])
}

func (f *File) loadTag(b *fileBody, r *fileTagRef) (*dictionary.Tag, error) {
	if t := r.tag.value.Load(); t != nil {
		return t, nil
	}
	return r.tag.read(f, "tag", func(d *binio.Decoder) *dictionary.Tag { return dictionary.ReadTag(d, b.set, len(f.Data())) })
}

// Verify reads the whole file and returns the first damage.
func (f *File) Verify() error {
	if _, err := f.Series(); err != nil {
		return err
	}
	var ids []uint32
	found := map[string]keyCounts{}
	for _, m := range f.measured {
		b, err := f.bodyOf(m)
		if err != nil {
			return err
		}
		for _, r := range b.tags {
			t, err := f.loadTag(b, r)
			if err != nil {
				return err
			}
			k := found[r.key]
			found[r.key] = keyCounts{k.measurements + 1, k.values + t.Values}
			c := t.Cursor(f)
			var last []byte
			for n := 0; c.Next(); n++ {
				if n > 0 && string(c.Value) <= string(last) {
					return binio.Corruptf(f.Path(), r.tag.offset, "values out of order")
				}
				last = append(last[:0], c.Value...)
				if ids, err = c.Posting.IDs(ids[:0]); err != nil {
					return c.At(err)
				}
			}
			if c.Err() != nil {
				return c.Err()
			}
		}
	}
	return f.verifyKeys(found)
}
