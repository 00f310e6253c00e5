package series

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/keyblock"
	"tsdbd/model"
)

func wantCorrupt(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, binio.ErrCorrupt) {
		t.Fatalf("error is not ErrCorrupt: %v", err)
	}
}

// FuzzBlock feeds payloads with a right checksum.
func FuzzBlock(f *testing.F) {
	var packer keyblock.Packer
	b := appendBlock(nil, 16, 16, 1, []string{"cpu,host=a", "cpu,host=b", "m"}, &packer)
	f.Add(b[blockHeaderBytes:], uint16(3))
	f.Add([]byte{0}, uint16(1))
	f.Fuzz(func(t *testing.T, payload []byte, count uint16) {
		h := blockHeader{length: len(payload), first: 1, count: int(count), payloadCRC: binio.Checksum(payload)}
		block, err := decodeBlock(&h, payload)
		wantCorrupt(t, err)
		if err != nil {
			return
		}
		var keys []string
		for i := range block.ends {
			keys = append(keys, block.key(1+uint32(i)))
		}
		if len(keys) == 0 {
			return
		}
		again := appendBlock(nil, 16, 16, 1, keys, new(keyblock.Packer))
		h, ok := parseBlockHeader(again, 16)
		if !ok {
			t.Fatal("own header refused")
		}
		other, err := decodeBlock(&h, again[blockHeaderBytes:])
		if err != nil || other.text != block.text {
			t.Fatalf("round trip: %v", err)
		}
	})
}

// FuzzFile opens arbitrary logs and index files and uses what opens.
func FuzzFile(f *testing.F) {
	fs := newFS()
	sf := openSeries(f, fs, Options{})
	create(f, sf, "cpu,host=a", "cpu,host=b", "mem,host=c")
	sf.mu.stale = true
	if err := sf.Close(); err != nil {
		f.Fatal(err)
	}
	log, idx := fs.Content("db/series.log"), fs.Content("db/series.idx")
	f.Add(log, idx)
	f.Add(log, []byte(nil))
	f.Add(append(slices.Clone(log), log...), idx)
	f.Add(log[:len(log)-3], idx)
	f.Fuzz(func(t *testing.T, log, idx []byte) {
		fs := newFS()
		put(t, fs, "db/series.log", slices.Clone(log))
		if len(idx) > 0 {
			// Make the header's checksum right, so that what is behind it is met.
			idx = slices.Clone(idx)
			if len(idx) >= indexHeaderBytes {
				binary.LittleEndian.PutUint32(idx[indexHeaderBytes-4:], binio.Checksum(idx[:indexHeaderBytes-4]))
			}
			put(t, fs, "db/series.idx", idx)
		}
		sf, err := Open(fs, "db", Options{})
		wantCorrupt(t, err)
		if err != nil {
			return
		}
		for id := model.SeriesID(1); id < 6; id++ {
			key, err := sf.Key(id)
			if err != nil {
				continue
			}
			if got, ok := sf.Lookup(key); ok && got != id {
				if again, err := sf.Key(got); err != nil || again != key {
					t.Fatalf("Lookup(%q) = %d, whose key is %q", key, got, again)
				}
			}
		}
		sf.Verify(nil)
		ids := make([]model.SeriesID, 1)
		if err := settle(sf, []string{"brand,new=1"}, ids); err == nil {
			if err := sf.Sync(); err != nil {
				t.Fatal(err)
			}
			if key, err := sf.Key(ids[0]); err != nil || key != "brand,new=1" {
				t.Fatalf("Key(%d) = %q, %v", ids[0], key, err)
			}
		}
	})
}
