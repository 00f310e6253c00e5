package tsi

import (
	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model/column"
)

// MergeOptions say how MergeFiles treats what is deleted.
type MergeOptions struct {
	// Deleted are the ids to leave out; nil for none. Ids that are deleted
	// later stay in the file and in the set of removed series.
	Deleted *roaring.Bitmap
	// Complete says that the shard has no older file than these. Then a
	// measurement without series is left out. Otherwise its fields are kept,
	// for its series may be in an older file.
	Complete bool
	// Pace is called about every 64 KiB that are read and written, with their
	// number, and may wait; its error ends the merge. Nil: never.
	Pace func(bytes int) error
}

// paceBytes is how much a merge reads and writes between two calls of Pace.
const paceBytes = 64 << 10

// idCost and measurementCost are about the bytes of an id in a posting and of
// a measurement without its tags.
const (
	idCost          = 2
	measurementCost = 256
)

// MergeFiles writes one file of several, which must be neighbours and are
// given oldest first. Its memory is that of the largest posting and of one set
// per measurement and tag key, not of the values. The file is synced; its
// name is durable once its directory is.
func MergeFiles(fs vfs.FS, path string, files []*File, opt MergeOptions) (FileInfo, error) {
	return writeFile(fs, path, opt, func(w *fileWriter) error { return w.merge(files) })
}

func (w *fileWriter) merge(files []*File) (err error) {
	defer vfs.CatchFault(&err)()
	at := make([]int, len(files))
	for {
		name, found := "", false
		for i, f := range files {
			if at[i] < len(f.measured) && (!found || f.measured[at[i]].name < name) {
				name, found = f.measured[at[i]].name, true
			}
		}
		if !found {
			return nil
		}
		parts := make([]mergePart, 0, len(files))
		for i, f := range files {
			if at[i] < len(f.measured) && f.measured[at[i]].name == name {
				parts = append(parts, mergePart{file: f, m: f.measured[at[i]]})
				at[i]++
			}
		}
		if err := w.mergeMeasurement(name, parts); err != nil {
			return err
		}
		if err := w.pace(measurementCost); err != nil {
			return err
		}
		if w.err != nil {
			return w.err
		}
	}
}

// mergePart is a measurement in one of the files.
type mergePart struct {
	file *File
	m    *fileMeasurement
	body *fileBody
}

func (w *fileWriter) mergeMeasurement(name string, parts []mergePart) error {
	set := roaring.New()
	var fields []column.Field
	var keys []string
	for i := range parts {
		p := &parts[i]
		var err error
		if p.body, err = p.file.bodyOf(p.m); err != nil {
			return err
		}
		set.Or(p.body.set)
		fields = p.m.fields // the newest mention lists all
		for _, t := range p.body.tags {
			keys = append(keys, t.key)
		}
	}
	if w.opt.Deleted != nil {
		set.AndNot(w.opt.Deleted)
	}
	if set.IsEmpty() && (w.opt.Complete || len(fields) == 0) {
		return nil
	}
	return w.measurement(name, fields, set, keys, func(walk *valueWalk, key string) error {
		for i := range parts {
			if err := walk.addFile(parts[i].file, parts[i].m, key); err != nil {
				return err
			}
		}
		return nil
	})
}
