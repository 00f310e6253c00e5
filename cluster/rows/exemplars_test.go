package rows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
)

func decodeExemplars(message []byte) ([]model.Exemplar, error) {
	m, err := OpenExemplars(message)
	if err != nil {
		return nil, err
	}
	return m.Exemplars()
}

// TestExemplars: any exemplars come out as they went in, in messages of the size that was
// said. No change of a byte and no cut is taken for exemplars.
func TestExemplars(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	var message []byte
	for range 300 {
		list := make([]model.Exemplar, rnd.IntN(20))
		for i := range list {
			list[i] = model.Exemplar{
				Series: strings.Repeat("\x00é", rnd.IntN(20)), Labels: strings.Repeat("x", rnd.IntN(200)),
				Time: int64(rnd.Uint64()), Value: []float64{rnd.NormFloat64(), math.Inf(-1)}[rnd.IntN(2)],
			}
		}
		n, size := ExemplarsPart(list, rnd.IntN(1000))
		if n == 0 && len(list) > 0 {
			t.Fatal("no exemplar goes alone")
		}
		message = AppendExemplars([]byte("before"), list[:n])[len("before"):]
		if got, err := decodeExemplars(message); err != nil || len(message) > size || len(got) != n || n > 0 && !reflect.DeepEqual(got, list[:n]) {
			t.Fatalf("%d bytes of %d, %v: decoded %v, want %v", len(message), size, err, got, list[:n])
		}
	}
	nan := AppendExemplars(nil, []model.Exemplar{{Series: "m", Value: math.NaN()}})
	if got, err := decodeExemplars(nan); err != nil || !math.IsNaN(got[0].Value) {
		t.Errorf("%v %v", got, err)
	}
	for i := range message {
		bad := bytes.Clone(message)
		bad[i] ^= 0x81
		if _, err := decodeExemplars(bad); err == nil {
			t.Fatalf("byte %d changed: no error", i)
		}
		if _, err := decodeExemplars(message[:i]); err == nil {
			t.Fatalf("cut at %d: no error", i)
		}
	}
	nan[0]++
	if _, err := decodeExemplars(nan); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
}

// FuzzExemplars gives any bytes a right checksum.
func FuzzExemplars(f *testing.F) {
	message := AppendExemplars(nil, []model.Exemplar{{Series: "m,a=b", Time: -5, Value: 1, Labels: "trace"}, {}})
	f.Add(message[:len(message)-checksumBytes])
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := OpenExemplars(binary.LittleEndian.AppendUint32(bytes.Clone(body), binio.Checksum(body)))
		if err != nil {
			return
		}
		limit := m.Bytes()
		list, err := m.Exemplars()
		used := 0
		for _, x := range list {
			used += int(unsafe.Sizeof(x)) + len(x.Series) + len(x.Labels)
		}
		if used > limit {
			t.Fatalf("%d bytes, Bytes said %d", used, limit)
		}
		if err != nil {
			return
		}
		if again, err := decodeExemplars(AppendExemplars(nil, list)); err != nil || len(again) != len(list) {
			t.Fatalf("encoded again: %v", err)
		}
	})
}
