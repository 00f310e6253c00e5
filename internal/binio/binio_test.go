package binio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
)

func TestDecoderReadsWhatWasWritten(t *testing.T) {
	b := []byte{7}
	b = binary.LittleEndian.AppendUint32(b, 0xdeadbeef)
	b = binary.LittleEndian.AppendUint64(b, math.MaxUint64)
	b = binary.AppendUvarint(b, 300)
	b = binary.AppendUvarint(b, ZigZag(math.MinInt64))
	b = AppendString(b, "text")
	b = binary.AppendUvarint(b, 2)
	b = append(b, 'x', 'y')
	d := NewDecoder(b)
	if c := d.Byte(); c != 7 {
		t.Errorf("Byte %d", c)
	}
	if v := d.Uint32(); v != 0xdeadbeef {
		t.Errorf("Uint32 %x", v)
	}
	if v := d.Uint64(); v != math.MaxUint64 {
		t.Errorf("Uint64 %x", v)
	}
	if v := d.Uvarint(); v != 300 {
		t.Errorf("Uvarint %d", v)
	}
	if v := d.Varint(); v != math.MinInt64 {
		t.Errorf("Varint %d", v)
	}
	if s := d.String(); s != "text" {
		t.Errorf("String %q", s)
	}
	if n := d.Count(1); n != 2 || d.Len() != 2 || d.Offset() != len(b)-2 {
		t.Errorf("Count %d, %d left, at %d", n, d.Len(), d.Offset())
	}
	s := d.Bytes(1)
	if _ = append(s, 'z'); b[len(b)-1] != 'y' {
		t.Error("an append to a part reached what is behind it")
	}
	d.Bytes(1)
	if d.Err() != nil || d.Len() != 0 {
		t.Errorf("%v, %d left", d.Err(), d.Len())
	}
}

// TestDecoderBounds cuts short what each call needs, and goes on: the first
// failure stays, nothing more is read.
func TestDecoderBounds(t *testing.T) {
	long := make([]byte, 11) // a varint that never ends
	for i := range long {
		long[i] = 0x80
	}
	for name, tc := range map[string]struct {
		in   []byte
		call func(d *Decoder) any
		zero any
	}{
		"byte":              {nil, func(d *Decoder) any { return d.Byte() }, byte(0)},
		"bytes":             {[]byte{1, 2}, func(d *Decoder) any { return len(d.Bytes(3)) }, 0},
		"negative bytes":    {[]byte{1, 2}, func(d *Decoder) any { return len(d.Bytes(-1)) }, 0},
		"huge bytes":        {[]byte{1, 2}, func(d *Decoder) any { return len(d.Bytes(math.MaxInt)) }, 0},
		"uint32":            {make([]byte, 3), func(d *Decoder) any { return d.Uint32() }, uint32(0)},
		"uint64":            {make([]byte, 7), func(d *Decoder) any { return d.Uint64() }, uint64(0)},
		"uvarint":           {[]byte{0x80}, func(d *Decoder) any { return d.Uvarint() }, uint64(0)},
		"overlong varint":   {long, func(d *Decoder) any { return d.Uvarint() }, uint64(0)},
		"varint":            {nil, func(d *Decoder) any { return d.Varint() }, int64(0)},
		"string":            {[]byte{4, 'a', 'b', 'c'}, func(d *Decoder) any { return d.String() }, ""},
		"count":             {[]byte{4, 0, 0, 0}, func(d *Decoder) any { return d.Count(1) }, 0},
		"count of words":    {[]byte{2, 0, 0, 0, 0, 0, 0, 0}, func(d *Decoder) any { return d.Count(4) }, 0},
		"unbounded count":   {binary.AppendUvarint(nil, 1<<31+1), func(d *Decoder) any { return d.Count(0) }, 0},
		"overflowing count": {binary.AppendUvarint(nil, math.MaxUint64), func(d *Decoder) any { return d.Count(3) }, 0},
		"fail":              {[]byte{1}, func(d *Decoder) any { d.Fail("own reason"); return 0 }, 0},
	} {
		d := NewDecoder(tc.in)
		if got := tc.call(&d); got != tc.zero {
			t.Errorf("%s: %v, want the zero value", name, got)
		}
		first := d.Err()
		var corrupt *CorruptError
		if !errors.Is(first, ErrCorrupt) || !errors.As(first, &corrupt) || corrupt.Offset > int64(len(tc.in)) {
			t.Errorf("%s: error %v", name, first)
		}
		d.Fail("later")
		if d.Byte() != 0 || d.Uint64() != 0 || d.String() != "" || d.Err() != first || d.Len() != 0 {
			t.Errorf("%s: the decoder went on after %v: %v", name, first, d.Err())
		}
	}
	d := NewDecoder(binary.AppendUvarint(nil, maxCount))
	if n := d.Count(0); n != maxCount || d.Err() != nil {
		t.Errorf("count %d, %v", n, d.Err())
	}
}

func TestZigZag(t *testing.T) {
	for _, v := range []int64{0, -1, 1, -2, 63, -64, math.MaxInt64, math.MinInt64} {
		if got := UnZigZag(ZigZag(v)); got != v {
			t.Errorf("%d came back as %d", v, got)
		}
	}
	if ZigZag(-1) != 1 || ZigZag(1) != 2 || ZigZag(-64) != 127 {
		t.Error("small magnitudes do not stay small")
	}
}

func TestChecksum(t *testing.T) {
	// The check value of CRC-32C.
	if c := Checksum([]byte("123456789")); c != 0xe3069283 {
		t.Errorf("checksum %x", c)
	}
	if ChecksumUpdate(Checksum([]byte("1234")), []byte("56789")) != Checksum([]byte("123456789")) {
		t.Error("a running checksum differs")
	}
}

func TestCorruptError(t *testing.T) {
	err := fmt.Errorf("open: %w", Corruptf("a.tsm", 17, "bad %s", "magic"))
	if !errors.Is(err, ErrCorrupt) || err.Error() != "open: corrupt a.tsm at offset 17: bad magic" {
		t.Error(err)
	}
	if got := Corruptf("a.tsm", -1, "short").Error(); got != "corrupt a.tsm: short" {
		t.Error(got)
	}
	if got := Corruptf("", 3, "short").Error(); got != "corrupt: short" {
		t.Error(got)
	}
}

// FuzzDecoder runs calls chosen by one input over another.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7}, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Fuzz(func(t *testing.T, calls, b []byte) {
		d := NewDecoder(b)
		for _, c := range calls {
			before := d.Offset()
			switch c & 7 {
			case 0:
				d.Byte()
			case 1:
				d.Bytes(int(int8(c)))
			case 2:
				d.Uint32()
			case 3:
				d.Uint64()
			case 4:
				d.Uvarint()
			case 5:
				d.Varint()
			case 6:
				if n := d.Count(int(c >> 3)); c>>3 > 0 && n > d.Len() {
					t.Fatalf("count %d of %d bytes", n, d.Len())
				}
			case 7:
				_ = d.String()
			}
			if d.Offset() < before || d.Offset() > len(b) || d.Len() != len(b)-d.Offset() {
				t.Fatalf("offset %d after %d of %d", d.Offset(), before, len(b))
			}
			if d.Err() != nil && !errors.Is(d.Err(), ErrCorrupt) {
				t.Fatal(d.Err())
			}
		}
	})
}
