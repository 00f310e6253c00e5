package tsi

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model/column"
	"tsdbd/tsi/dictionary"
)

// A TSI file: a header, per measurement the pages and large postings of its
// tag keys, a tag section per tag key and a measurement section; then the tag
// keys of all measurements, the set of all series, the directory, the footer.
//
//	header       | magic "tsdbTSI\x01" 8 | version u32 | crc u32 |
//	tag          | values uvarint | series set | pages uvarint |
//	             | per page: gap uvarint, size uvarint, values uvarint, shared uvarint, suffix string | crc u32 |
//	measurement  | series set | tag keys uvarint | per key: string, offset uvarint, size uvarint | crc u32 |
//	tags         | as above, of tag keys that several measurements have; the ids are numbers of measurements
//	tag keys     | tag keys uvarint | per key: string, number of its only measurement uvarint, or 0,
//	             |  offset uvarint, size uvarint | crc u32 |
//	all series   | set | crc u32 |
//	directory    | measurements uvarint | per measurement: name string, fields uvarint, fields (string, type u8),
//	             |  series uvarint, offset uvarint, size uvarint | crc u32 |
//	footer 96    | directory offset u64, size u64 | all series offset u64, size u64 | tag keys offset u64, size u64 | file size u64 |
//	             | series u64 | measurements u64 | min id u32 | max id u32 | version u32 | crc u32 | magic 8 |
//
// Every crc starts from the offset of the section it ends, see
// binio.PlacedChecksum. gap is the distance of a page from the end of the one before
// it (of the first: its offset); shared and suffix give its first value. The number of a
// measurement is its place in the directory, from 1.
const (
	fileMagic   = "tsdbTSI\x01"
	fileVersion = 2
	headerBytes = 16
	footerBytes = 96
	footerOfOne = 80 // of version 1
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
	places  map[string][]tagPlace // by tag key
	opt     MergeOptions          // without any in a file of memtables
	debt    int                   // bytes since the last call of opt.Pace
	scratch []byte
	ids     []uint32 // scratch of values
	part    []uint32
}

// writeFile writes the file that fill fills. After an error there is none.
func writeFile(fs vfs.FS, path string, opt MergeOptions, fill func(*fileWriter) error) (FileInfo, error) {
	w, err := createFile(fs, path)
	if err != nil {
		return FileInfo{}, err
	}
	w.opt = opt
	var keys section
	err = fill(w)
	if err == nil {
		keys, err = w.writeKeys(fs)
	}
	if err != nil {
		_ = w.file.Close()
		_ = fs.Remove(path)
		return FileInfo{}, err
	}
	return w.finish(fs, keys)
}

func createFile(fs vfs.FS, path string) (*fileWriter, error) {
	f, err := fs.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create tsi %s: %w", path, err)
	}
	w := &fileWriter{file: f, path: path, hash: xxhash.New(), all: roaring.New(), places: map[string][]tagPlace{}}
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

// pace counts what a merge read and wrote.
func (w *fileWriter) pace(bytes int) error {
	if w.debt += bytes; w.debt < paceBytes || w.opt.Pace == nil {
		return nil
	}
	n := w.debt
	w.debt = 0
	return w.opt.Pace(n)
}

// measurement writes the tag keys of a measurement, its section and its directory
// entry. set has its series, and layers adds those that have a key to a walk. keys may
// have duplicates.
func (w *fileWriter) measurement(name string, fields []column.Field, set *roaring.Bitmap, keys []string, layers func(walk *valueWalk, key string) error) error {
	var list []byte
	n := 0
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if set.IsEmpty() {
			break
		}
		var walk valueWalk
		if err := layers(&walk, key); err != nil {
			return err
		}
		if err := w.values(&walk); err != nil {
			return err
		}
		offset, size := w.tag.Finish(set)
		if size == 0 {
			continue
		}
		list = binio.AppendString(list, key)
		list = binary.AppendUvarint(list, uint64(offset))
		list = binary.AppendUvarint(list, uint64(size))
		w.places[key] = append(w.places[key], tagPlace{uint32(w.entries) + 1, int32(size), offset})
		n++
	}
	b := binary.AppendUvarint(w.tag.AppendSet(nil, set), uint64(n))
	offset, size := w.section(append(b, list...))
	w.dir = binio.AppendString(w.dir, name)
	w.dir = binary.AppendUvarint(w.dir, uint64(len(fields)))
	for _, f := range fields {
		w.dir = binio.AppendString(w.dir, f.Key)
		w.dir = append(w.dir, byte(f.Type))
	}
	w.dir = binary.AppendUvarint(w.dir, set.GetCardinality())
	w.dir = binary.AppendUvarint(w.dir, uint64(offset))
	w.dir = binary.AppendUvarint(w.dir, uint64(size))
	w.all.Or(set)
	w.entries++
	return nil
}

// values gives the tag writer the values of a walk, with the ids that are not deleted.
func (w *fileWriter) values(walk *valueWalk) error {
	ids, part := w.ids, w.part
	defer func() { w.ids, w.part = ids, part }()
	for walk.next() {
		ids = ids[:0]
		for _, c := range walk.files {
			var err error
			if part, err = c.Posting.IDs(part[:0]); err != nil {
				return c.At(err)
			}
			for _, id := range part {
				if w.opt.Deleted == nil || !w.opt.Deleted.Contains(id) {
					ids = append(ids, id)
				}
			}
		}
		for _, s := range walk.mems {
			ids = append(ids, s.current()...)
		}
		if len(ids) == 0 {
			continue
		}
		if len(walk.files) != 1 { // else they are in order
			if !slices.IsSorted(ids) {
				slices.Sort(ids)
			}
			ids = slices.Compact(ids) // a series that came back may be in two layers
		}
		w.tag.Add(walk.value, ids)
		if err := w.pace(2 * (len(walk.value) + idCost*len(ids))); err != nil {
			return err
		}
	}
	return walk.err
}

// finish writes what ends the file, syncs and closes it.
func (w *fileWriter) finish(fs vfs.FS, keys section) (FileInfo, error) {
	info := FileInfo{Path: w.path, Series: int(w.all.GetCardinality()), Measurements: w.entries}
	if info.Series > 0 {
		info.MinID, info.MaxID = w.all.Minimum(), w.all.Maximum()
	}
	allOffset, allSize := w.section(w.tag.AppendSet(nil, w.all))
	dirOffset, dirSize := w.section(append(binary.AppendUvarint(nil, uint64(w.entries)), w.dir...))
	info.Bytes = w.offset + footerBytes
	var b []byte
	for _, v := range []uint64{
		uint64(dirOffset), uint64(dirSize), uint64(allOffset), uint64(allSize), uint64(keys.offset), uint64(keys.size),
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
