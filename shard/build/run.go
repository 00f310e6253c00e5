package build

import (
	"context"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/manifest"
	"tsdbd/shard/plan"
	"tsdbd/tsm"
)

// Run writes rows to TSM files that split the series: one file, or several where one would
// be too large, or none without rows. Series come in ascending order of keys, and the rows
// of each in the order of time. It cuts them into full chunks.
type Run struct {
	FS      vfs.FS
	Dir     string        // of the shard
	Number  func() uint64 // returns the numbers of new files
	File    manifest.File // of every file, except name, size, and checksum
	MaxFile int64         // size at which another file is begun; 0: never

	// Rows are those of the present series that are not written yet. The caller may append
	// to them, and calls Appended then.
	Rows column.Rows

	w     *tsm.Writer     // nil before the first series of a file
	files []manifest.File // finished
	bytes int64           // of files

	id     model.SeriesID // the present series
	key    string
	fields []column.Field
	types  []model.FieldType
	begun  bool        // w has begun it
	full   int         // rows of a full chunk of it
	text   int         // bytes of strings in Rows
	spare  column.Rows // memory of Rows
	cols   []column.Vector
}

// Series begins a series, whose fields are sorted by key. types are those of the fields, of
// which Write has no need. Both do not change before End.
func (r *Run) Series(id model.SeriesID, key string, fields []column.Field, types []model.FieldType) {
	r.id, r.key, r.fields, r.types = id, key, fields, types
	r.begun, r.full, r.text = false, tsm.FullChunk(len(fields)), 0
	r.Rows.Reset(types)
}

// Append adds rows of the present series.
func (r *Run) Append(rows *column.Rows) error {
	from := r.Rows.Len()
	r.Rows.AppendRange(rows, 0, rows.Len())
	return r.Appended(from)
}

// Appended says that Rows has new ones from a place on. It writes chunks if Rows has become
// long. A full chunk stays: Copy can write it whole.
func (r *Run) Appended(from int) error {
	if r.text += tsm.TextBytes(&r.Rows, from); r.Rows.Len() >= 2*r.full || r.text >= 2*tsm.ChunkText {
		return r.emit(r.full)
	}
	return nil
}

// Copy writes the k-th chunk of a series of a file as it is, with the rows before it, and
// returns false if it is better to append its rows: then chunks would become small.
func (r *Run) Copy(ctx context.Context, from *tsm.Reader, s *tsm.Series, k int) (bool, error) {
	n, e := r.Rows.Len(), &s.Chunks[k]
	if full := e.Rows > r.full/2 && (n == 0 || n > r.full/2); !full && e.Bytes <= tsm.ChunkText/4 {
		return false, nil
	}
	if err := r.emit(0); err != nil {
		return true, err
	}
	if err := r.begin(); err != nil {
		return true, err
	}
	return true, r.w.AppendEncoded(ctx, from, s, k)
}

// Write is Append for rows of which the last make a chunk of their own. Rows is empty, and
// the rows are not copied to it.
func (r *Run) Write(rows *column.Rows) error {
	_, err := r.write(rows, 0)
	r.text = 0
	return err
}

// End ends the present series, and the file if that is large enough.
func (r *Run) End() error {
	if err := r.emit(0); err != nil {
		return err
	}
	if r.w == nil || r.MaxFile == 0 || r.w.Size() < r.MaxFile {
		return nil
	}
	return r.endFile()
}

// Bytes returns how much was written.
func (r *Run) Bytes() int64 {
	if r.w == nil {
		return r.bytes
	}
	return r.bytes + r.w.Size()
}

// Finish ends the last file and returns the files, whose names are not durable yet. After an
// error Abort removes them.
func (r *Run) Finish() ([]manifest.File, error) {
	err := r.endFile()
	return r.files, err
}

// Abort removes the files.
func (r *Run) Abort() (errs []error) {
	if r.w != nil {
		errs = append(errs, r.w.Abort())
	}
	for _, rec := range r.files {
		errs = append(errs, r.FS.Remove(r.Dir+"/"+rec.Name))
	}
	r.w, r.files = nil, nil
	return errs
}

// begin makes the writer begin the present series, once. It creates a file if there is none.
func (r *Run) begin() (err error) {
	if r.begun {
		return nil
	}
	if r.w == nil {
		r.File.Name = manifest.TSMName(r.Number())
		r.w, err = tsm.Create(r.FS, r.Dir+"/"+r.File.Name, tsm.WriterOptions{
			MinSequence: r.File.MinSequence, MaxSequence: r.File.MaxSequence, Level: r.File.Level, Dense: r.File.Level == plan.FullLevel,
		})
		if err != nil {
			return err
		}
	}
	r.begun = true
	return r.w.Series(r.id, r.key, r.fields)
}

// emit writes chunks of Rows while more than keep are left, or more text than a chunk takes.
func (r *Run) emit(keep int) error {
	at, err := r.write(&r.Rows, keep)
	if err != nil || at == 0 {
		return err
	}
	r.spare.Reset(r.types)
	r.spare.AppendRange(&r.Rows, at, r.Rows.Len())
	r.Rows, r.spare = r.spare, r.Rows
	return nil
}

// write writes chunks of rows while more than keep are left, or more text than a chunk takes.
// It returns the first row that it has not written.
func (r *Run) write(rows *column.Rows, keep int) (at int, err error) {
	n := rows.Len()
	if n == 0 {
		return 0, nil
	}
	if err := r.begin(); err != nil {
		return 0, err
	}
	for at < n && (n-at > keep || r.text >= tsm.ChunkText) {
		end, text := tsm.CutChunk(rows, at)
		part := rows.Slice(at, end, r.cols)
		r.cols = part.Cols
		if err := r.w.Append(part.Times, part.Cols); err != nil {
			return at, err
		}
		r.text -= text
		at = end
	}
	return at, nil
}

// endFile finishes the present file.
func (r *Run) endFile() error {
	if r.w == nil {
		return nil
	}
	info, err := r.w.Finish()
	if err != nil {
		return err
	}
	r.w = nil
	r.bytes += info.Size
	r.File.Size, r.File.Checksum = info.Size, info.Checksum
	r.files = append(r.files, r.File)
	return nil
}
