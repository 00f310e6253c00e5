package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
)

// CopyNames returns the names of the files of a catalog; each holds all of it.
func CopyNames() []string { return copyNames[:] }

// ReadFile reads one copy of a catalog and changes nothing. Damage is a
// *binio.CorruptError, a version this program does not know an
// binio.ErrVersion.
func ReadFile(fsys vfs.FS, name string) (*Data, error) {
	d, _, err := readCopy(fsys, name)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// readCopy is ReadFile. It also returns what the file is made of.
func readCopy(fsys vfs.FS, name string) (*Data, copyState, error) {
	for {
		b, err := vfs.ReadFile(fsys, name)
		if err != nil {
			return nil, copyState{}, fmt.Errorf("read catalog %s: %w", name, err)
		}
		d, s, err := decode(name, b)
		if !errors.Is(err, binio.ErrCorrupt) {
			return d, s, err
		}
		// A server that runs may be appending a record.
		if info, serr := fsys.Stat(name); serr != nil || info.Size() == int64(len(b)) {
			return d, s, err
		}
	}
}

// AppendFile appends d in the form of a catalog file.
func AppendFile(dst []byte, d *Data) ([]byte, error) { return encode(dst, d, 0) }

// Create makes a new catalog of d in dir, durably. It refuses a d that breaks a
// catalog's rules, and a directory that has a catalog.
func Create(fsys vfs.FS, dir string, d *Data) error {
	err := d.validate()
	if err == nil && d.Lineage == (identity.Lineage{}) {
		err = errors.New("it has no lineage")
	}
	if err != nil {
		return fmt.Errorf("create catalog %s: %w", dir, err)
	}
	b, err := encode(nil, d, 0)
	if err != nil {
		return err
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return fmt.Errorf("create catalog %s: %w", dir, err)
	}
	for _, name := range copyNames {
		if _, err := fsys.Stat(path.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("create catalog %s: %w", dir, errors.Join(fs.ErrExist, err))
		}
	}
	for _, name := range copyNames {
		if err := vfs.WriteFileAtomic(fsys, dir, path.Join(dir, name), b); err != nil {
			return fmt.Errorf("create catalog %s: %w", dir, err)
		}
	}
	return fsys.SyncDir(path.Dir(path.Clean(dir)))
}

// Copy returns a copy of d that shares nothing with it, checked as one read
// from disk would be. The caller may change it until others see it.
func Copy(d *Data) (*Data, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("copy catalog: %w", err)
	}
	c := new(Data)
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("copy catalog: %w", err)
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("copy catalog: %w", err)
	}
	c.index()
	return c, nil
}
