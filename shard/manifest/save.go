package manifest

import (
	"errors"
	"fmt"
	"io/fs"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
)

// Save writes both copies, durably.
func (m *Manifest) Save(fsys vfs.FS, dir string) error {
	b, err := m.Encode()
	if err == nil {
		err = vfs.WriteTwice(fsys, dir, dir+"/"+Names[0], dir+"/"+Names[1], b)
	}
	if err != nil {
		return fmt.Errorf("write manifest %s: %w", dir, err)
	}
	return nil
}

// Copy is one of the two copies as it is on disk.
type Copy struct {
	Path     string
	Bytes    []byte
	Manifest *Manifest
	Err      error // why Manifest is nil
}

// ReadCopy reads one of the Names in dir.
func ReadCopy(fsys vfs.FS, dir, name string) Copy {
	c := Copy{Path: dir + "/" + name}
	if c.Bytes, c.Err = vfs.ReadFile(fsys, c.Path); c.Err == nil {
		c.Manifest, c.Err = Decode(c.Path, c.Bytes)
	}
	return c
}

// Read reads the copy that counts and changes nothing. Damage of both copies is
// an ErrCorrupt.
func Read(fsys vfs.FS, dir string) (*Manifest, error) {
	var best *Manifest
	var first error
	for _, name := range Names {
		c := ReadCopy(fsys, dir, name)
		switch {
		case c.Err == nil:
			if best == nil || c.Manifest.Edition > best.Edition {
				best = c.Manifest
			}
		case !binio.Damaged(c.Err):
			return nil, c.Err
		case first == nil || errors.Is(first, fs.ErrNotExist):
			first = c.Err
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, first
}

// Adopt writes both copies of a manifest, changed to belong to another data directory,
// and returns it. encoded are its bytes.
func Adopt(fsys vfs.FS, dir string, encoded []byte, lineage identity.Lineage) (*Manifest, error) {
	m, err := Decode(dir+"/"+Name, encoded)
	if err != nil {
		return nil, err
	}
	m.Lineage = lineage
	return m, m.Save(fsys, dir)
}
