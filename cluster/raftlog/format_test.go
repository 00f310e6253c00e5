package raftlog

import (
	"encoding/binary"
	"errors"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/testkit/formats"
	"tsdbd/internal/vfs/vfstest"
)

var testID = identity.Lineage{0xfe, 0xed, 3: 1}

// goldenLog returns a log that has something of everything.
func goldenLog(t testing.TB) *vfstest.FS {
	t.Helper()
	f := vfstest.New()
	must(t, errors.Join(f.MkdirAll("/data"), f.SyncDir("/")))
	base := Base{Index: 6, Term: 2, Sequence: 99, Configuration: members(3), ConfigurationIndex: 1}
	must(t, create(f, testDir, baseFile{id: testID, base: base}))
	s := mustOpen(t, f, Options{SegmentBytes: 4 << 10})
	must(t, s.StoreLogs([]*raft.Log{
		{Index: 7, Term: 2, Type: raft.LogNoop},
		{Index: 8, Term: 2, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(members(1))},
		{Index: 9, Term: 3, Data: []byte("ninth"), Extensions: []byte("more"), AppendedAt: time.Unix(1, 5)},
		{Index: 10, Term: 3, Data: []byte("tenth")},
	}))
	s.Commit(8)
	must(t, s.DeleteRange(10, 10))
	must(t, s.StoreLog(&raft.Log{Index: 10, Term: 4, Data: []byte(strings.Repeat("another ", 70))}))
	s.Commit(10)
	must(t, s.SaveCommit())
	must(t, s.SetUint64([]byte("CurrentTerm"), 4))
	must(t, s.Set([]byte("LastVoteCand"), []byte("10.0.0.1:8088")))
	must(t, s.SetUint64([]byte("LastVoteTerm"), 4))
	must(t, s.Close())
	return f
}

// TestGolden holds the formats still.
func TestGolden(t *testing.T) {
	f := goldenLog(t)
	for _, name := range f.Files() {
		content := f.Content(name)
		switch path.Base(name) {
		case baseName, stableName:
			magic, slot := baseMagic, int64(baseSlot)
			if path.Base(name) == stableName {
				magic, slot = stableMagic, stableSlot
			}
			if int64(len(content)) != 2*slot {
				t.Fatalf("%s has %d bytes", name, len(content))
			}
			g, payload, err := decodePair(magic, 0, content[:slot])
			must(t, err)
			g2, payload2, err := decodePair(magic, slot, content[slot:])
			must(t, err)
			if g != g2 || !slices.Equal(payload, payload2) {
				t.Errorf("the copies in %s differ", name)
			}
			formats.Golden(t, "v1."+path.Base(name)+".golden", content[:pairHeaderBytes+len(payload)+4])
		default:
			formats.Golden(t, "v2"+segmentSuffix+".golden", content)
		}
	}
	formats.Examples(t, "raftlog.md")
}

// TestVersions refuses files of other versions, without a word of damage.
func TestVersions(t *testing.T) {
	change := func(name string, at int64, sum func(b []byte)) {
		t.Helper()
		for _, by := range []int{-1, 1} {
			f := goldenLog(t)
			b := f.Content(name)
			b[at] += byte(by)
			sum(b)
			must(t, f.Put(name, b))
			if _, err := Open(f, testDir, Options{}); !errors.Is(err, binio.ErrVersion) {
				t.Errorf("%s of version %d: %v", name, b[at], err)
			}
		}
	}
	change(segmentPath(testDir, 1), 8, func(b []byte) { binary.LittleEndian.PutUint32(b[headerCRC:], binio.Checksum(b[:headerCRC])) })
	for _, name := range []string{baseName, stableName} {
		change(path.Join(testDir, name), 8, func(b []byte) {
			n := pairHeaderBytes + binary.LittleEndian.Uint32(b[12:])
			binary.LittleEndian.PutUint32(b[n:], binio.PlacedChecksum(0, b[:n]))
		})
	}
}

// resum makes every checksum of a segment right, so that the fuzzer gets past them.
func resum(b []byte) []byte {
	if len(b) < sectorBytes {
		return b
	}
	b = b[:len(b)/sectorBytes*sectorBytes]
	copy(b, segmentMagic)
	binary.LittleEndian.PutUint32(b[8:], segmentVersion)
	copy(b[12:], testID[:])
	binary.LittleEndian.PutUint64(b[28:], 1)
	binary.LittleEndian.PutUint64(b[52:], uint64(len(b)))
	binary.LittleEndian.PutUint32(b[headerCRC:], binio.Checksum(b[:headerCRC]))
	h := segmentHeader{id: testID, number: 1}
	for off := int64(sectorBytes); off < int64(len(b)); {
		header := b[off+1:]
		b[off], header[batchHeaderBytes-1] = stampStart, headerMark
		binary.LittleEndian.PutUint32(header, batchChecksum(h.salt(), off, header))
		batch, ok := parseBatchHeader(b[off:], h.salt(), off)
		next := off + sectorsOf(batch.length)*sectorBytes
		if !ok || next > int64(len(b)) {
			break
		}
		stream := unstamp(nil, b[off:next], off)
		stream[batch.length-1] = endMark
		for at := int64(batchHeaderBytes); at+entryHeaderBytes < batch.length; {
			n := entryLength(stream[at:])
			if at+n >= batch.length {
				break
			}
			binary.LittleEndian.PutUint32(stream[at:], binio.ChecksumUpdate(h.salt(), stream[at+4:at+n]))
			at += n
		}
		copy(b[off:], appendSectors(nil, stream))
		off = next
	}
	return b
}

// FuzzSegment opens a log whose only segment is the input: no panic, and what is read without
// damage can be gone on with.
func FuzzSegment(f *testing.F) {
	golden := goldenLog(f).Content(segmentPath(testDir, 1))
	f.Add(golden, false)
	f.Add(golden, true)
	f.Add(golden[:1024], true)
	f.Add(append(slices.Clone(golden[:1536]), golden[512:1536]...), true)
	f.Fuzz(func(t *testing.T, data []byte, mend bool) {
		if mend {
			data = resum(slices.Clone(data))
		}
		fs := vfstest.New()
		must(t, errors.Join(fs.MkdirAll("/data"), fs.SyncDir("/")))
		must(t, create(fs, testDir, baseFile{id: testID, segment: 1, base: Base{Index: 6, Term: 2}}))
		must(t, fs.Put(segmentPath(testDir, 1), data))
		s, err := Open(fs, testDir, small)
		if errors.Is(err, binio.ErrVersion) {
			return
		}
		must(t, err)
		if len(s.Damage()) > 0 {
			must(t, s.Close())
			return
		}
		next, _ := s.LastIndex()
		next = max(next, s.next-1) + 1
		if next > maxIndex {
			return
		}
		must(t, s.StoreLog(&raft.Log{Index: next, Term: 9}))
		before := s.Stats()
		must(t, s.Close())
		s = mustOpen(t, fs, small)
		if st := s.Stats(); st.First != before.First || st.Last != before.Last {
			t.Fatalf("%+v, before %+v", st, before)
		}
		must(t, s.Close())
	})
}

// FuzzPair reads the base and the stable store: garbage is a binio.ErrCorrupt, and what is
// read is what was written.
func FuzzPair(f *testing.F) {
	golden := goldenLog(f)
	for _, name := range []string{baseName, stableName} {
		b := golden.Content(path.Join(testDir, name))
		n := binary.LittleEndian.Uint32(b[12:])
		f.Add(b[:pairHeaderBytes+n+4])
		f.Add(b[pairHeaderBytes : pairHeaderBytes+n])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, payload, err := decodePair(baseMagic, 0, data); err == nil {
			data = payload
		} else if !errors.Is(err, binio.ErrCorrupt) && !errors.Is(err, binio.ErrVersion) {
			t.Fatal(err)
		}
		if b, err := decodeBase(data); err == nil {
			if again, err := decodeBase(b.encode()); err != nil || again.base.Index != b.base.Index || again.segment != b.segment {
				t.Fatalf("%+v, then %+v, %v", b, again, err)
			}
		} else if !errors.Is(err, binio.ErrCorrupt) {
			t.Fatal(err)
		}
		if s, err := decodeStable(data); err == nil {
			again, err := decodeStable(s.encode())
			if err != nil || len(again.values) != len(s.values) {
				t.Fatalf("%+v, then %+v, %v", s, again, err)
			}
		} else if !errors.Is(err, binio.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
