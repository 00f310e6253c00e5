// Package binio holds what all file formats of tsdbd share: CRC32C, the
// corruption error, and a bounded decoder that remembers its first failure.
// Integers are little-endian or LEB128 varints.
package binio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"syscall"
)

// ErrCorrupt is the class of all damage found by a checksum or a bound.
var ErrCorrupt = errors.New("corrupt")

// Damaged reports whether err says that a file is corrupt or missing. Other
// errors, of the disk or of the format of a newer program, are no damage: the
// file may be sound.
func Damaged(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist)
}

// DamageOf returns the damage that an error of reading a file means for who can write the
// file again: it is corrupt or gone, or the disk cannot read it. Any other error gives nil.
func DamageOf(path string, err error) error {
	switch {
	case errors.Is(err, ErrCorrupt):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return Corruptf(path, -1, "the file is gone")
	case errors.Is(err, syscall.EIO):
		return Corruptf(path, -1, "%v", err)
	}
	return nil
}

// CorruptError says where damage was found. It is an ErrCorrupt.
type CorruptError struct {
	Path   string // file, as far as known
	Offset int64  // byte offset in the file of the damaged unit, -1 if unknown
	Reason string
}

// Corruptf returns a CorruptError for path and offset.
func Corruptf(path string, offset int64, format string, args ...any) error {
	return &CorruptError{Path: path, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

func (e *CorruptError) Error() string {
	switch {
	case e.Path == "":
		return "corrupt: " + e.Reason
	case e.Offset < 0:
		return fmt.Sprintf("corrupt %s: %s", e.Path, e.Reason)
	}
	return fmt.Sprintf("corrupt %s at offset %d: %s", e.Path, e.Offset, e.Reason)
}

// Reason returns what is damaged, without path and offset, or the text of another
// error.
func Reason(err error) string {
	var c *CorruptError
	if errors.As(err, &c) {
		return c.Reason
	}
	return err.Error()
}

// InFile gives damage, or data of another version, without a path that of a file. Other
// errors stay as they are.
func InFile(err error, path string) error {
	var c *CorruptError
	var v *VersionError
	switch {
	case errors.As(err, &c) && c.Path == "":
		return Corruptf(path, -1, "%s", c.Reason)
	case errors.As(err, &v) && v.Path == "":
		in := *v
		in.Path = path
		return &in
	}
	return err
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC32C of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// ChecksumUpdate adds b to a running CRC32C.
func ChecksumUpdate(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// PlacedChecksum is the CRC32C of offset (8 bytes, little-endian) and b: bytes
// that were written to another place of a file do not have it.
func PlacedChecksum(offset int64, b []byte) uint32 {
	var o [8]byte
	binary.LittleEndian.PutUint64(o[:], uint64(offset))
	return ChecksumUpdate(Checksum(o[:]), b)
}

// ZigZag maps signed to unsigned so that small magnitudes stay small.
func ZigZag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

// UnZigZag is the inverse of ZigZag.
func UnZigZag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// Decoder reads a byte slice front to back. After the first failure every
// further read returns zero values and Err returns the failure; callers check
// once at the end. It never reads past the slice and never allocates.
type Decoder struct {
	b   []byte
	off int
	err error
}

// NewDecoder returns a decoder over b.
func NewDecoder(b []byte) Decoder { return Decoder{b: b} }

// Err returns the first failure, an ErrCorrupt, or nil.
func (d *Decoder) Err() error { return d.err }

// Offset returns how many bytes were read.
func (d *Decoder) Offset() int { return d.off }

// Len returns how many bytes are left.
func (d *Decoder) Len() int { return len(d.b) - d.off }

// Fail records a failure at the present offset, if it is the first.
func (d *Decoder) Fail(reason string) {
	if d.err == nil {
		d.err = &CorruptError{Offset: int64(d.off), Reason: reason}
		d.off = len(d.b)
	}
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if d.off >= len(d.b) {
		d.Fail("short buffer")
		return 0
	}
	c := d.b[d.off]
	d.off++
	return c
}

// Bytes reads n bytes, sharing the slice's memory.
func (d *Decoder) Bytes(n int) []byte {
	if n < 0 || n > len(d.b)-d.off {
		d.Fail("short buffer")
		return nil
	}
	s := d.b[d.off : d.off+n : d.off+n]
	d.off += n
	return s
}

// Uint32 reads a little-endian uint32.
func (d *Decoder) Uint32() uint32 {
	if s := d.Bytes(4); s != nil {
		return binary.LittleEndian.Uint32(s)
	}
	return 0
}

// Uint64 reads a little-endian uint64.
func (d *Decoder) Uint64() uint64 {
	if s := d.Bytes(8); s != nil {
		return binary.LittleEndian.Uint64(s)
	}
	return 0
}

// Uvarint reads an unsigned varint.
func (d *Decoder) Uvarint() uint64 {
	v, n := binary.Uvarint(d.b[d.off:])
	if n <= 0 {
		d.Fail("bad varint")
		return 0
	}
	d.off += n
	return v
}

// Varint reads a zigzag varint.
func (d *Decoder) Varint() int64 { return UnZigZag(d.Uvarint()) }

// Uvarint reads an unsigned varint at b[off:] and returns the offset behind it, or
// -1 if there is none.
func Uvarint(b []byte, off int) (uint64, int) {
	if uint(off) < uint(len(b)) {
		if c := b[off]; c < 0x80 {
			return uint64(c), off + 1
		}
		if v, n := binary.Uvarint(b[off:]); n > 0 {
			return v, off + n
		}
	}
	return 0, -1
}

// maxCount is the largest count, an int on every system.
const maxCount = 1<<31 - 1

// Count reads an unsigned varint that counts items of at least minSize bytes
// each that follow; a count that cannot fit in what is left fails, so that no
// caller allocates for it. minSize 0 bounds the count by maxCount.
func (d *Decoder) Count(minSize int) int {
	v := d.Uvarint()
	if limit := uint64(d.Len()); (minSize > 0 && v > limit/uint64(minSize)) || v > maxCount {
		d.Fail("count exceeds buffer")
		return 0
	}
	return int(v)
}

// String reads a varint length and as many bytes.
func (d *Decoder) String() string { return string(d.Bytes(d.Count(1))) }

// AppendString appends a varint length and the bytes of s.
func AppendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
