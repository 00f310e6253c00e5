package shard

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/tsi"
)

// ManifestName is the name of the manifest in a shard's directory.
const ManifestName = manifestName

// ManifestNames returns the names of its two copies. Of those that are sound the
// one with the higher edition counts.
func ManifestNames() []string { return []string{manifestName, manifestCopy} }

// Manifest is what a shard's manifest says.
type Manifest struct {
	Shard      uint64           `json:"shard"`
	Lineage    identity.Lineage `json:"lineage"` // of the data directory
	Edition    uint64           `json:"edition"` // higher with every change
	Flushed    uint64           `json:"flushed"` // entries of the log up to it are in the files
	Next       uint64           `json:"next"`    // number of the next file
	TSM        []ManifestFile   `json:"tsm"`     // ascending sequences
	TSI        []ManifestFile   `json:"tsi"`     // oldest first
	Tombstones []Tombstone      `json:"tombstones"`
	// Removed are series that left the index but stand in TSI files.
	Removed *roaring.Bitmap `json:"-"`
}

// ManifestFile names an immutable file of a shard.
type ManifestFile struct {
	Name     string `json:"name"`
	Size     int64  `json:"size"`
	Checksum uint64 `json:"checksum"` // as its writer computed it: tsm.Info.Checksum, tsi.FileInfo.Hash
	// TSM files only.
	MinSequence        uint64 `json:"min_sequence,omitempty"`
	MaxSequence        uint64 `json:"max_sequence,omitempty"`
	TombstonesSequence uint64 `json:"tombstones_sequence,omitempty"` // tombstones up to it are applied
	Level              int    `json:"level,omitempty"`
}

// Tombstone hides rows of older files.
type Tombstone struct {
	Sequence uint64          `json:"sequence"`
	Range    model.TimeRange `json:"range"`
	Series   *roaring.Bitmap `json:"-"`
}

// Hides reports whether the tombstone applies to the rows of a TSM file.
func (t *Tombstone) Hides(f *ManifestFile) bool {
	return t.Sequence > f.MaxSequence && t.Sequence > f.TombstonesSequence
}

// ReadManifest reads the manifest of the shard in dir and changes nothing.
// Damage of both copies is a *binio.CorruptError.
func ReadManifest(fsys vfs.FS, dir string) (*Manifest, error) {
	var best *Manifest
	var first error
	for _, n := range ManifestNames() {
		name := dir + "/" + n
		b, err := vfs.ReadFile(fsys, name)
		var m *Manifest
		if err == nil {
			m, err = DecodeManifest(name, b)
		}
		if err == nil {
			if best == nil || m.Edition > best.Edition {
				best = m
			}
			continue
		}
		if !isDamage(err) {
			return nil, err
		}
		if first == nil || errors.Is(first, fs.ErrNotExist) {
			first = err
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, first
}

// DecodeManifest reads a manifest's bytes; path is named in errors.
func DecodeManifest(path string, b []byte) (*Manifest, error) {
	m, err := decodeManifest(path, b)
	if err != nil {
		return nil, err
	}
	return m.export(), nil
}

// Adopt returns the bytes of a manifest, changed to belong to another data
// directory.
func Adopt(path string, encoded []byte, lineage identity.Lineage) ([]byte, error) {
	m, err := decodeManifest(path, encoded)
	if err != nil {
		return nil, err
	}
	m.lineage = lineage
	return m.encode()
}

func (m *manifest) export() *Manifest {
	out := &Manifest{Shard: m.shard, Lineage: m.lineage, Edition: m.edition, Flushed: m.flushed, Next: m.next, Removed: m.removed}
	for _, f := range m.tsm {
		out.TSM = append(out.TSM, ManifestFile{
			Name: tsmName(f.number), Size: f.size, Checksum: f.checksum,
			MinSequence: f.minSequence, MaxSequence: f.maxSequence, TombstonesSequence: f.tombstoneSeq, Level: f.level,
		})
	}
	for _, f := range m.tsi {
		out.TSI = append(out.TSI, ManifestFile{Name: tsiName(f.number), Size: f.size, Checksum: f.checksum})
	}
	for _, t := range m.tombstones {
		out.Tombstones = append(out.Tombstones, Tombstone{Sequence: t.sequence, Range: t.times, Series: t.series})
	}
	return out
}

// Export is a shard's published state, held: its files stay on disk until
// Release, whatever is merged or dropped meanwhile (W6).
type Export struct {
	ID       uint64
	Dir      string
	Manifest *Manifest
	Encoded  []byte // the manifest's bytes, which make Dir's files a shard again

	set   *fileSet
	index *tsi.View
}

// Export references the shard's files, or returns nil when it is closed. Rows
// that only the caches hold are not part of it.
func (s *Shard) Export() (*Export, error) {
	s.mu.RLock()
	if s.mu.closed {
		s.mu.RUnlock()
		return nil, nil
	}
	e := &Export{ID: s.id, Dir: s.dir, set: s.mu.set, index: s.index.View()}
	e.set.acquire()
	m := s.mu.manifest.clone()
	// A delete that came after the last save is in the set alone.
	m.tombstones = slices.Clone(s.mu.set.tombstones)
	s.mu.RUnlock()
	var err error
	if e.Encoded, err = m.encode(); err != nil {
		e.Release()
		return nil, err
	}
	e.Manifest = m.export()
	return e, nil
}

// Release gives the references back.
func (e *Export) Release() {
	e.index.Release()
	e.set.release()
}
