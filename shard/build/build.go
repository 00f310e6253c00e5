// Package build writes the files of a shard that has nothing yet: finished TSM files and
// a TSI file, straight from sorted rows, without the log.
//
// The shard makes a Builder. Append takes the rows of one series after the other, in
// ascending order of keys. Finish returns the Files, which are durable but which no
// manifest names: until the shard does, a crash leaves them as strays that the next
// opening removes. Abort removes them at once.
//
// A Builder works on several cores. Append copies the rows to a batch. One goroutine gives
// the series of a batch their ids and indexes them (indexer), and a second one encodes the
// rows and writes them (Run). Both take the batches in order, so that the same calls
// give the same files.
//
// Flushes and merges of a shard write their rows with a Run, too.
//
// A Builder takes bounded memory, however many series there are: the index of the series
// goes to a file whenever it has grown, and these files are merged at the end.
//
// The methods of a Builder are called by one goroutine.
package build

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
	"golang.org/x/sync/errgroup"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/shard/plan"
	"tsdbd/tsi"
)

// Options say where the files go. All but IndexBytes are required.
type Options struct {
	FS  vfs.FS
	Dir string // of the shard
	// Number returns the numbers of new files.
	Number   func() uint64
	Sequence uint64       // of all rows
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
	// Sets are the series by measurement.
	Sets  map[string]*roaring.Bitmap
	taken bool
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
	opt    Options
	index  indexer
	tables Run
	files  Files

	// The batches go from the caller to the index, to the tables, and back.
	batch            *batch // that is filled; nil: none
	made             int    // batches
	fresh, indexed   chan *batch
	free             chan *batch
	working          sync.WaitGroup
	failure          atomic.Pointer[error]
	key, measurement string            // of the present series
	begun            bool              // it has rows
	types            []model.FieldType // of kept; replaced, not changed
	given            []column.Field
	kept             []column.Field // those of given whose type the measurement has
	from             []int          // kept -> given
	registered       bool           // kept is in the index
	buf              column.Rows    // rows without the fields that are refused
	all              []int          // 0, 1, 2, ...
}

// New returns a builder that has no file yet. It must be finished or aborted.
func New(opt Options) (*Builder, error) {
	if opt.IndexBytes == 0 {
		opt.IndexBytes = 32 << 20
	}
	index, err := tsi.NewIndex(tsi.IndexOptions{})
	if err != nil {
		return nil, err
	}
	b := &Builder{opt: opt, files: Files{Sequence: opt.Sequence}}
	b.index = indexer{opt: &b.opt, number: opt.Number(), index: index, sets: map[string]*roaring.Bitmap{}}
	rec := manifest.File{MinSequence: opt.Sequence, MaxSequence: opt.Sequence, Level: plan.FullLevel}
	b.tables = Run{FS: opt.FS, Dir: opt.Dir, Number: opt.Number, File: rec, MaxFile: opt.MaxFile}
	return b, nil
}

// start starts the goroutines.
func (b *Builder) start() {
	b.fresh, b.indexed, b.free = make(chan *batch, batches), make(chan *batch, batches), make(chan *batch, batches)
	b.working.Go(func() {
		defer close(b.indexed)
		for p := range b.fresh {
			b.try(p, b.index.take)
			b.indexed <- p
		}
	})
	b.working.Go(func() {
		for p := range b.indexed {
			b.try(p, b.write)
			p.reset()
			b.free <- p
		}
	})
}

// try calls take with a batch, unless there is an error.
func (b *Builder) try(p *batch, take func(p *batch) error) {
	if b.failed() != nil {
		return
	}
	err := func() (err error) {
		defer vfs.CatchFault(&err)()
		return take(p)
	}()
	if err != nil {
		_ = b.fail(err)
	}
}

// write writes the rows of a batch.
func (b *Builder) write(p *batch) error {
	run := 0
	for i := range p.series {
		s := &p.series[i]
		runs := p.runs[run : run+s.runs]
		run += s.runs
		if s.begins {
			if err := b.tables.End(); err != nil {
				return err
			}
			b.tables.Series(s.id, s.key, s.fields, s.types)
		}
		if s.begins && s.ends && len(runs) == 1 {
			if err := b.tables.Write(&runs[0]); err != nil {
				return err
			}
			continue
		}
		for k := range runs {
			if err := b.tables.Append(&runs[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush hands the batch over.
func (b *Builder) flush() {
	if b.batch == nil {
		return
	}
	if b.fresh == nil {
		b.start()
	}
	b.fresh <- b.batch
	b.batch = nil
}

// take returns a batch with room for so many cells.
func (b *Builder) take(cells int) *batch {
	if b.batch != nil && !b.batch.room(cells) {
		b.flush()
	}
	if b.batch == nil && b.made < batches {
		b.batch = &batch{}
		b.made++
	}
	if b.batch == nil {
		b.batch = <-b.free
	}
	return b.batch
}

// stop hands over what is left and waits for the goroutines.
func (b *Builder) stop() {
	b.flush()
	if b.fresh != nil {
		close(b.fresh)
		b.working.Wait()
		b.fresh = nil
	}
}

// Series begins a series. Fields are all that it has, sorted by key. Those whose key has
// another type in the measurement already are refused: their values are left out.
func (b *Builder) Series(key string, fields []column.Field) (refused []tsi.FieldConflict, err error) {
	if err := b.failed(); err != nil {
		return nil, err
	}
	for i := range fields[1:] {
		if fields[i+1].Key <= fields[i].Key {
			return nil, b.fail(fmt.Errorf("series %.100q: field %.100q is not in order", key, fields[i+1].Key))
		}
	}
	b.end()
	refused = b.register(key, fields)
	b.key, b.begun = key, false
	return refused, nil
}

// end ends the present series.
func (b *Builder) end() {
	if b.begun && b.batch != nil {
		if n := len(b.batch.series); n > 0 {
			b.batch.series[n-1].ends = true
		}
	}
}

// register sets kept to the fields of a series that agree with its measurement.
func (b *Builder) register(key string, fields []column.Field) (refused []tsi.FieldConflict) {
	measurement := model.SeriesMeasurement(key)
	if measurement == b.measurement && len(b.kept) == len(fields) && slices.Equal(fields, b.given) {
		return nil
	}
	b.measurement, b.registered = measurement, false
	b.given, b.kept, b.types, b.from = append(b.given[:0], fields...), nil, nil, b.from[:0]
	_, refused = b.index.index.CheckFields(&point.Layout{Measurement: measurement, Fields: fields})
	clash := map[string]bool{}
	for _, c := range refused {
		clash[c.Field.Key] = true
	}
	for i, f := range fields {
		if !clash[f.Key] {
			b.kept, b.types, b.from = append(b.kept, f), append(b.types, f.Type), append(b.from, i)
		}
	}
	for i := len(b.all); i < len(b.kept); i++ {
		b.all = append(b.all, i)
	}
	return refused
}

// Append adds rows of the present series, later than those before. A column is that of
// the field that Series was given at its place. Rows of refused fields alone are left
// out.
func (b *Builder) Append(rows *column.Rows) error {
	if err := b.failed(); err != nil || len(b.kept) == 0 {
		return err
	}
	from := b.from
	if len(b.kept) < len(b.given) {
		b.buf.Reset(b.types)
		b.buf.Times = append(b.buf.Times, rows.Times...)
		for c, i := range b.from {
			b.buf.Cols[c].AppendVector(&rows.Cols[i], 0, rows.Len())
		}
		b.buf.Keep(func(int) bool { return true }, true)
		rows, from = &b.buf, b.all[:len(b.kept)]
	}
	if rows.Len() == 0 {
		return nil
	}
	if !b.registered {
		b.index.index.RegisterFields(&point.Layout{Measurement: b.measurement, Fields: b.kept})
		b.registered = true
	}
	p := b.take(rows.Len() * len(b.kept))
	if n := len(p.series); n == 0 || !b.begun {
		p.series = append(p.series, part{key: b.key, measurement: b.measurement, fields: b.kept, types: b.types, begins: !b.begun})
	}
	b.begun = true
	p.add(rows, from)
	return nil
}

// Finish ends the files and makes them durable, except for their names in a manifest. After
// an error only Abort makes sense.
func (b *Builder) Finish() (*Files, error) {
	if err := b.failed(); err != nil {
		return nil, err
	}
	b.end()
	b.stop()
	if err := b.failed(); err != nil {
		return nil, err
	}
	files := &b.files
	var work errgroup.Group
	work.Go(func() (err error) {
		if err = b.tables.End(); err == nil {
			files.TSM, err = b.tables.Finish()
		}
		return err
	})
	work.Go(func() (err error) {
		files.TSI, err = b.index.finish()
		return errors.Join(err, b.opt.Series.Sync())
	})
	if err := work.Wait(); err != nil {
		return nil, b.fail(err)
	}
	b.index.index.Close()
	files.Sets = b.index.sets
	if err := b.opt.FS.SyncDir(b.opt.Dir); err != nil {
		return nil, b.fail(err)
	}
	return files, nil
}

// Abort removes the files, unless the shard has taken them.
func (b *Builder) Abort() error {
	_ = b.fail(errors.New("aborted"))
	b.stop()
	b.index.index.Close()
	if b.files.taken {
		return nil
	}
	errs := b.tables.Abort()
	for _, rec := range b.index.parts {
		errs = append(errs, b.opt.FS.Remove(b.opt.Dir+"/"+rec.Name))
	}
	b.index.parts = nil
	return errors.Join(errs...)
}

// failed returns the error of an earlier call, or of a goroutine.
func (b *Builder) failed() error {
	if err := b.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// fail makes err the error of all later calls, unless there is one.
func (b *Builder) fail(err error) error {
	err = fmt.Errorf("build files in %s: %w", b.opt.Dir, err)
	b.failure.CompareAndSwap(nil, &err)
	return b.failed()
}
