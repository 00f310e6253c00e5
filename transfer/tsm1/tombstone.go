package tsm1

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// The versions of files of tombstones, by their first four bytes. A file without one of
// them is a list of keys, a line each: version 1.
const (
	tombstones2 = 0x1502 // plain
	tombstones3 = 0x1503 // gzipped
	tombstones4 = 0x1504 // gzipped members, one for each delete
)

// The upper bits of the length of a key in a file of version 4, as the first 2.x releases
// write it.
const (
	prefixBit    = 1 << 31 // the key is the beginning of the keys meant
	predicateBit = 1 << 30 // a predicate follows
)

// tombstone is one delete.
type tombstone struct {
	key    []byte // of a column; valid until the next one
	prefix bool
	times  model.TimeRange
}

// maxTombstoneKey bounds the length of a key.
const maxTombstoneKey = 1 << 17

var errPredicate = errors.New("a delete with a predicate is not known, its rows come back")

// readTombstones calls fn for each delete of a file of tombstones. It continues after a
// delete that it does not know, and then returns errPredicate.
func readTombstones(r io.Reader, fn func(t tombstone) error) error {
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
	case tombstones2:
		_, _ = br.Discard(4)
		return tombstoneEntries(br, 0, fn)
	case tombstones3, tombstones4:
		_, _ = br.Discard(4)
		if _, err := br.Peek(1); err == io.EOF {
			return nil
		}
		z, err := gzip.NewReader(br)
		if err != nil {
			return binio.Corruptf("", 4, "gzip: %v", err)
		}
		flags := uint32(0)
		if v == tombstones4 {
			flags = prefixBit | predicateBit
		}
		return tombstoneEntries(bufio.NewReaderSize(z, 64<<10), flags, fn)
	}
	if len(head) == 4 && v>>8 == tombstones2>>8 {
		return binio.Corruptf("", 0, "tombstones of version %d, only 1 to 4 are known", v&255)
	}
	return tombstoneLines(br, fn)
}

// tombstoneLines reads version 1.
func tombstoneLines(r *bufio.Reader, fn func(t tombstone) error) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxTombstoneKey {
			return binio.Corruptf("", -1, "a line of more than %d bytes", maxTombstoneKey)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && err != io.EOF {
			return err
		}
		if key := bytes.TrimRight(line, "\r\n"); len(key) > 0 {
			if err := fn(tombstone{key: key, times: model.TimeRange{Min: math.MinInt64, Max: math.MaxInt64}}); err != nil {
				return err
			}
		}
		if line = line[:0]; err == io.EOF {
			return nil
		}
	}
}

// tombstoneEntries reads the entries of the other versions: the length of the key in 4
// bytes with flags, the key, and both times in 8 bytes each.
func tombstoneEntries(r *bufio.Reader, flags uint32, fn func(t tombstone) error) error {
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
		if n &^= flags; n == 0 || n > maxTombstoneKey {
			return broken(errors.New("length of a key"))
		}
		buf = grow(buf, int(n)+16)
		if _, err := io.ReadFull(r, buf); err != nil {
			return broken(err)
		}
		at += 4 + int64(len(buf))
		t := tombstone{key: buf[:n], prefix: set&prefixBit != 0}
		t.times.Min = int64(binary.BigEndian.Uint64(buf[n:]))
		t.times.Max = int64(binary.BigEndian.Uint64(buf[n+8:]))
		if set&predicateBit != 0 {
			var b [8]byte
			if _, err := io.ReadFull(r, b[:]); err != nil {
				return broken(err)
			}
			n := binary.BigEndian.Uint64(b[:])
			if n > maxTombstoneKey {
				return broken(errors.New("length of a predicate"))
			}
			if _, err := r.Discard(int(n)); err != nil {
				return broken(err)
			}
			at += 8 + int64(n)
			unknown = errPredicate
			continue
		}
		if err := fn(t); err != nil {
			return err
		}
	}
}

// columnDelete is a delete of a field of a series.
type columnDelete struct {
	field string
	times model.TimeRange
}

// deletes are the tombstones of one TSM file.
type deletes struct {
	path     string
	open     func() (io.ReadCloser, error)
	damage   func(path string, offset int64, err error)
	names    namer
	window   keyWindow[[]columnDelete]
	prefixes []tombstone
	loaded   bool
}

// columnDeleteBytes is about what a delete takes in memory.
const columnDeleteBytes = 48

// maxPrefixes bounds the deletes of prefixes, of which each column looks at all.
const maxPrefixes = 1 << 13

func (d *deletes) load(from string) {
	d.window.reset(from)
	err := d.read()
	if err != nil && !d.loaded {
		d.damage(d.path, offsetOf(err), err)
	}
	if len(d.prefixes) > maxPrefixes && !d.loaded {
		d.damage(d.path, -1, fmt.Errorf("more than %d deletes of prefixes: what the others have deleted comes back", maxPrefixes))
	}
	d.loaded = true
}

func (d *deletes) read() error {
	r, err := d.open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return readTombstones(r, func(t tombstone) error {
		if t.prefix {
			if !d.loaded && len(d.prefixes) <= maxPrefixes {
				t.key = bytes.Clone(t.key)
				d.prefixes = append(d.prefixes, t)
			}
			return nil
		}
		series, field, ok := splitKey(t.key)
		if !ok {
			return nil // of no column
		}
		if list := d.window.slot(d.names.name(series).key, columnDeleteBytes+len(field)); list != nil {
			*list = append(*list, columnDelete{string(field), t.times})
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
		if bytes.HasPrefix(raw, t.key) {
			out = append(out, t.times)
		}
	}
	slices.SortFunc(out, func(a, b model.TimeRange) int {
		switch {
		case a.Min < b.Min:
			return -1
		case a.Min > b.Min:
			return 1
		}
		return 0
	})
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
