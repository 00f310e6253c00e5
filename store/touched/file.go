package touched

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
)

// Name is the name of the file in the directory of the catalog.
const Name = "touched"

// The file is a header and the downsamples:
//
//	header   | magic "TSDBDTCH" 8 | version u32 | lineage 16 | length u64 | crc u32 |
//	downsample id uvarint, set of the source, set of the target
//	set      spans of all measurements, count uvarint, then for each
//	         measurement, in order: length uvarint, name, spans
//	spans    count uvarint, then for each: from varint, less the end of the one before
//	         it, length uvarint, sequence uvarint
//
// Fixed integers are little-endian. length is that of the downsamples; crc is the CRC32C of
// everything before it and of the downsamples.
const (
	magic       = "TSDBDTCH"
	version     = 2
	headerBytes = 40
	crcOffset   = headerBytes - 4
)

// encode returns the file of the marks, for a data directory. m.mu is held.
func (m *Marks) encode(lineage identity.Lineage) []byte {
	var b []byte
	for _, id := range slices.Sorted(maps.Keys(m.downsamples)) {
		t := m.downsamples[id]
		b = binary.AppendUvarint(b, id)
		b = t.append(b, func(sp span) (uint64, bool) { return sp.source, sp.source > 0 || sp.target == 0 })
		b = t.append(b, func(sp span) (uint64, bool) { return sp.target, sp.target > 0 })
	}
	return seal(lineage, b)
}

// append appends the spans of a set: sequence returns when one was touched, and whether it
// is in the set.
func (t *downsample) append(b []byte, sequence func(span) (uint64, bool)) []byte {
	sets := map[string]spans{}
	for name, s := range t.marks {
		for _, sp := range s {
			if of, ok := sequence(sp); ok {
				sets[name] = append(sets[name], span{from: sp.from, to: sp.to, source: of})
			}
		}
	}
	b = appendSpans(b, sets[""])
	delete(sets, "")
	b = binary.AppendUvarint(b, uint64(len(sets)))
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		b = binio.AppendString(b, name)
		b = appendSpans(b, sets[name])
	}
	return b
}

// seal puts the header before the downsamples.
func seal(lineage identity.Lineage, b []byte) []byte {
	out := make([]byte, 0, headerBytes+len(b))
	out = append(out, magic...)
	out = binary.LittleEndian.AppendUint32(out, version)
	out = append(out, lineage[:]...)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(b)))
	out = binary.LittleEndian.AppendUint32(out, binio.ChecksumUpdate(binio.Checksum(out), b))
	return append(out, b...)
}

func appendSpans(b []byte, s spans) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	at := int64(0)
	for _, sp := range s {
		b = binary.AppendUvarint(b, binio.ZigZag(sp.from-at))
		b = binary.AppendUvarint(b, uint64(sp.to-sp.from))
		b = binary.AppendUvarint(b, sp.source)
		at = sp.to
	}
	return b
}

// decode returns the downsamples of a file, and the data directory that they are of.
func decode(name string, b []byte) (map[uint64]*downsample, identity.Lineage, error) {
	var lineage identity.Lineage
	if len(b) < headerBytes || string(b[:8]) != magic {
		return nil, lineage, binio.Corruptf(name, 0, "bad header of touched windows")
	}
	copy(lineage[:], b[12:])
	payload := b[headerBytes:]
	if binary.LittleEndian.Uint64(b[28:]) != uint64(len(payload)) ||
		binio.ChecksumUpdate(binio.Checksum(b[:crcOffset]), payload) != binary.LittleEndian.Uint32(b[crcOffset:]) {
		return nil, lineage, binio.Corruptf(name, crcOffset, "touched windows: bad checksum or length")
	}
	if err := binio.CheckVersion(name, "file of touched windows", uint64(binary.LittleEndian.Uint32(b[8:])), version); err != nil {
		return nil, lineage, err
	}
	d := binio.NewDecoder(payload)
	downsamples := map[uint64]*downsample{}
	for d.Len() > 0 {
		t := newDownsample(&meta.Downsample{ID: d.Uvarint()})
		t.decode(&d, func(from, to int64, sequence uint64) span { return span{from: from, to: to, source: sequence} })
		t.decode(&d, func(from, to int64, sequence uint64) span { return span{from: from, to: to, target: sequence} })
		downsamples[t.ID] = t
	}
	if err := d.Err(); err != nil {
		return nil, lineage, binio.InFile(err, name)
	}
	return downsamples, lineage, nil
}

// decode reads a set.
func (t *downsample) decode(d *binio.Decoder, of func(from, to int64, sequence uint64) span) {
	t.decodeSpans(d, "", of)
	for range d.Count(2) {
		if name := d.String(); name == "" || t.decodeSpans(d, name, of) == 0 {
			d.Fail("measurement without a name or spans")
		}
	}
}

func (t *downsample) decodeSpans(d *binio.Decoder, name string, of func(from, to int64, sequence uint64) span) int {
	n := d.Count(3)
	at := int64(0)
	for i := range n {
		from := at + d.Varint()
		to := from + int64(d.Uvarint())
		if to <= from || i > 0 && from < at {
			d.Fail("spans out of order")
			return 0
		}
		t.put(name, of(from, to, d.Uvarint()))
		at = to
	}
	return n
}

// Check reads the file in the directory of a catalog and checks it. A file of another
// data directory is damage.
func Check(fsys vfs.FS, dir string, lineage identity.Lineage) error {
	_, err := readFile(fsys, path.Join(dir, Name), lineage)
	return err
}

func readFile(fsys vfs.FS, name string, lineage identity.Lineage) (map[uint64]*downsample, error) {
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	downsamples, of, err := decode(name, b)
	if err == nil && of != lineage {
		err = binio.Corruptf(name, 12, "touched windows of data directory %s, the catalog is that of %s", of, lineage)
	}
	return downsamples, err
}

// putAside sets the file aside, which Save replaces.
func (m *Marks) putAside(why error) {
	if err := m.setAside(Name, why); err != nil {
		m.logger.Error("damaged file not moved to quarantine", "path", m.name, "err", err)
	}
}

// read takes the marks of the file, or sets it aside.
func (m *Marks) read(lineage identity.Lineage) {
	downsamples, err := readFile(m.fs, m.name, lineage)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil:
		m.downsamples = downsamples
	default:
		m.logger.Warn("touched windows not read, all windows of downsamples will be compared", "path", m.name, "err", err)
		m.dirty = true
		m.putAside(err)
	}
}

// Check reads the file. It returns the damage, and writes the file again then. One that is
// gone was not needed, or had no room. The damaged one goes to setAside.
func (m *Marks) Check() (damage []error, err error) {
	m.mu.Lock()
	lineage := m.data.Lineage
	m.mu.Unlock()
	err = Check(m.fs, path.Dir(m.name), lineage)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	found := binio.DamageOf(m.name, err)
	if found == nil {
		return nil, err
	}
	m.putAside(found)
	m.mu.Lock()
	m.dirty = true
	m.mu.Unlock()
	return []error{found}, m.Save(lineage)
}

// Save writes the file if it lacks something. If there is no room for it, Save removes
// the file: the next start then marks all windows.
func (m *Marks) Save(lineage identity.Lineage) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	if !m.dirty {
		m.mu.Unlock()
		return nil
	}
	b, none := m.encode(lineage), len(m.downsamples) == 0
	m.dirty = false
	m.mu.Unlock()
	err := m.write(b, none)
	if err != nil {
		m.mu.Lock()
		m.dirty = true
		m.mu.Unlock()
		return fmt.Errorf("save touched windows: %w", err)
	}
	return nil
}

func (m *Marks) write(b []byte, none bool) error {
	dir := path.Dir(m.name)
	if !none {
		err := vfs.WriteFileAtomic(m.fs, dir, m.name, b)
		if !vfs.IsFull(err) {
			return err
		}
		m.logger.Warn("touched windows not saved, the disk is full; a restart would compute all windows of downsamples again", "path", m.name)
	}
	if err := m.fs.Remove(m.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !none {
		m.mu.Lock()
		m.dirty = true // when there is room
		m.mu.Unlock()
	}
	return m.fs.SyncDir(dir)
}
