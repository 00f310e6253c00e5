package tsm1

import (
	"maps"
	"testing"

	"tsdbd/model"
)

// TestKinds finds fields of several types, also if all fields have one hash.
func TestKinds(t *testing.T) {
	for _, places := range []int{1, minKinds} {
		k := &kindTable{seen: make([]uint8, places)}
		round := func() {
			k.add([]byte("cpu,h=a"), []byte("f"), model.Float, 1000)
			k.add([]byte("cpu,h=b"), []byte("g"), model.Boolean, 1000)
			k.add([]byte(`cpu\,h,h=b`), []byte("f"), model.Integer, 1000)
			if places > 1 && k.clash {
				t.Error("a clash where there is none")
			}
			k.add([]byte("cpu"), []byte("f"), model.String, 999)
			k.add([]byte("mem"), []byte("f"), model.Integer, 10)
			k.add([]byte("mem,h=a"), []byte("f"), model.Unsigned, 11)
		}
		round()
		if !k.clash {
			t.Errorf("%d places: no clash", places)
		}
		k.recount()
		k.clash = false
		round()
		want := map[string]model.FieldType{"cpu\x00f": model.Float, "mem\x00f": model.Unsigned}
		if got := k.clashes(); !maps.Equal(got, want) {
			t.Errorf("%d places: %v, want %v", places, got, want)
		}
	}
	if n := len(newKindTable(1 << 40).seen); n != maxKinds {
		t.Errorf("%d places for a large index", n)
	}
}
