package shard

import (
	"encoding/binary"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/model"
)

const (
	manifestName    = "MANIFEST"
	manifestCopy    = "MANIFEST.copy"
	manifestMagic   = "tsdbMAN\x00"
	manifestVersion = 2
)

// manifest is the durable state of a shard: the files that count and up to
// where the log is in them.
//
//	magic 8 | version u32 | payload | CRC32C u32 of all before
//	payload: shard uvarint | lineage 16 | edition uvarint | flushed uvarint | next uvarint
//	  count, per TSM file: number, size, checksum u64, min seq, max seq, tombstone seq, level
//	  count, per TSI file: number, size, checksum u64
//	  count, per tombstone: sequence, min varint, max varint, bytes of the series set
//	  bytes of the removed series set
//
// Integers are uvarints where no width is given; sets are length-prefixed
// roaring bitmaps in the portable format.
type manifest struct {
	shard      uint64
	lineage    identity.Lineage // of the data directory
	edition    uint64           // of two copies the one with the higher edition counts
	flushed    uint64           // entries up to this sequence need no replay
	next       uint64           // number of the next file
	tsm        []fileRecord
	tsi        []fileRecord
	tombstones []*tombstone
	removed    *roaring.Bitmap // series that left the index but stand in TSI files
}

// fileRecord names an immutable file. The checksum is the file's own content
// hash as its writer reported it.
type fileRecord struct {
	number       uint64
	size         int64
	checksum     uint64
	minSequence  uint64 // TSM only, as the rest
	maxSequence  uint64
	tombstoneSeq uint64 // tombstones up to it have been applied to the content
	level        int
}

// tombstone hides the rows of a set of series in a time range, in files whose
// content is older than its sequence (W5).
type tombstone struct {
	sequence uint64
	times    model.TimeRange
	series   *roaring.Bitmap
}

func tsmName(number uint64) string { return fmt.Sprintf("%08d.tsm", number) }
func tsiName(number uint64) string { return fmt.Sprintf("%08d.tsi", number) }

func (m *manifest) encode() ([]byte, error) {
	b := append([]byte(nil), manifestMagic...)
	b = binary.LittleEndian.AppendUint32(b, manifestVersion)
	b = binary.AppendUvarint(b, m.shard)
	b = append(b, m.lineage[:]...)
	b = binary.AppendUvarint(b, m.edition)
	b = binary.AppendUvarint(b, m.flushed)
	b = binary.AppendUvarint(b, m.next)
	b = binary.AppendUvarint(b, uint64(len(m.tsm)))
	for _, f := range m.tsm {
		b = f.append(b)
		b = binary.AppendUvarint(b, f.minSequence)
		b = binary.AppendUvarint(b, f.maxSequence)
		b = binary.AppendUvarint(b, f.tombstoneSeq)
		b = binary.AppendUvarint(b, uint64(f.level))
	}
	b = binary.AppendUvarint(b, uint64(len(m.tsi)))
	for _, f := range m.tsi {
		b = f.append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(m.tombstones)))
	for _, t := range m.tombstones {
		b = binary.AppendUvarint(b, t.sequence)
		b = binary.AppendUvarint(b, binio.ZigZag(t.times.Min))
		b = binary.AppendUvarint(b, binio.ZigZag(t.times.Max))
		var err error
		if b, err = appendSet(b, t.series); err != nil {
			return nil, err
		}
	}
	b, err := appendSet(b, m.removed)
	if err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint32(b, binio.Checksum(b)), nil
}

func (f *fileRecord) append(b []byte) []byte {
	b = binary.AppendUvarint(b, f.number)
	b = binary.AppendUvarint(b, uint64(f.size))
	return binary.LittleEndian.AppendUint64(b, f.checksum)
}

func (f *fileRecord) decode(d *binio.Decoder) {
	f.number = d.Uvarint()
	f.size = int64(d.Uvarint())
	f.checksum = d.Uint64()
}

func appendSet(b []byte, set *roaring.Bitmap) ([]byte, error) {
	if set == nil {
		return binary.AppendUvarint(b, 0), nil
	}
	s, err := set.ToBytes()
	if err != nil {
		return nil, fmt.Errorf("encode series set: %w", err)
	}
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...), nil
}

func decodeSet(d *binio.Decoder) *roaring.Bitmap {
	set := roaring.New()
	if s := d.Bytes(d.Count(1)); len(s) > 0 {
		if err := set.UnmarshalBinary(s); err != nil {
			d.Fail("bad series set: " + err.Error())
		} else if err := set.Validate(); err != nil {
			d.Fail("bad series set: " + err.Error())
		}
	}
	return set
}

// decodeManifest reads a manifest; damage is an ErrCorrupt that names path.
func decodeManifest(path string, b []byte) (*manifest, error) {
	const head = len(manifestMagic) + 4
	if len(b) < head+4 || string(b[:len(manifestMagic)]) != manifestMagic {
		return nil, binio.Corruptf(path, 0, "not a manifest")
	}
	body := b[:len(b)-4]
	if binio.Checksum(body) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, binio.Corruptf(path, 0, "manifest checksum mismatch")
	}
	if v := binary.LittleEndian.Uint32(b[len(manifestMagic):]); v != manifestVersion {
		return nil, fmt.Errorf("open %s: manifest version %d is not known to this program (it knows %d)", path, v, manifestVersion)
	}
	d := binio.NewDecoder(body[head:])
	m := &manifest{shard: d.Uvarint()}
	copy(m.lineage[:], d.Bytes(len(m.lineage)))
	m.edition, m.flushed, m.next = d.Uvarint(), d.Uvarint(), d.Uvarint()
	for range d.Count(14) {
		var f fileRecord
		f.decode(&d)
		f.minSequence, f.maxSequence, f.tombstoneSeq, f.level = d.Uvarint(), d.Uvarint(), d.Uvarint(), int(d.Uvarint())
		m.tsm = append(m.tsm, f)
	}
	for range d.Count(10) {
		var f fileRecord
		f.decode(&d)
		m.tsi = append(m.tsi, f)
	}
	for range d.Count(4) {
		t := &tombstone{sequence: d.Uvarint()}
		t.times = model.TimeRange{Min: d.Varint(), Max: d.Varint()}
		t.series = decodeSet(&d)
		m.tombstones = append(m.tombstones, t)
	}
	m.removed = decodeSet(&d)
	if err := d.Err(); err != nil {
		return nil, binio.Corruptf(path, int64(head+d.Offset()), "manifest: %v", err)
	}
	if d.Len() != 0 {
		return nil, binio.Corruptf(path, int64(head+d.Offset()), "manifest: %d bytes too many", d.Len())
	}
	return m, nil
}
