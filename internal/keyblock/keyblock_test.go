package keyblock

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
)

var update = flag.Bool("update", false, "write golden files that do not exist yet")

// sets are keys of many kinds, all packable.
var sets = map[string][]string{
	"one":      {"cpu"},
	"constant": {"cpu,host=a", "cpu,host=a"},
	"few": {
		"cpu,env=prod,host=a1", "cpu,env=prod,host=a2", "cpu,env=test,host=a1", "cpu,env=prod,host=b",
		"cpu,env=staging,host=a1", "cpu,env=prod,host=a3", "cpu,env=prod,host=c", "cpu,env=test,host=a9",
	},
	"numbers":   {"m,h=9", "m,h=10", "m,h=11", "m,h=8", "m,h=123", "m,h=0"},
	"ascending": {"m,host=h-0000999.example", "m,host=h-0001000.example", "m,host=h-0001007.example", "m,host=h-0009999.example"},
	"fixed":     {"m,id=007,x=1", "m,id=000,x=1", "m,id=999,x=2", "m,id=017,x=10"},
	"mixed":     {"m,id=01", "m,id=1", "m,id=001", "m,id=", "m,id=x"},
	"long":      {"m,id=123456789012345678", "m,id=999999999999999999", "m,id=100000000000000000"},
	"too long":  {"m,id=1234567890123456789", "m,id=9999999999999999999", "m,id=9999999999999999998"},
	"escaped":   {`m\,a,t\,u=x\,1`, `m\,a,t\,u=x\,2`, `m\,b,t\,u=y\,3`},
	"empty":     {"m,a=,b=", "m,a=1,b=", "m,a=,b=2"},
}

// encoder is one for all tests, so that what it keeps is met again.
var encoder Encoder

func roundTrip(t *testing.T, d *Decoder, keys []string) []byte {
	t.Helper()
	before := slices.Clone(keys)
	b, ok := encoder.Append([]byte("x"), keys)
	if !ok {
		t.Fatalf("not packed: %.200q", keys)
	}
	if !slices.Equal(keys, before) {
		t.Fatal("the keys were changed")
	}
	text, ends, err := d.Decode([]byte("y"), []uint32{1}, b[1:], len(keys), 1<<30)
	if err != nil {
		t.Fatalf("%.200q: %v", keys, err)
	}
	for i, k := range keys {
		if got := string(text[ends[i]:ends[i+1]]); got != k {
			t.Fatalf("key %d is %q, want %q", i, got, k)
		}
	}
	if total := len(text) - 1; total > 0 {
		if _, _, err := d.Decode(nil, nil, b[1:], len(keys), total-1); !errors.Is(err, binio.ErrCorrupt) {
			t.Fatalf("text over the bound: %v", err)
		}
	}
	return b[1:]
}

func TestRoundTrip(t *testing.T) {
	var d Decoder
	for name, keys := range sets {
		t.Run(name, func(t *testing.T) { roundTrip(t, &d, keys) })
	}
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for range 3000 {
		keys := make([]string, 1+r.IntN(130))
		forms := make([]int, 1+r.IntN(6))
		for i := range forms {
			forms[i] = r.IntN(8)
		}
		base := r.Uint64N(1 << r.IntN(59))
		for i := range keys {
			parts := []string{"m"}
			for c, form := range forms {
				v := fmt.Sprintf("t%d=", c)
				switch form {
				case 0:
				case 1:
					v += fmt.Sprintf("host-%d", r.IntN(1000))
				case 2:
					v += fmt.Sprintf("h%07d.x", r.IntN(10_000_000))
				case 3:
					v += fmt.Sprint(base + uint64(i)*uint64(r.IntN(20)+20))
				case 4:
					v += []string{"eu", "us", "asia-1", "asia-10"}[r.IntN(4)]
				case 5:
					v += fmt.Sprintf("%x", r.Uint32())
				case 6:
					v += strings.Repeat("7", r.IntN(25))
				case 7:
					v += fmt.Sprint(r.Uint64N(1e18))
				}
				parts = append(parts, v)
			}
			keys[i] = strings.Join(parts, ",")
		}
		if r.IntN(2) == 0 {
			slices.Sort(keys)
		}
		roundTrip(t, &d, keys)
	}
}

func TestNotPacked(t *testing.T) {
	for _, keys := range [][]string{nil, {"m", "m,a=b"}, {"m,a=b", "m"}, make([]string, maxKeys+1)} {
		if b, ok := new(Encoder).Append([]byte("x"), keys); ok || string(b) != "x" {
			t.Fatalf("%d keys: %v %q", len(keys), ok, b)
		}
	}
}

// Keys that differ in a few numbers cost some bits each.
func TestSize(t *testing.T) {
	var keys []string
	for i := range 128 {
		keys = append(keys, fmt.Sprintf("m,app=app-17,dc=dc%d,host=host_%07d,rack=rack-%d,region=region-%d,service=svc-%d", i/13, 1000+i*77, i*77%1000, i*7%40, i*31%50))
	}
	var d Decoder
	if b := roundTrip(t, &d, keys); len(b) > 7*len(keys) {
		t.Fatalf("%d bytes for %d keys", len(b), len(keys))
	}
}

// The bytes of the format.
func TestGolden(t *testing.T) {
	var names []string
	for name := range sets {
		names = append(names, name)
	}
	slices.Sort(names)
	var out bytes.Buffer
	var d Decoder
	for _, name := range names {
		fmt.Fprintf(&out, "%s\n", name)
		for _, k := range sets[name] {
			fmt.Fprintf(&out, "\t%s\n", k)
		}
		fmt.Fprintf(&out, "\t% x\n", roundTrip(t, &d, sets[name]))
	}
	path := filepath.Join("testdata", "blocks.golden")
	want, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(path, out.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil || !bytes.Equal(want, out.Bytes()) {
		t.Fatalf("%v; got\n%s", err, out.Bytes())
	}
}

// Any bytes are keys or damage; keys that come out go in again.
func FuzzDecode(f *testing.F) {
	for _, keys := range sets {
		b, _ := new(Encoder).Append(nil, keys)
		f.Add(b, len(keys))
	}
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		const maxText = 1 << 20
		var d Decoder
		text, ends, err := d.Decode(nil, nil, b, n, maxText)
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) || len(text) != 0 || len(ends) != 0 {
				t.Fatalf("%v, %d bytes, %d ends", err, len(text), len(ends))
			}
			return
		}
		if len(ends) != n || len(text) > maxText {
			t.Fatalf("%d keys of %d, %d bytes", len(ends), n, len(text))
		}
		keys, start := make([]string, n), uint32(0)
		for i, end := range ends {
			keys[i], start = string(text[start:end]), end
		}
		if again, ok := new(Encoder).Append(nil, keys); ok {
			text2, ends2, err := d.Decode(nil, nil, again, n, maxText)
			if err != nil || !bytes.Equal(text2, text) || !slices.Equal(ends2, ends) {
				t.Fatalf("again: %v", err)
			}
		}
	})
}

func BenchmarkKeyBlock(b *testing.B) {
	keys := make([]string, 64)
	for i := range keys {
		keys[i] = fmt.Sprintf("m,app=app-17,dc=dc3,host=host_%07d,rack=rack-%d,region=region-%d,service=svc-%d", 1000+i*1977, i*77%1000, i*7%40, i*31%50)
	}
	var e Encoder
	block, _ := e.Append(nil, keys)
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			block, _ = e.Append(block[:0], keys)
		}
		b.ReportMetric(float64(len(block))/float64(len(keys)), "B/key")
	})
	b.Run("decode", func(b *testing.B) {
		var d Decoder
		var text []byte
		var ends []uint32
		for b.Loop() {
			var err error
			if text, ends, err = d.Decode(text[:0], ends[:0], block, len(keys), 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
}
