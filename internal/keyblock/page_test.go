package keyblock

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

func keysOf(p *Page) (keys []string) {
	for i := range p.Ends {
		keys = append(keys, string(p.Key(i)))
	}
	return keys
}

// TestPage packs keys that each form suits best.
func TestPage(t *testing.T) {
	numbered := func(n int, format string) (keys []string) {
		for i := range n {
			keys = append(keys, fmt.Sprintf(format, i))
		}
		return keys
	}
	noise := func(n, bytes int, format string) (keys []string) {
		r := rand.NewChaCha8([32]byte{})
		for range n {
			b := make([]byte, bytes/2)
			_, _ = r.Read(b)
			keys = append(keys, fmt.Sprintf(format, hex.EncodeToString(b)))
		}
		slices.Sort(keys)
		return keys
	}
	const many = 2*long/6000 + 1
	same := noise(1, 4500, "%s")[0]
	var p Page
	packer, noPlain := Packer{}, Packer{NoPlain: true}
	for _, c := range []struct {
		name    string
		keys    []string
		form    Form
		noPlain Form
	}{
		{"one key", []string{"m"}, Plain, Snappy},
		{"two keys", []string{"cpu,host=a", "mem,x=b"}, Plain, Snappy},
		{"too few for columns", numbered(worthwhile-1, "cpu,host=h%02d,region=eu"), Snappy, Snappy},
		{"one tag counts", numbered(128, "cpu,host=h%03d,region=eu"), Columns, Columns},
		{"parts differ in number", append(numbered(60, "cpu,host=%d,region=eu-west,team=abc"), numbered(60, "disk,path=%d")...), Snappy, Snappy},
		{"long page of noise", noise(many, 6000, "m,a=%s"), Snappy, Snappy},
		{"one tag counts, after it", numbered(128, "cpu,host=h%03d,region=eu"), Columns, Columns},
		{"long page, a third of it alike", append(noise(many, 6000, "m,a=%s,b="+same[:1500]), "n,a=,b="), Snappy, Snappy},
		{"long page, most of it alike", append(noise(many, 1500, "m,a=%s,b="+same), "n,a=,b="), Columns, Columns},
		{"parts differ, after it", append(numbered(60, "cpu,host=%d,region=eu-west,team=abc"), numbered(60, "disk,path=%d")...), Snappy, Snappy},
		{"longest key", []string{strings.Repeat("x", model.MaxKeyLength)}, Snappy, Snappy},
	} {
		for _, packer := range []*Packer{&packer, &noPlain} {
			want := c.form
			if packer.NoPlain {
				want = c.noPlain
			}
			form, b := packer.Pack(c.keys)
			if form != want {
				t.Errorf("%s: form %d, want %d", c.name, form, want)
			}
			if err := p.Unpack(form, b, len(c.keys), 1<<20); err != nil || !slices.Equal(keysOf(&p), c.keys) {
				t.Errorf("%s: %v", c.name, err)
			}
			text := 0
			for _, k := range c.keys {
				text += len(k)
			}
			if err := p.Unpack(form, b, len(c.keys), text-1); !errors.Is(err, binio.ErrCorrupt) {
				t.Errorf("%s: beyond the bound of the text: %v", c.name, err)
			}
		}
	}
}

// TestPageDamage: what a checksum did not find is an error, and no wrong key.
func TestPageDamage(t *testing.T) {
	packed := func(b ...byte) []byte { return snappy.Encode(nil, b) }
	for _, c := range []struct {
		name string
		form Form
		b    []byte
		n    int
	}{
		{"no bytes", Plain, nil, 1},
		{"empty key", Plain, []byte{0, 0}, 1},
		{"shares more than there is", Plain, []byte{0, 1, 'm', 2, 0}, 2},
		{"key cut off", Plain, []byte{0, 3, 'm'}, 1},
		{"bytes left over", Plain, []byte{0, 1, 'm', 0}, 1},
		{"varint cut off", Plain, []byte{0, 0x80}, 1},
		{"form not known", 3, []byte{0, 1, 'm'}, 1},
		{"no Snappy", Snappy, []byte{0, 1, 'm'}, 1},
		{"Snappy of a bad key", Snappy, packed(0, 0), 1},
		{"Snappy of a great length", Snappy, []byte{0xff, 0xff, 0x7f, 0}, 1},
		{"columns of nothing", Columns, nil, 1},
	} {
		var p Page
		if err := p.Unpack(c.form, c.b, c.n, 1<<20); !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzPage unpacks arbitrary pages and packs again what was sound.
func FuzzPage(f *testing.F) {
	var packer Packer
	for _, keys := range [][]string{{"m"}, {"cpu,host=a", "cpu,host=b", "mem"}, strings.Split(strings.Repeat("cpu,host=a ", 12)+"cpu,host=b", " ")} {
		form, b := packer.Pack(keys)
		f.Add(byte(form), b, uint16(len(keys)))
	}
	f.Fuzz(func(t *testing.T, form byte, b []byte, n uint16) {
		var p, q Page
		if err := p.Unpack(Form(form), b, int(n), 1<<20); err != nil {
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		keys := keysOf(&p)
		again, b := packer.Pack(keys)
		if err := q.Unpack(again, b, len(keys), 1<<20); err != nil || !slices.Equal(keysOf(&q), keys) {
			t.Fatalf("%q: %v", keys, err)
		}
	})
}
