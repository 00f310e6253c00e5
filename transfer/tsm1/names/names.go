// Package names reads the names that InfluxDB keeps besides its TSM files: the keys of the
// series of a database in the series file (the directory _series), and the fields of a
// shard in fields.idx and fields.idxl. docs/formats/influxdb-tsm1.md describes the bytes.
//
// The index of a TSM file has no checksum, so a damaged name of a series or of a field looks
// like another one. A Set finds it: a name that InfluxDB knows is in the Set.
//
// A Set takes some bytes for each name, whatever its length, because it has a hash of 32
// bits of each. So it has a name that InfluxDB does not know with a chance of the number of
// names in 4 billion, and it always has those that InfluxDB knows. A Set may be used
// concurrently after it was read.
package names

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// Set is a set of names. A nil Set has all names.
type Set struct{ hashes *roaring.Bitmap }

// Has reports whether a name is in the set.
func (s *Set) Has(name []byte) bool { return s == nil || s.hashes.Contains(uint32(xxhash.Sum64(name))) }

func (s *Set) add(name []byte) { s.hashes.Add(uint32(xxhash.Sum64(name))) }

// The segments of a series file.
const (
	segmentMagic   = "SSEG"
	segmentVersion = 1
	entryInsert    = 1
	entryTombstone = 2
	maxSeriesKey   = 1 << 20
)

// Series returns the canonical keys of the series that the series file of a database ever
// had. It returns nil if there is no such directory.
func Series(dir string) (*Set, error) {
	segments, err := filepath.Glob(filepath.Join(dir, "_series", "[0-9][0-9]", "[0-9][0-9][0-9][0-9]"))
	if err != nil || len(segments) == 0 {
		return nil, err
	}
	s := &Set{roaring.New()}
	for _, path := range segments {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		err = binio.InFile(s.readSegment(bufio.NewReaderSize(f, 256<<10)), path)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readSegment adds the series of a segment. Entries end at a byte that is 0.
func (s *Set) readSegment(r *bufio.Reader) error {
	var head [len(segmentMagic) + 1]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return binio.Corruptf("", 0, "series file ends in its header: %v", err)
	}
	if string(head[:len(segmentMagic)]) != segmentMagic || head[len(segmentMagic)] != segmentVersion {
		return binio.Corruptf("", 0, "series file begins with %q", head)
	}
	at := int64(len(head))
	var buf, key []byte
	for {
		flag, err := r.ReadByte()
		if err == io.EOF || err == nil && flag == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := r.Discard(8); err != nil || flag != entryInsert && flag != entryTombstone {
			return binio.Corruptf("", at, "entry of type %d of a series file", flag)
		}
		if at += 9; flag == entryTombstone {
			continue
		}
		n, err := binary.ReadUvarint(r)
		if err != nil || n > maxSeriesKey {
			return binio.Corruptf("", at, "key of %d bytes in a series file", n)
		}
		if uint64(cap(buf)) < n {
			buf = make([]byte, n)
		}
		if buf = buf[:n]; n > 0 {
			if _, err := io.ReadFull(r, buf); err != nil {
				return binio.Corruptf("", at, "series file ends in a key")
			}
		}
		var ok bool
		if key, ok = appendKey(key[:0], buf); !ok {
			return binio.Corruptf("", at, "key %q in a series file", buf)
		}
		s.add(key)
		at += int64(len(binary.AppendUvarint(nil, n))) + int64(n)
	}
}

// appendKey appends the canonical key of a key of a series file: the measurement, the number
// of tags, and the tags, each text behind its length in two bytes.
func appendKey(dst, b []byte) ([]byte, bool) {
	text := func() (out string, ok bool) {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return "", false
		}
		n := 2 + int(binary.BigEndian.Uint16(b))
		out, b = string(b[2:n]), b[n:]
		return out, true
	}
	measurement, ok := text()
	count, n := binary.Uvarint(b)
	if !ok || n <= 0 {
		return dst, false
	}
	b = b[n:]
	var tags model.Tags
	for range count {
		key, ok1 := text()
		value, ok2 := text()
		if !ok1 || !ok2 {
			return dst, false
		}
		// The first 2.x releases have the measurement and the field as tags.
		switch key {
		case "\x00":
			measurement = value
		case "\xff":
		default:
			tags = append(tags, model.Tag{Key: key, Value: value})
		}
	}
	tags.Sort()
	return model.AppendSeriesKey(dst, measurement, tags), len(b) == 0
}

// fieldsMagic begins fields.idx.
var fieldsMagic = []byte{0, 6, 1, 3}

// maxFields bounds the size of a file of fields.
const maxFields = 1 << 30

// Fields returns the fields that fields.idx and fields.idxl of a shard have, each as
// AppendField writes it. It returns nil if there is no fields.idx.
func Fields(dir string) (*Set, error) {
	path := filepath.Join(dir, "fields.idx")
	b, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, ok := bytes.CutPrefix(b, fieldsMagic)
	if !ok {
		return nil, binio.Corruptf(path, 0, "it does not begin as a file of fields")
	}
	s := &Set{roaring.New()}
	if err := binio.InFile(messages(b, 1, s.addMeasurement), path); err != nil {
		return nil, err
	}
	path += "l"
	if b, err = read(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for len(b) >= 8 { // what follows the last change was not written to its end
		n := binary.LittleEndian.Uint64(b)
		if n > uint64(len(b)-8) {
			break
		}
		if err := binio.InFile(messages(b[8:8+n], 1, s.addMeasurement), path); err != nil {
			return nil, err
		}
		b = b[8+n:]
	}
	return s, nil
}

// AppendField appends a field of a measurement as a Set of Fields has it. measurement is
// canonical: what a key of a series begins with.
func AppendField(dst, measurement, field []byte) []byte {
	return append(append(append(dst, measurement...), 0), field...)
}

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFields {
		return nil, binio.Corruptf(path, 0, "file of %d bytes", info.Size())
	}
	return os.ReadFile(path)
}

// addMeasurement adds the fields of a measurement, or the field of a change, which has the
// same form. A change that drops a measurement takes nothing away: a Set has what was ever
// there.
func (s *Set) addMeasurement(b []byte) error {
	var name []byte
	if err := messages(b, 1, func(b []byte) error { name = b; return nil }); err != nil {
		return err
	}
	return messages(b, 2, func(b []byte) error { return s.addField(name, b) })
}

// addField adds a field by its message.
func (s *Set) addField(measurement, b []byte) error {
	key := model.AppendSeriesKey(nil, string(measurement), nil)
	return messages(b, 1, func(b []byte) error { s.add(AppendField(nil, key, b)); return nil })
}

// messages calls fn for the fields of a message with a number, which have bytes.
func messages(b []byte, number protowire.Number, fn func(b []byte) error) error {
	size := len(b)
	for len(b) > 0 {
		n, kind, head := protowire.ConsumeTag(b)
		if head < 0 {
			return binio.Corruptf("", -1, "a field at byte %d of %d", size-len(b), size)
		}
		b = b[head:]
		length := protowire.ConsumeFieldValue(n, kind, b)
		if length < 0 {
			return binio.Corruptf("", -1, "the value of field %d at byte %d of %d", n, size-len(b), size)
		}
		if n == number && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b)
			if err := fn(value); err != nil {
				return err
			}
		}
		b = b[length:]
	}
	return nil
}
