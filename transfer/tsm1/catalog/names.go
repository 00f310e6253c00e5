package catalog

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

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// Names are names that InfluxDB keeps besides its TSM files. The index of a TSM file has no
// checksum, so a damaged name looks like another one. Names find it: they have each name that
// InfluxDB knows. nil has all names.
//
// Names take some bytes for each name, whatever its length, because they have a hash of 32
// bits of each. So they have a name that InfluxDB does not know with a chance of the number of
// names in 4 billion. They may be used concurrently after they were read.
type Names struct{ hashes *roaring.Bitmap }

// Has reports whether a name is one of them.
func (s *Names) Has(name []byte) bool {
	return s == nil || s.hashes.Contains(uint32(xxhash.Sum64(name)))
}

func (s *Names) add(name []byte) { s.hashes.Add(uint32(xxhash.Sum64(name))) }

// The segments of a series file.
const (
	segmentMagic   = "SSEG"
	segmentVersion = 1
	entryInsert    = 1
	entryTombstone = 2
	maxSeriesKey   = 1 << 20
)

// SeriesNames returns the canonical keys of the series that the series file of a database ever
// had. It returns nil if there is no such directory.
func SeriesNames(dir string) (*Names, error) {
	segments, err := filepath.Glob(filepath.Join(dir, "_series", "[0-9][0-9]", "[0-9][0-9][0-9][0-9]"))
	if err != nil || len(segments) == 0 {
		return nil, err
	}
	s := &Names{roaring.New()}
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
func (s *Names) readSegment(r *bufio.Reader) error {
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

// FieldNames returns the fields that fields.idx and fields.idxl of a shard have, each as
// AppendField writes it. It returns nil if there is no fields.idx.
func FieldNames(dir string) (*Names, error) {
	path := filepath.Join(dir, "fields.idx")
	b, err := readBounded(path)
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
	s := &Names{roaring.New()}
	if err := binio.InFile(decode(b, into{1: s.addMeasurement}), path); err != nil {
		return nil, err
	}
	path += "l"
	if b, err = readBounded(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for len(b) >= 8 { // what follows the last change was not written to its end
		n := binary.LittleEndian.Uint64(b)
		if n > uint64(len(b)-8) {
			break
		}
		if err := binio.InFile(decode(b[8:8+n], into{1: s.addMeasurement}), path); err != nil {
			return nil, err
		}
		b = b[8+n:]
	}
	return s, nil
}

// AppendField appends a field of a measurement as FieldNames has it. measurement is
// canonical: what a key of a series begins with.
func AppendField(dst, measurement, field []byte) []byte {
	return append(append(append(dst, measurement...), 0), field...)
}

// maxFile bounds the size of a file that is read as a whole.
const maxFile = 1 << 30

// readBounded reads a file that is held as a whole.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, binio.Corruptf(path, 0, "file of %d bytes", info.Size())
	}
	return os.ReadFile(path)
}

// addMeasurement adds the fields of a measurement, or the field of a change, which has the
// same form. A change that drops a measurement takes nothing away: Names have what was ever
// there.
func (s *Names) addMeasurement(b []byte) error {
	var name string
	if err := decode(b, into{1: &name}); err != nil {
		return err
	}
	measurement := model.AppendSeriesKey(nil, name, nil)
	return decode(b, into{2: func(b []byte) error { // a field
		return decode(b, into{1: func(key []byte) error { s.add(AppendField(nil, measurement, key)); return nil }})
	}})
}
