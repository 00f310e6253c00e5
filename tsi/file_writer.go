package tsi

import (
	"encoding/binary"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model/column"
	"tsdbd/tsi/dictionary"
)

// A TSI file: a header, per measurement the pages and large postings of its
// tag keys, a tag section per tag key and a measurement section; then the set
// of all series, the directory, the footer.
//
//	header       | magic "tsdbTSI\x01" 8 | version u32 | crc u32 |
//	tag          | values uvarint | series set | pages uvarint |
//	             | per page: gap uvarint, size uvarint, values uvarint, shared uvarint, suffix string | crc u32 |
//	measurement  | series set | tag keys uvarint | per key: string, offset uvarint, size uvarint | crc u32 |
//	all series   | set | crc u32 |
//	directory    | measurements uvarint | per measurement: name string, fields uvarint, fields (string, type u8),
//	             |  series uvarint, offset uvarint, size uvarint | crc u32 |
//	footer 80    | directory offset u64, size u64 | all series offset u64, size u64 | file size u64 |
//	             | series u64 | measurements u64 | min id u32 | max id u32 | version u32 | crc u32 | magic 8 |
//
// Every crc starts from the offset of the section it ends, see
// binio.PlacedChecksum. gap is the distance of a page from the end of the one before
// it (of the first: its offset); shared and suffix give its first value.
const (
	fileMagic   = "tsdbTSI\x01"
	fileVersion = 1
	headerBytes = 16
	footerBytes = 80
)

// FileInfo describes a TSI file that was written.
type FileInfo struct {
	Path         string
	Bytes        int64
	Hash         uint64 // xxhash64 of the content
	Series       int    // series in the file
	Measurements int    // measurements in the directory, also those with fields only
	MinID, MaxID uint32 // 0 when there is no series
}

// fileWriter writes a TSI file front to back.
type fileWriter struct {
	file    vfs.File
	path    string
	buf     []byte
	offset  int64 // of the end of buf
	hash    *xxhash.Digest
	err     error
	tag     *dictionary.Writer
	dir     []byte
	all     *roaring.Bitmap
	entries int
	debt    int // bytes since the last pause of a merge
	scratch []byte
	value   []byte
}

func createFile(fs vfs.FS, path string) (*fileWriter, error) {
	f, err := fs.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create tsi %s: %w", path, err)
	}
	w := &fileWriter{file: f, path: path, hash: xxhash.New(), all: roaring.New()}
	w.tag = dictionary.NewWriter(w.section)
	h := append(w.scratch[:0], fileMagic...)
	h = binary.LittleEndian.AppendUint32(h, fileVersion)
	w.section(h)
	return w, nil
}

func (w *fileWriter) write(b []byte) {
	w.buf = append(w.buf, b...)
	w.offset += int64(len(b))
	if len(w.buf) >= 1<<18 {
		w.flush()
	}
}

func (w *fileWriter) flush() {
	if w.err == nil {
		_, _ = w.hash.Write(w.buf)
		_, w.err = w.file.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

// section writes b and its crc and returns their place.
func (w *fileWriter) section(b []byte) (offset int64, size int) {
	offset = w.offset
	crc := binio.PlacedChecksum(offset, b)
	w.write(b)
	w.write(binary.LittleEndian.AppendUint32(nil, crc))
	return offset, len(b) + 4
}

// measurementWriter writes one measurement; keys come in ascending order.
type measurementWriter struct {
	w    *fileWriter
	all  *roaring.Bitmap
	keys []byte
	n    int
}

// key ends a tag key, whose values the file's tag writer has.
func (m *measurementWriter) key(key string) {
	offset, size := m.w.tag.Finish(m.all)
	if size == 0 {
		return
	}
	m.keys = binio.AppendString(m.keys, key)
	m.keys = binary.AppendUvarint(m.keys, uint64(offset))
	m.keys = binary.AppendUvarint(m.keys, uint64(size))
	m.n++
}

// finish writes the measurement's section and directory entry.
func (m *measurementWriter) finish(name string, fields []column.Field) {
	w := m.w
	b := w.tag.AppendSet(nil, m.all)
	b = binary.AppendUvarint(b, uint64(m.n))
	offset, size := w.section(append(b, m.keys...))
	w.dir = binio.AppendString(w.dir, name)
	w.dir = binary.AppendUvarint(w.dir, uint64(len(fields)))
	for _, f := range fields {
		w.dir = binio.AppendString(w.dir, f.Key)
		w.dir = append(w.dir, byte(f.Type))
	}
	w.dir = binary.AppendUvarint(w.dir, m.all.GetCardinality())
	w.dir = binary.AppendUvarint(w.dir, uint64(offset))
	w.dir = binary.AppendUvarint(w.dir, uint64(size))
	w.all.Or(m.all)
	w.entries++
}

// finish writes what ends the file, syncs and closes it.
func (w *fileWriter) finish(fs vfs.FS) (FileInfo, error) {
	info := FileInfo{Path: w.path, Series: int(w.all.GetCardinality()), Measurements: w.entries}
	if info.Series > 0 {
		info.MinID, info.MaxID = w.all.Minimum(), w.all.Maximum()
	}
	allOffset, allSize := w.section(w.tag.AppendSet(nil, w.all))
	dirOffset, dirSize := w.section(append(binary.AppendUvarint(nil, uint64(w.entries)), w.dir...))
	info.Bytes = w.offset + footerBytes
	var b []byte
	for _, v := range []uint64{
		uint64(dirOffset), uint64(dirSize), uint64(allOffset), uint64(allSize),
		uint64(info.Bytes), uint64(info.Series), uint64(info.Measurements),
	} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, info.MinID)
	b = binary.LittleEndian.AppendUint32(b, info.MaxID)
	b = binary.LittleEndian.AppendUint32(b, fileVersion)
	b = binary.LittleEndian.AppendUint32(b, binio.PlacedChecksum(w.offset, b))
	w.write(append(b, fileMagic...))
	w.flush()
	if w.err == nil {
		w.err = w.file.Sync()
	}
	if err := w.file.Close(); w.err == nil {
		w.err = err
	}
	if w.err != nil {
		_ = fs.Remove(w.path)
		return FileInfo{}, fmt.Errorf("write tsi %s: %w", w.path, w.err)
	}
	info.Hash = w.hash.Sum64()
	return info, nil
}
