package parquet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"tsdbd/exchange/rows"
	"tsdbd/internal/vfs"
)

// Directory is a rows.Writer of files below a directory.
type Directory struct {
	fs   vfs.FS
	dir  string
	file *file // of the latest table
	made int
}

// New returns a writer of files below dir, which it creates.
func New(fsys vfs.FS, dir string) *Directory { return &Directory{fs: fsys, dir: dir} }

// Files returns the number of files that are complete.
func (d *Directory) Files() int { return d.made }

// Define implements rows.Writer. Files have no statements.
func (d *Directory) Define([]string) error { return nil }

// Table implements rows.Writer.
func (d *Directory) Table(t *rows.Table) error {
	if err := d.finish(); err != nil {
		return err
	}
	dir := path.Join(d.dir, escape(t.Database), escape(t.Policy), escape(t.Measurement))
	name := time.Unix(0, t.Start).UTC().Format("20060102T150405Z") + ".parquet"
	if _, err := d.fs.Stat(path.Join(dir, name)); err == nil {
		return fmt.Errorf("%s exists: remove it or choose another directory", path.Join(dir, name))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.fs.MkdirAll(dir); err != nil {
		return err
	}
	temporary := path.Join(dir, "."+name+".tmp")
	f, err := d.fs.Create(temporary)
	if err != nil {
		return err
	}
	if d.file, err = open(f, t); err != nil {
		return errors.Join(err, f.Close(), d.fs.Remove(temporary))
	}
	d.file.dir, d.file.name = dir, name
	return nil
}

// Run implements rows.Writer.
func (d *Directory) Run(r *rows.Run) error { return d.file.run(r) }

// finish completes the latest file.
func (d *Directory) finish() error {
	f := d.file
	if f == nil {
		return nil
	}
	err := f.close()
	if err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path.Join(f.dir, f.name), err)
	}
	d.file = nil
	temporary := path.Join(f.dir, "."+f.name+".tmp")
	if err := f.f.Close(); err != nil {
		return errors.Join(err, d.fs.Remove(temporary))
	}
	if err := d.fs.Rename(temporary, path.Join(f.dir, f.name)); err != nil {
		return errors.Join(err, d.fs.Remove(temporary))
	}
	d.made++
	return d.fs.SyncDir(f.dir)
}

// Close implements rows.Writer.
func (d *Directory) Close() error { return d.finish() }

// Abort implements rows.Writer. Files that are complete stay.
func (d *Directory) Abort() {
	if f := d.file; f != nil {
		d.file = nil
		_ = f.f.Close() // the first error counts
		_ = d.fs.Remove(path.Join(f.dir, "."+f.name+".tmp"))
	}
}

// maxName bounds the name of a file, with room for the suffixes.
const maxName = 200

// escape returns a name as that of a file: letters, digits, and ".-_" stay, other bytes
// are percent and two hexadecimal digits, and so is a dot in front. A long name is cut and
// gets the hash of the whole.
func escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if s := b.String(); len(s) > maxName {
		return fmt.Sprintf("%s~%016x", s[:maxName-17], xxhash.Sum64String(name))
	}
	return b.String()
}
