package tsi

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/mapped"
	"tsdbd/tsi/dictionary"
)

func wantCorrupt(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, binio.ErrCorrupt) {
		t.Fatalf("error is not ErrCorrupt: %v", err)
	}
}

// FuzzFileSection feeds sections of a TSI file with a right checksum.
func FuzzFileSection(f *testing.F) {
	file := testFile(f, newFS(), "x.tsi", 100)
	for _, m := range file.measured {
		b, err := file.Checked(m.body.offset, m.body.size)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(0), b)
		body, _ := file.bodyOf(m)
		for _, r := range body.tags {
			b, _ := file.Checked(r.tag.offset, r.tag.size)
			f.Add(byte(1), b)
		}
	}
	if b, err := file.Checked(file.everyKey.offset, file.everyKey.size); err == nil {
		f.Add(byte(3), b)
	}
	f.Add(byte(2), append([]byte{1, 1, 'm', 1, 1, 'f', 1}, 0, 16, 5))
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		data := binary.LittleEndian.AppendUint32(slices.Clone(b), binio.PlacedChecksum(0, b))
		size := int64(len(data))
		x := &File{File: mapped.InMemory("x.tsi", data), info: FileInfo{Measurements: 1}}
		switch kind % 4 {
		case 0:
			_, err := x.bodyOf(&fileMeasurement{series: 1, body: lazy[fileBody]{section: section{0, size}}})
			wantCorrupt(t, err)
		case 1:
			tag, err := x.loadTag(&fileBody{set: roaring.BitmapOf(1)}, &fileTagRef{tag: lazy[dictionary.Tag]{section: section{0, size}}})
			wantCorrupt(t, err)
			if err == nil {
				c := tag.Cursor(x)
				for c.Next() {
				}
				wantCorrupt(t, c.Err())
			}
		case 2:
			wantCorrupt(t, x.loadDirectory(b, 0))
		case 3:
			x.measured = []*fileMeasurement{{name: "m", series: 1}}
			x.everyKey.section = section{0, size}
			_, err := x.keys()
			wantCorrupt(t, err)
		}
	})
}

// FuzzOpenFile opens arbitrary bytes behind a right footer checksum.
func FuzzOpenFile(f *testing.F) {
	fs := newFS()
	testFile(f, fs, "x.tsi", 20)
	f.Add(fs.Content("x.tsi"))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = slices.Clone(data)
		if at := len(data) - footerBytes; at >= 0 {
			binary.LittleEndian.PutUint32(data[len(data)-12:], binio.PlacedChecksum(int64(at), data[at:len(data)-12]))
		}
		fs := newFS()
		put(t, fs, "x.tsi", data)
		x, err := OpenFile(fs, "x.tsi")
		if errors.Is(err, binio.ErrVersion) {
			return
		}
		wantCorrupt(t, err)
		if err == nil {
			wantCorrupt(t, x.Verify())
			index, err := NewIndex(IndexOptions{Files: []*File{x}})
			wantCorrupt(t, err)
			if err == nil {
				index.Close()
			}
		}
	})
}
