// Package tombstone reads the files of tombstones that InfluxDB keeps next to TSM files, in
// the versions 1 to 4. docs/formats/influxdb-tsm1.md describes the bytes.
//
// A damaged file ends at its damage, with an error of binio.ErrCorrupt. Read keeps one delete
// in memory at a time. It is safe for concurrent use.
package tombstone

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// The versions of files of tombstones, by their first four bytes. A file without one of
// them is a list of keys, a line each: version 1.
const (
	version2 = 0x1502 // plain
	version3 = 0x1503 // gzipped
	version4 = 0x1504 // gzipped members, one for each delete
)

// The upper bits of the length of a key in a file of version 4, as the first 2.x releases
// write it.
const (
	prefixBit    = 1 << 31 // the key is the beginning of the keys meant
	predicateBit = 1 << 30 // a predicate follows
)

// Delete is one delete.
type Delete struct {
	Key    []byte // of a column; valid until the next one
	Prefix bool   // Key is the beginning of the keys meant
	Times  model.TimeRange
}

// maxKey bounds the length of a key.
const maxKey = 1 << 17

// ErrPredicate is the error of a delete that Read does not know.
var ErrPredicate = errors.New("a delete with a predicate is not known, its rows come back")

// Read calls fn for each delete of a file of tombstones. It continues after a
// delete that it does not know, and then returns ErrPredicate.
func Read(r io.Reader, fn func(d Delete) error) error {
	br := bufio.NewReaderSize(r, 64<<10)
	head, err := br.Peek(4)
	if err != nil && err != io.EOF {
		return err
	}
	v := uint32(0)
	if len(head) == 4 {
		v = binary.BigEndian.Uint32(head)
	}
	switch v {
	case version2:
		_, _ = br.Discard(4)
		return entries(br, 0, fn)
	case version3, version4:
		_, _ = br.Discard(4)
		if _, err := br.Peek(1); err == io.EOF {
			return nil
		}
		z, err := gzip.NewReader(br)
		if err != nil {
			return binio.Corruptf("", 4, "gzip: %v", err)
		}
		flags := uint32(0)
		if v == version4 {
			flags = prefixBit | predicateBit
		}
		return entries(bufio.NewReaderSize(z, 64<<10), flags, fn)
	}
	if len(head) == 4 && v>>8 == version2>>8 {
		return binio.Corruptf("", 0, "tombstones of version %d, only 1 to 4 are known", v&255)
	}
	return lines(br, fn)
}

// lines reads version 1.
func lines(r *bufio.Reader, fn func(d Delete) error) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxKey {
			return binio.Corruptf("", -1, "a line of more than %d bytes", maxKey)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && err != io.EOF {
			return err
		}
		if key := bytes.TrimRight(line, "\r\n"); len(key) > 0 {
			if err := fn(Delete{Key: key, Times: model.TimeRange{Min: math.MinInt64, Max: math.MaxInt64}}); err != nil {
				return err
			}
		}
		if line = line[:0]; err == io.EOF {
			return nil
		}
	}
}

// entries reads the entries of the other versions: the length of the key in 4
// bytes with flags, the key, and both times in 8 bytes each.
func entries(r *bufio.Reader, flags uint32, fn func(d Delete) error) error {
	var buf []byte
	var unknown error
	at := int64(0)
	broken := func(err error) error {
		return binio.Corruptf("", -1, "the deletes end after %d bytes: %v", at, err)
	}
	for {
		var b [4]byte
		if _, err := io.ReadFull(r, b[:]); err == io.EOF {
			return unknown
		} else if err != nil {
			return broken(err)
		}
		n := binary.BigEndian.Uint32(b[:])
		set := n & flags
		if n &^= flags; n == 0 || n > maxKey {
			return broken(errors.New("length of a key"))
		}
		buf = slices.Grow(buf[:0], int(n)+16)[:n+16]
		if _, err := io.ReadFull(r, buf); err != nil {
			return broken(err)
		}
		at += 4 + int64(len(buf))
		d := Delete{Key: buf[:n], Prefix: set&prefixBit != 0}
		d.Times.Min = int64(binary.BigEndian.Uint64(buf[n:]))
		d.Times.Max = int64(binary.BigEndian.Uint64(buf[n+8:]))
		if set&predicateBit != 0 {
			var b [8]byte
			if _, err := io.ReadFull(r, b[:]); err != nil {
				return broken(err)
			}
			n := binary.BigEndian.Uint64(b[:])
			if n > maxKey {
				return broken(errors.New("length of a predicate"))
			}
			if _, err := r.Discard(int(n)); err != nil {
				return broken(err)
			}
			at += 8 + int64(n)
			unknown = ErrPredicate
			continue
		}
		if err := fn(d); err != nil {
			return err
		}
	}
}
