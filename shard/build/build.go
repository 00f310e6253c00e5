// Package build writes the files of a shard that has nothing yet: finished TSM files and
// a TSI file, straight from sorted rows, without the log.
//
// The shard makes a Builder. Append takes the rows of one series after the other, in
// ascending order of keys. Finish returns the Files, which are durable but which no
// manifest names: until the shard does, a crash leaves them as strays that the next
// opening removes. Abort removes them at once.
//
// A Builder takes bounded memory, however many series there are: the index of the series
// goes to a file whenever it has grown, and these files are merged at the end.
//
// A Builder belongs to one goroutine.
package build

import (
	"errors"
	"fmt"
	"slices"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/tsi"
	"tsdbd/tsm"
)

// Options say where the files go. All but IndexBytes are required.
type Options struct {
	FS  vfs.FS
	Dir string // of the shard
	// Number returns the numbers of new files.
	Number func() uint64
	// Sequence is that of all rows. Level is noted in the files; their blocks are dense.
	Sequence uint64
	Level    int
	MaxFile  int64        // size at which another TSM file is begun
	Series   *series.File // of the database
	// IndexBytes is the memory of the index above which it goes to a file; default 32 MiB.
	IndexBytes int64
}

// keyBytes is the memory of keys above which the series file writes them.
const keyBytes = 16 << 20

// Files are what a Builder has written.
type Files struct {
	Sequence uint64
	TSM, TSI []manifest.File
	taken    bool
}

// Take makes the files those of the shard: a manifest names them, or may. Abort leaves
// them.
func (f *Files) Take() { f.taken = true }

// Names returns the names of the files.
func (f *Files) Names() (names []string) {
	for _, rec := range slices.Concat(f.TSM, f.TSI) {
		names = append(names, rec.Name)
	}
	return names
}

// Bytes returns their size.
func (f *Files) Bytes() (n int64) {
	for _, rec := range slices.Concat(f.TSM, f.TSI) {
		n += rec.Size
	}
	return n
}

// Builder writes the files of a shard.
type Builder struct {
	opt   Options
	w     *tsm.Writer // nil before the first series of a file
	name  string      // of the file of w
	index *tsi.Index
	parts []manifest.File // of the index
	files Files
	err   error

	key         string // of the present series
	id          model.SeriesID
	begun       bool        // it is in the file of w and in the index
	buf         column.Rows // its rows that are not written
	spare       column.Rows
	text        int // bytes of strings in buf
	given       []column.Field
	kept        []column.Field // those of given whose type the measurement has
	types       []model.FieldType
	from        []int // kept -> given
	cols        []column.Vector
	measurement string // of the present series
}

// New returns a builder that has no file yet.
func New(opt Options) (*Builder, error) {
	if opt.IndexBytes == 0 {
		opt.IndexBytes = 32 << 20
	}
	index, err := tsi.NewIndex(tsi.IndexOptions{})
	if err != nil {
		return nil, err
	}
	return &Builder{opt: opt, index: index, files: Files{Sequence: opt.Sequence}}, nil
}

// Series begins a series. Fields are all that it has, sorted by key. Those whose key has
// another type in the measurement already are refused: their values are left out.
func (b *Builder) Series(key string, fields []column.Field) (refused []tsi.FieldConflict, err error) {
	if err := b.end(); err != nil {
		return nil, err
	}
	for i := range fields[1:] {
		if fields[i+1].Key <= fields[i].Key {
			return nil, b.fail(fmt.Errorf("series %.100q: field %.100q is not in order", key, fields[i+1].Key))
		}
	}
	refused = b.register(key, fields)
	b.key, b.begun, b.text = key, false, 0
	b.buf.Reset(b.types)
	return refused, nil
}

// ID returns the id of the present series, 0 before it has rows.
func (b *Builder) ID() model.SeriesID {
	if !b.begun {
		return 0
	}
	return b.id
}

// begin writes the beginning of the present series, which has rows.
func (b *Builder) begin() error {
	id, err := b.opt.Series.Create(b.key)
	if err != nil {
		return b.fail(err)
	}
	if b.w == nil {
		b.name = manifest.TSMName(b.opt.Number())
		b.w, err = tsm.Create(b.opt.FS, b.path(b.name), tsm.WriterOptions{MinSequence: b.opt.Sequence, MaxSequence: b.opt.Sequence, Level: b.opt.Level, Dense: true})
		if err != nil {
			return b.fail(err)
		}
	}
	b.id = id
	if err := b.w.Series(id, b.key, b.kept); err != nil {
		return b.fail(err)
	}
	b.index.AddSeries(id, b.key)
	b.index.RegisterFields(&point.Layout{Measurement: b.measurement, Fields: b.kept})
	b.begun = true
	return nil
}

// register sets kept to the fields of a series that agree with its measurement.
func (b *Builder) register(key string, fields []column.Field) (refused []tsi.FieldConflict) {
	measurement := model.SeriesMeasurement(key)
	if measurement == b.measurement && len(b.kept) == len(fields) && slices.Equal(fields, b.given) {
		return nil
	}
	b.measurement = measurement
	b.given, b.kept, b.types, b.from = append(b.given[:0], fields...), nil, b.types[:0], b.from[:0]
	_, refused = b.index.CheckFields(&point.Layout{Measurement: measurement, Fields: fields})
	for i, f := range fields {
		if !slices.ContainsFunc(refused, func(c tsi.FieldConflict) bool { return c.Field == f }) {
			b.kept, b.types, b.from = append(b.kept, f), append(b.types, f.Type), append(b.from, i)
		}
	}
	return refused
}

// Append adds rows of the present series, later than those before. A column is that of
// the field that Series was given at its place. Rows of refused fields alone are left
// out.
func (b *Builder) Append(rows *column.Rows) error {
	if b.err != nil || len(b.kept) == 0 {
		return b.err
	}
	at := b.buf.Len()
	b.buf.Times = append(b.buf.Times, rows.Times...)
	for c, i := range b.from {
		b.buf.Cols[c].AppendVector(&rows.Cols[i], 0, rows.Len())
	}
	if len(b.kept) < len(b.given) {
		b.buf.Keep(func(int) bool { return true }, true)
	}
	if b.buf.Len() > 0 && !b.begun {
		if err := b.begin(); err != nil {
			return err
		}
	}
	for c := range b.buf.Cols {
		b.buf.Cols[c].OwnStrings(at)
	}
	if b.text += tsm.TextBytes(&b.buf, at); b.text >= tsm.ChunkText || b.buf.Len() >= tsm.FullChunk(len(b.kept)) {
		return b.emit(tsm.FullChunk(len(b.kept)))
	}
	return nil
}

// emit writes buffered rows as chunks, as long as there are at least so many, or too much
// text.
func (b *Builder) emit(least int) error {
	at, n := 0, b.buf.Len()
	for n-at >= least || at < n && b.text >= tsm.ChunkText {
		end, text := tsm.CutChunk(&b.buf, at)
		part := b.buf.Slice(at, end, b.cols)
		b.cols = part.Cols
		if err := b.w.Append(part.Times, part.Cols); err != nil {
			return b.fail(err)
		}
		b.text -= text
		at = end
	}
	b.spare.Reset(b.types)
	b.spare.AppendRange(&b.buf, at, n)
	b.buf, b.spare = b.spare, b.buf
	return nil
}

// end ends the present series.
func (b *Builder) end() error {
	if b.err != nil {
		return b.err
	}
	if err := b.emit(1); err != nil || !b.begun {
		return err
	}
	b.begun = false
	if b.w.Size() >= b.opt.MaxFile {
		if err := b.endFile(); err != nil {
			return err
		}
	}
	if b.opt.Series.PendingBytes() >= keyBytes {
		if err := b.opt.Series.Sync(); err != nil {
			return b.fail(err)
		}
	}
	if b.index.MutableBytes() >= b.opt.IndexBytes {
		return b.endIndex()
	}
	return nil
}

// endFile finishes the present TSM file.
func (b *Builder) endFile() error {
	if b.w == nil {
		return nil
	}
	info, err := b.w.Finish()
	if err != nil {
		return b.fail(err)
	}
	b.w = nil
	b.files.TSM = append(b.files.TSM, manifest.File{Name: b.name, Size: info.Size, Checksum: info.Checksum, MinSequence: b.opt.Sequence, MaxSequence: b.opt.Sequence, Level: b.opt.Level})
	return nil
}

// endIndex writes what the index has in memory to a file.
func (b *Builder) endIndex() error {
	snap := b.index.Freeze()
	if snap.Empty() {
		return nil
	}
	name := manifest.TSIName(b.opt.Number())
	info, err := snap.WriteFile(b.opt.FS, b.path(name))
	if err != nil {
		return b.fail(err)
	}
	b.parts = append(b.parts, manifest.File{Name: name, Size: info.Bytes, Checksum: info.Hash})
	f, err := tsi.OpenFile(b.opt.FS, b.path(name))
	if err != nil {
		return b.fail(err)
	}
	b.index.Publish(snap, f)
	return nil
}

// Finish ends the files and makes them durable, but for their names in a manifest. After
// an error only Abort makes sense.
func (b *Builder) Finish() (*Files, error) {
	if err := b.end(); err != nil {
		return nil, err
	}
	if err := errors.Join(b.endFile(), b.endIndex()); err != nil {
		return nil, err
	}
	if b.files.TSI = b.parts; len(b.parts) > 1 {
		if err := b.mergeIndex(); err != nil {
			return nil, b.fail(err)
		}
	}
	b.index.Close()
	if err := b.opt.Series.Sync(); err != nil {
		return nil, b.fail(err)
	}
	if err := b.opt.FS.SyncDir(b.opt.Dir); err != nil {
		return nil, b.fail(err)
	}
	return &b.files, nil
}

// mergeIndex merges the parts of the index.
func (b *Builder) mergeIndex() error {
	name := manifest.TSIName(b.opt.Number())
	info, err := tsi.MergeFiles(b.opt.FS, b.path(name), b.index.Files(), tsi.MergeOptions{Complete: true})
	if err != nil {
		return err
	}
	old := b.parts
	b.files.TSI = []manifest.File{{Name: name, Size: info.Bytes, Checksum: info.Hash}}
	b.parts = append(b.parts, b.files.TSI...)
	for _, rec := range old {
		if err := b.opt.FS.Remove(b.path(rec.Name)); err != nil {
			return err
		}
	}
	b.parts = b.files.TSI
	return nil
}

// Abort removes the files, unless the shard has taken them.
func (b *Builder) Abort() error {
	b.index.Close()
	var errs []error
	if b.w != nil {
		errs = append(errs, b.w.Abort())
		b.w = nil
	}
	if !b.files.taken {
		for _, rec := range slices.Concat(b.files.TSM, b.parts) {
			errs = append(errs, b.opt.FS.Remove(b.path(rec.Name)))
		}
	}
	b.files, b.parts = Files{}, nil
	_ = b.fail(errors.New("aborted"))
	return errors.Join(errs...)
}

func (b *Builder) path(name string) string { return b.opt.Dir + "/" + name }

// fail makes err the error of all later calls.
func (b *Builder) fail(err error) error {
	if b.err == nil {
		b.err = fmt.Errorf("build files in %s: %w", b.opt.Dir, err)
	}
	return b.err
}
