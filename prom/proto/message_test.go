package proto

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestNext reads members of each kind, and what is no message.
func TestNext(t *testing.T) {
	tag := protowire.AppendTag
	f := func(b []byte, want string) {
		t.Helper()
		var got strings.Builder
		r := Read(b)
		for r.Next() {
			fmt.Fprintf(&got, "%d/%d=%d %q\n", r.Field, r.Kind, r.Num, r.Data)
		}
		if r.Err != nil {
			fmt.Fprintf(&got, "%d: %v", r.Field, r.Err)
		}
		if text := strings.TrimSpace(got.String()); text != want {
			t.Errorf("%x:\n got %s\nwant %s", b, text, want)
		}
	}
	f(nil, "")
	b := protowire.AppendVarint(tag(nil, 1, protowire.VarintType), 300)
	b = protowire.AppendString(tag(b, 2, protowire.BytesType), "two")
	b = protowire.AppendFixed64(tag(b, 3, protowire.Fixed64Type), 3)
	b = protowire.AppendFixed32(tag(b, 4, protowire.Fixed32Type), 4)
	b = append(tag(b, 5, protowire.StartGroupType), 0x08, 1)
	b = tag(b, 5, protowire.EndGroupType)
	b = protowire.AppendString(tag(b, 6, protowire.BytesType), "")
	f(b, "1/0=300 \"\"\n2/2=0 \"two\"\n3/1=3 \"\"\n4/5=4 \"\"\n0/3=0 \"\"\n6/2=0 \"\"")
	const invalid = "proto: cannot parse invalid wire-format data"
	f([]byte{0xff}, "0: "+invalid)
	f([]byte{0x08}, "1: "+invalid)       // no number
	f([]byte{0x08, 0x80}, "1: "+invalid) // half of one
	f([]byte{0x12, 2, 'x'}, "2: "+invalid)
	f([]byte{0x19, 1, 2, 3}, "3: "+invalid)
	f([]byte{0x25, 1, 2, 3}, "4: "+invalid)
	f([]byte{0x2b, 0x08, 1}, "5: "+invalid) // a group without an end
	f([]byte{0x2c}, "5: "+invalid)          // an end without a group
	f([]byte{0x00, 0}, "0: "+invalid)       // field 0
}

// TestRepeated reads numbers that come packed and one by one.
func TestRepeated(t *testing.T) {
	f := func(m Member, most int, want string) {
		t.Helper()
		varints, err := AppendVarints(nil, &m, most, protowire.DecodeZigZag)
		fixed, err2 := AppendFixed([]float64{0.5}, &m, most, math.Float64frombits)
		if got := fmt.Sprint(varints, errors.Is(err, ErrInvalid), fixed, errors.Is(err2, ErrInvalid)); got != want {
			t.Errorf("%+v, %d: got %s, want %s", m, most, got, want)
		}
	}
	one := math.Float64bits(1)
	f(Member{Num: 3}, 9, "[-2] false [0.5 1.5e-323] false")
	f(Member{Num: one}, 1, fmt.Sprint([]int64{protowire.DecodeZigZag(one)}, " false [0.5] false"))
	f(Member{Data: []byte{}}, 9, "[] false [0.5] false")
	f(Member{Data: []byte{1, 2, 0, 0, 0, 0, 0, 0}}, 2, "[-1 1] false [0.5 2.535e-321] false")
	f(Member{Data: []byte{2, 0x80}}, 9, "[1] true [0.5] true")
}

func FuzzNext(f *testing.F) {
	f.Add([]byte{0x08, 1, 0x12, 2, 'a', 'b', 0x2b, 0x08, 1, 0x2c})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, left := Read(b), len(b)
		for r.Next() {
			if len(r.Rest) >= left {
				t.Fatal("nothing is read")
			}
			left = len(r.Rest)
		}
		if r.Err == nil && len(r.Rest) > 0 {
			t.Errorf("%d bytes are left without an error", len(r.Rest))
		}
	})
}
