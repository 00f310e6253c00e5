package tsm1

import (
	"bytes"
	"encoding/binary"
	"io"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/transfer/tsm1/block"
)

// The header of a TSM file: a magic number and the version.
const (
	magic       = 0x16D116D1
	version     = 1
	headerBytes = 5
	footerBytes = 8
	entryBytes  = 28 // of one block in the index
)

// blockRef is a block by its entry in the index.
type blockRef struct {
	times  model.TimeRange
	offset int64
	size   uint32
}

// window is a part of a file in memory.
type window struct {
	buf []byte
	at  int64
}

// tsmFile reads a TSM file by pieces. It belongs to one goroutine.
type tsmFile struct {
	path  string
	r     io.ReaderAt
	size  int64
	index int64 // where the index begins
	data  window
	block []byte // a block that was read alone
}

// openTSM checks the frame of a file.
func openTSM(path string, r io.ReaderAt, size int64) (*tsmFile, error) {
	f := &tsmFile{path: path, r: r, size: size}
	var b [footerBytes]byte
	if size == 0 {
		return nil, binio.Corruptf(path, 0, "file is empty")
	}
	if size < headerBytes+footerBytes {
		return nil, binio.Corruptf(path, 0, "file of %d bytes", size)
	}
	if _, err := r.ReadAt(b[:headerBytes], 0); err != nil {
		return nil, err
	}
	if m := binary.BigEndian.Uint32(b[:]); m != magic {
		return nil, binio.Corruptf(path, 0, "not a TSM file, it begins with %08x", m)
	}
	if b[4] != version {
		return nil, binio.Corruptf(path, 4, "TSM file of version %d, only version %d is known", b[4], version)
	}
	if _, err := r.ReadAt(b[:], size-footerBytes); err != nil && err != io.EOF {
		return nil, err
	}
	at := binary.BigEndian.Uint64(b[:])
	if at < headerBytes || at > uint64(size-footerBytes) {
		return nil, binio.Corruptf(path, size-footerBytes, "file without the place of its index, it is cut or half copied")
	}
	f.index = int64(at)
	return f, nil
}

const (
	// dataWindow is how much of the blocks is read at a time while they come one after
	// the other.
	dataWindow = 256 << 10
	// dataGap is how far behind the window a block may be that continues it.
	dataGap = 64 << 10
)

// readBlock returns the bytes of a block, valid until the next call.
func (f *tsmFile) readBlock(ref blockRef) ([]byte, error) {
	size := int64(ref.size)
	if ref.offset < headerBytes || ref.offset > f.index || size > f.index-ref.offset {
		return nil, binio.Corruptf(f.path, ref.offset, "block of %d bytes beyond the blocks", size)
	}
	w := &f.data
	if at := ref.offset - w.at; at >= 0 && at+size <= int64(len(w.buf)) {
		return w.buf[at : at+size], nil
	}
	end := w.at + int64(len(w.buf))
	if size > dataWindow || ref.offset < w.at || ref.offset > end+dataGap {
		w.at, w.buf = ref.offset+size, w.buf[:0]
		f.block = grow(f.block, int(size))
		return f.block, f.read(f.block, ref.offset)
	}
	w.at, w.buf = ref.offset, grow(w.buf, int(min(dataWindow, f.index-ref.offset)))
	if err := f.read(w.buf, w.at); err != nil {
		w.buf = w.buf[:0]
		return nil, err
	}
	return w.buf[:size], nil
}

// read fills b from an offset.
func (f *tsmFile) read(b []byte, offset int64) error {
	n, err := f.r.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return binio.Corruptf(f.path, offset, "file ends in %d bytes that were there, it is being changed", len(b))
	}
	return err
}

// grow returns a slice of n bytes, in the memory of b if that is large enough.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// indexKey is the key of a column in the index with its blocks.
type indexKey struct {
	offset        int64 // of its entry
	disorder      bool  // it is not above the key before it
	series, field []byte
	kind          model.FieldType
	entries       []byte
}

// count returns the number of blocks.
func (k *indexKey) count() int { return len(k.entries) / entryBytes }

// ref returns block i.
func (k *indexKey) ref(i int) blockRef {
	b := k.entries[i*entryBytes:]
	return blockRef{
		times:  model.TimeRange{Min: int64(binary.BigEndian.Uint64(b)), Max: int64(binary.BigEndian.Uint64(b[8:]))},
		offset: int64(binary.BigEndian.Uint64(b[16:])), size: binary.BigEndian.Uint32(b[24:]),
	}
}

// indexStream reads the index of a file from a key on.
type indexStream struct {
	f   *tsmFile
	at  int64 // of the next key
	len int   // of what is read at a time
	buf window
	key []byte // the latest one
}

// stream returns a stream from the key at an offset on.
func (f *tsmFile) stream(offset int64, window int) *indexStream {
	return &indexStream{f: f, at: offset, len: window}
}

// next returns the next key, valid until the next call, or io.EOF.
func (s *indexStream) next() (k indexKey, err error) {
	if s.at == s.f.size-footerBytes {
		return k, io.EOF
	}
	k.offset = s.at
	b, err := s.peek(2)
	if err != nil {
		return k, err
	}
	n := int(binary.BigEndian.Uint16(b))
	if b, err = s.peek(2 + n + 3); err != nil {
		return k, err
	}
	count := int(binary.BigEndian.Uint16(b[2+n+1:]))
	if b, err = s.peek(2 + n + 3 + count*entryBytes); err != nil {
		return k, err
	}
	s.at += int64(len(b))
	k.kind = block.TypeOf(b[2+n])
	k.entries = b[2+n+3:]
	var ok bool
	k.disorder = bytes.Compare(b[2:2+n], s.key) <= 0
	s.key = append(s.key[:0], b[2:2+n]...)
	if k.series, k.field, ok = splitKey(b[2 : 2+n]); !ok || k.kind == model.Unknown || count == 0 {
		return k, binio.Corruptf(s.f.path, k.offset, "index entry of type %d with %d blocks", b[2+n], count)
	}
	return k, nil
}

// peek returns the next n bytes.
func (s *indexStream) peek(n int) ([]byte, error) {
	w := &s.buf
	if at := s.at - w.at; at >= 0 && at+int64(n) <= int64(len(w.buf)) {
		return w.buf[at : at+int64(n)], nil
	}
	left := s.f.size - footerBytes - s.at
	if int64(n) > left {
		return nil, binio.Corruptf(s.f.path, s.at, "index ends in an entry")
	}
	w.at, w.buf = s.at, grow(w.buf, int(min(left, int64(max(n, s.len)))))
	if err := s.f.read(w.buf, w.at); err != nil {
		w.buf = w.buf[:0]
		return nil, err
	}
	return w.buf[:n], nil
}
