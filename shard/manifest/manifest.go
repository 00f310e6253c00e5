// Package manifest reads and writes the MANIFEST of a shard, the one commit point
// of its changes: it names the files that count and says how much of the log is
// in them.
//
// A manifest is on disk twice (Names), so that no single damaged file brings back
// what tombstones hide (W5). Every Save has a higher edition than the one before,
// and of two copies the one with the higher edition counts. A change is made when
// one copy is renamed. Files and log entries are given up for it only when both
// are. A crash between the two renames leaves two states that are both whole;
// the next opening of the shard makes the older copy equal to the newer.
package manifest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/model"
	"tsdbd/shard/moves"
)

// Name is the name of the first copy in a shard's directory.
const Name = "MANIFEST"

// Names are the names of both copies.
var Names = [2]string{Name, Name + ".copy"}

// A manifest without cold files has the older version, so that a server that never had any
// can go back to the program from before.
const (
	magic       = "tsdbMAN\x00"
	version     = 5
	versionWarm = 4 // without the flags of TSM files
)

// flagCold marks a cold file, see File.Cold.
const flagCold = 1

// Manifest is the durable state of a shard: the files that count and up to
// where the log is in them.
//
//	magic 8 | version u32 | payload | CRC32C u32 of all before
//	payload: shard uvarint | lineage 16 | edition uvarint | flushed uvarint | next uvarint
//	  count, per TSM file: number, size, checksum u64, min seq, max seq, tombstone seq, level, flags (version 5), bytes of the set of gone series
//	  count, per TSI file: number, size, checksum u64
//	  count, per tombstone: sequence, min varint, max varint, bytes of the series set
//	  count, per move: sequence, change and pairs (moves.Move.Append)
//	  bytes of the removed series set
//
// Integers are uvarints where no width is given; sets are length-prefixed
// roaring bitmaps in the portable format.
type Manifest struct {
	Shard      uint64           `json:"shard"`
	Lineage    identity.Lineage `json:"lineage"` // of the data directory
	Edition    uint64           `json:"edition"` // higher with every change
	Flushed    uint64           `json:"flushed"` // entries of the log up to it need no replay
	Next       uint64           `json:"next"`    // number of the next file
	TSM        []File           `json:"tsm"`     // ascending sequences
	TSI        []File           `json:"tsi"`     // oldest first
	Tombstones []*Tombstone     `json:"tombstones"`
	Moves      []*moves.Move    `json:"moves"` // ascending sequences
	// Removed are series that left the index but are in TSI files.
	Removed *roaring.Bitmap `json:"-"`
}

// Known is what somebody else remembers of a manifest that was on disk. No manifest had
// edition 0: then nothing is known.
type Known struct {
	Edition, Flushed uint64
}

// Known returns what is to be remembered of the manifest.
func (m *Manifest) Known() Known { return Known{m.Edition, m.Flushed} }

// Check returns an error if the manifest is older than the known one.
func (k Known) Check(m *Manifest) error {
	if m.Edition >= k.Edition {
		return nil
	}
	return fmt.Errorf("the manifest of shard %d is older than the ledger says: it has edition %d and entries of the log up to %d, edition %d had those up to %d", m.Shard, m.Edition, m.Flushed, k.Edition, k.Flushed)
}

// File names an immutable file. The checksum is the content hash that its writer
// reported: tsm.Info.Checksum, tsi.FileInfo.Hash.
type File struct {
	Name     string `json:"name"` // see TSMName, TailName and TSIName
	Size     int64  `json:"size"` // of the whole, also if only its tail is here
	Checksum uint64 `json:"checksum"`
	// TSM files only.
	MinSequence        uint64 `json:"min_sequence,omitempty"`
	MaxSequence        uint64 `json:"max_sequence,omitempty"`
	TombstonesSequence uint64 `json:"tombstones_sequence,omitempty"` // tombstones up to it have been applied to the content
	Level              int    `json:"level,omitempty"`
	// Gone are series that are in the file and do not count: a merge that made moves of them
	// has taken their rows to another file. nil: there are none.
	Gone *roaring.Bitmap `json:"-"`
}

// Lacks reports whether the file has a series that does not count any more.
func (f *File) Lacks(id model.SeriesID) bool { return f.Gone != nil && f.Gone.Contains(uint32(id)) }

// Cold reports whether only the tail of a TSM file is in the directory. The whole file is an
// object in the cold store.
func (f *File) Cold() bool { return strings.HasSuffix(f.Name, tailSuffix) }

// Object returns the name of a TSM file where files are named by their content, as in
// backups and in the cold store. The content checksum leaves the footer out, so the name
// also has what the footer adds.
func (f *File) Object() string {
	return fmt.Sprintf("%016x-%x-%x-%x-%x.tsm", f.Checksum, f.Size, f.MinSequence, f.MaxSequence, f.Level)
}

// Tombstone hides the rows of a set of series in a time range, in files whose
// content is older than its sequence (W5).
type Tombstone struct {
	Sequence uint64          `json:"sequence"`
	Range    model.TimeRange `json:"range"`
	Series   *roaring.Bitmap `json:"-"`
}

// Hides reports whether the tombstone applies to the rows of a TSM file.
func (t *Tombstone) Hides(f *File) bool {
	return t.Sequence > f.MaxSequence && t.Sequence > f.TombstonesSequence
}

// TSMName returns the name of the TSM file of a number.
func TSMName(number uint64) string { return fmt.Sprintf("%08d.tsm", number) }

const tailSuffix = ".tail"

// TailName returns the name of the tail of the TSM file of a number.
func TailName(number uint64) string { return fmt.Sprintf("%08d", number) + tailSuffix }

// IsTail reports whether TailName gives a name.
func IsTail(name string) bool {
	_, ok := Number(name)
	return ok && strings.HasSuffix(name, tailSuffix)
}

// TSIName returns the name of the TSI file of a number.
func TSIName(number uint64) string { return fmt.Sprintf("%08d.tsi", number) }

// Number returns the number in a name that TSMName or TSIName gives, or in the
// name of a scratch file that begins like one.
func Number(name string) (uint64, bool) {
	base, _, _ := strings.Cut(name, ".")
	n, err := strconv.ParseUint(base, 10, 64)
	return n, err == nil
}

// New returns the manifest of a shard without files.
func New(shard uint64, lineage identity.Lineage) *Manifest {
	return &Manifest{Shard: shard, Lineage: lineage, Next: 1, Removed: roaring.New()}
}

// Clone returns a copy whose lists of files can be changed.
func (m *Manifest) Clone() *Manifest {
	c := *m
	c.TSM, c.TSI = slices.Clone(m.TSM), slices.Clone(m.TSI)
	return &c
}

// Warm returns the manifest as if no file was cold, for copies that have them whole.
func (m *Manifest) Warm() *Manifest {
	c := m.Clone()
	for i := range c.TSM {
		n, _ := Number(c.TSM[i].Name)
		c.TSM[i].Name = TSMName(n)
	}
	return c
}

// Has reports whether the manifest names a file.
func (m *Manifest) Has(name string) bool {
	named := func(f File) bool { return f.Name == name }
	return slices.ContainsFunc(m.TSM, named) || slices.ContainsFunc(m.TSI, named)
}

// Encode returns the bytes of the manifest.
func (m *Manifest) Encode() ([]byte, error) {
	v := uint32(versionWarm)
	if slices.ContainsFunc(m.TSM, func(f File) bool { return f.Cold() }) {
		v = version
	}
	b := append([]byte(nil), magic...)
	b = binary.LittleEndian.AppendUint32(b, v)
	b = binary.AppendUvarint(b, m.Shard)
	b = append(b, m.Lineage[:]...)
	b = binary.AppendUvarint(b, m.Edition)
	b = binary.AppendUvarint(b, m.Flushed)
	b = binary.AppendUvarint(b, m.Next)
	b = binary.AppendUvarint(b, uint64(len(m.TSM)))
	for _, f := range m.TSM {
		b = f.append(b)
		b = binary.AppendUvarint(b, f.MinSequence)
		b = binary.AppendUvarint(b, f.MaxSequence)
		b = binary.AppendUvarint(b, f.TombstonesSequence)
		b = binary.AppendUvarint(b, uint64(f.Level))
		if v >= version {
			b = binary.AppendUvarint(b, f.flags())
		}
		var err error
		if b, err = appendSet(b, f.Gone); err != nil {
			return nil, err
		}
	}
	b = binary.AppendUvarint(b, uint64(len(m.TSI)))
	for _, f := range m.TSI {
		b = f.append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Tombstones)))
	for _, t := range m.Tombstones {
		b = binary.AppendUvarint(b, t.Sequence)
		b = binary.AppendUvarint(b, binio.ZigZag(t.Range.Min))
		b = binary.AppendUvarint(b, binio.ZigZag(t.Range.Max))
		var err error
		if b, err = appendSet(b, t.Series); err != nil {
			return nil, err
		}
	}
	b = binary.AppendUvarint(b, uint64(len(m.Moves)))
	for _, x := range m.Moves {
		b = binary.AppendUvarint(b, x.Sequence)
		b = x.Append(b)
	}
	b, err := appendSet(b, m.Removed)
	if err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint32(b, binio.Checksum(b)), nil
}

func (f *File) append(b []byte) []byte {
	n, _ := Number(f.Name)
	b = binary.AppendUvarint(b, n)
	b = binary.AppendUvarint(b, uint64(f.Size))
	return binary.LittleEndian.AppendUint64(b, f.Checksum)
}

func (f *File) flags() uint64 {
	if f.Cold() {
		return flagCold
	}
	return 0
}

func (f *File) decode(d *binio.Decoder, name func(number uint64) string) {
	f.Name = name(d.Uvarint())
	f.Size = int64(d.Uvarint())
	f.Checksum = d.Uint64()
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

// Decode reads the bytes of a manifest. Damage is an ErrCorrupt that names path.
func Decode(path string, b []byte) (*Manifest, error) {
	const head = len(magic) + 4
	if len(b) < head+4 || string(b[:len(magic)]) != magic {
		return nil, binio.Corruptf(path, 0, "not a manifest")
	}
	body := b[:len(b)-4]
	if binio.Checksum(body) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, binio.Corruptf(path, 0, "manifest checksum mismatch")
	}
	v := binary.LittleEndian.Uint32(b[len(magic):])
	if err := binio.CheckVersions(path, "shard manifest", uint64(v), versionWarm, version); err != nil {
		return nil, err
	}
	d := binio.NewDecoder(body[head:])
	m := &Manifest{Shard: d.Uvarint()}
	copy(m.Lineage[:], d.Bytes(len(m.Lineage)))
	m.Edition, m.Flushed, m.Next = d.Uvarint(), d.Uvarint(), d.Uvarint()
	for range d.Count(15) {
		var f File
		f.decode(&d, TSMName)
		f.MinSequence, f.MaxSequence, f.TombstonesSequence, f.Level = d.Uvarint(), d.Uvarint(), d.Uvarint(), int(d.Uvarint())
		if v >= version {
			switch flags := d.Uvarint(); flags {
			case 0:
			case flagCold:
				n, _ := Number(f.Name)
				f.Name = TailName(n)
			default:
				d.Fail(fmt.Sprintf("unknown flags %#x of a file", flags))
			}
		}
		if gone := decodeSet(&d); !gone.IsEmpty() {
			f.Gone = gone
		}
		m.TSM = append(m.TSM, f)
	}
	for range d.Count(10) {
		var f File
		f.decode(&d, TSIName)
		m.TSI = append(m.TSI, f)
	}
	for range d.Count(4) {
		t := &Tombstone{Sequence: d.Uvarint()}
		t.Range = model.TimeRange{Min: d.Varint(), Max: d.Varint()}
		t.Series = decodeSet(&d)
		m.Tombstones = append(m.Tombstones, t)
	}
	for range d.Count(10) {
		sequence := d.Uvarint()
		x := moves.Read(&d)
		if d.Err() != nil {
			break
		}
		x.Sequence = sequence
		m.Moves = append(m.Moves, x)
	}
	m.Removed = decodeSet(&d)
	if err := d.Err(); err != nil {
		return nil, binio.Corruptf(path, int64(head+d.Offset()), "manifest: %v", err)
	}
	if d.Len() != 0 {
		return nil, binio.Corruptf(path, int64(head+d.Offset()), "manifest: %d bytes too many", d.Len())
	}
	return m, nil
}
