package parquet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/parquet"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/rows"
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

// file is a file in the making.
type file struct {
	dir, name string
	f         vfs.File
	w         *parquet.Writer
	tags      []string // keys; their columns are behind the time, and those of fields behind them
	places    []int    // of the fields' columns in the runs, -1: none
	key       string   // of the latest series
	values    model.Tags
}

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
	f, err := d.fs.Create(path.Join(dir, "."+name+".tmp"))
	if err != nil {
		return err
	}
	d.file = &file{dir: dir, name: name, f: f, tags: slices.Clone(t.AllTagKeys)}
	fields := slices.Clone(t.AllFields)
	for i := range fields {
		place, ok := column.FindField(t.Fields, fields[i].Key)
		if !ok {
			place = -1
		} else {
			fields[i].Type = t.Fields[place].Type
		}
		d.file.places = append(d.file.places, place)
	}
	d.file.w = parquet.NewWriter(f, parquet.Options{}, columns(t.AllTagKeys, fields)...)
	return nil
}

// columns returns the columns of a table with these tags and fields.
func columns(tags []string, fields []column.Field) []parquet.Column {
	out := []parquet.Column{{Name: "time", Type: model.Integer, Time: true, Required: true}}
	taken := map[string]bool{"time": true}
	for _, f := range fields {
		taken[f.Key] = true
	}
	for _, key := range tags {
		name := key
		for taken[name] {
			name += "_tag"
		}
		taken[name] = true
		out = append(out, parquet.Column{Name: name, Type: model.String})
	}
	for _, f := range fields {
		out = append(out, parquet.Column{Name: f.Key, Type: f.Type})
	}
	return out
}

// Run implements rows.Writer.
func (d *Directory) Run(r *rows.Run) error {
	f := d.file
	if r.Key != f.key {
		f.key = r.Key
		_, f.values = model.ParseSeriesKey(r.Key, nil)
	}
	n := r.Len()
	f.w.Times(0, r.Times)
	tags := f.values
	for i, key := range f.tags {
		for len(tags) > 0 && tags[0].Key < key {
			tags = tags[1:]
		}
		if len(tags) > 0 && tags[0].Key == key {
			f.w.Text(1+i, tags[0].Value, n)
		} else {
			f.w.Nulls(1+i, n)
		}
	}
	for i, place := range f.places {
		if to := 1 + len(f.tags) + i; place >= 0 {
			f.w.Vector(to, &r.Cols[place], n)
		} else {
			f.w.Nulls(to, n)
		}
	}
	return f.w.Rows(n)
}

// finish completes the latest file.
func (d *Directory) finish() error {
	f := d.file
	if f == nil {
		return nil
	}
	err := f.w.Close()
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
