package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/prom"
	"tsdbd/transfer/rows"
)

// Options say what a Reader yields and whom it tells of what it leaves out.
type Options struct {
	Range model.TimeRange // of the rows, in nanoseconds
	Match []Selector      // of the series; none: all series
	// Refused is called with a series and how many of its samples cannot be stored.
	Refused func(series string, samples int, reason string)
	// Damaged is called with each chunk that cannot be read.
	Damaged func(err error)
}

// Reader yields the rows of a block. Series come in the order of the block, not in that
// of their keys. All series have the same three fields, of which most rows have one.
type Reader struct {
	block    Block
	opt      Options
	segments []string // the files of chunks
	index    *index.Reader
	chunks   *chunks.Reader
	deleted  tombstones.Reader
	postings index.Postings
	left     int // series of the part that are not begun

	labels  labels.ScratchBuilder
	tags    model.Tags
	name    string        // of the present series, for reports
	metas   []chunks.Meta // its chunks; the present one is the first
	deletes tombstones.Intervals

	it   chunkenc.Iterator  // of the present chunk; nil before it is opened
	kind chunkenc.ValueType // of the sample that it is at
	text []byte
	run  rows.Run
}

var _ rows.Reader = (*Reader)(nil)

// fields are those of all series, and values their columns.
var fields = []column.Field{
	{Key: prom.HistogramField, Type: model.String},
	{Key: prom.StartField, Type: model.Integer},
	{Key: prom.ValueField, Type: model.Float},
}

const (
	histogramColumn = iota
	startColumn
	valueColumn
)

// Open opens a block. No series is chosen before Part.
func Open(b Block, opt Options) (_ *Reader, err error) {
	r := &Reader{block: b, opt: opt}
	r.run.Fields, r.run.Cols = fields, make([]column.Vector, len(fields))
	for i, f := range fields {
		r.run.Cols[i] = column.Vector{Type: f.Type, Valid: column.NewBitmap(rows.MaxRows)}
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("block %s: %w", b.Dir, err), r.Close())
		}
	}()
	defer guard(&err)()
	if r.segments, err = filepath.Glob(filepath.Join(b.Dir, "chunks", "[0-9]*")); err != nil {
		return nil, err
	}
	if r.index, err = index.NewFileReader(filepath.Join(b.Dir, "index"), index.DecodePostingsRaw); err != nil {
		return nil, err
	}
	if r.chunks, err = chunks.NewDirReader(filepath.Join(b.Dir, "chunks"), nil); err != nil {
		return nil, err
	}
	if r.deleted, _, err = tombstones.ReadTombstones(b.Dir); err != nil {
		return nil, err
	}
	name, value := index.AllPostingsKey()
	r.postings, err = r.index.Postings(context.Background(), name, value)
	return r, err
}

// Close closes the files of the block.
func (r *Reader) Close() error {
	var err error
	if r.chunks != nil {
		err = r.chunks.Close()
	}
	if r.index != nil {
		err = errors.Join(err, r.index.Close())
	}
	return err
}

// Part chooses the next n series of the block, whether Options chooses them or not. Next
// yields their rows and then io.EOF. Part skips the series that Next has left.
func (r *Reader) Part(n int) (err error) {
	defer guard(&err)()
	for ; r.left > 0 && r.postings.Next(); r.left-- {
	}
	r.metas, r.it, r.left = r.metas[:0], nil, n
	return r.postings.Err()
}

// Next implements rows.Reader.
func (r *Reader) Next(ctx context.Context) (_ *rows.Run, err error) {
	defer guard(&err)()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(r.metas) == 0 {
			if err := r.series(); err != nil {
				return nil, err
			}
			continue
		}
		if err := r.fill(); err != nil {
			r.opt.Damaged(fmt.Errorf("%s: series %s: %w", r.place(r.metas[0].Ref), r.name, err))
			r.metas, r.it = r.metas[1:], nil
		}
		if r.run.Len() > 0 {
			return &r.run, nil
		}
	}
}

// series begins the next series that is chosen. At the end of the part it returns io.EOF.
func (r *Reader) series() (err error) {
	if r.left == 0 || !r.postings.Next() {
		return cmp.Or(r.postings.Err(), io.EOF)
	}
	r.left--
	ref := r.postings.At()
	if err := r.index.Series(ref, &r.labels, &r.metas); err != nil {
		r.metas = r.metas[:0]
		r.opt.Damaged(fmt.Errorf("%s: series %d: %w", filepath.Join(r.block.Dir, "index"), ref, err))
		return nil
	}
	r.labels.Sort()
	set := r.labels.Labels()
	first, end := prom.Milliseconds(r.opt.Range.Min), prom.Milliseconds(r.opt.Range.Max)
	r.metas = slices.DeleteFunc(r.metas, func(m chunks.Meta) bool { return m.MaxTime < first || m.MinTime > end })
	if chosen := len(r.opt.Match) == 0 || slices.ContainsFunc(r.opt.Match, func(s Selector) bool { return s.matches(set) }); !chosen {
		r.metas = r.metas[:0]
	}
	if len(r.metas) == 0 {
		return nil
	}
	r.tags, r.name, r.it = r.tags[:0], set.String(), nil
	set.Range(func(l labels.Label) {
		if l.Value != "" {
			r.tags = append(r.tags, model.Tag{Key: l.Name, Value: l.Value})
		}
	})
	measurement := prom.Measurement(r.tags)
	r.text = model.AppendSeriesKey(r.text[:0], measurement, r.tags)
	reason := model.Unstorable(measurement, r.tags)
	if reason == "" && len(r.text) > model.MaxKeyLength {
		reason = fmt.Sprintf("the key of the series has %d bytes, more than %d", len(r.text), model.MaxKeyLength)
	}
	if reason != "" {
		n := 0
		for _, m := range r.metas {
			if chunk, _, err := r.chunks.ChunkOrIterable(m); err == nil {
				n += chunk.NumSamples()
			}
		}
		r.opt.Refused(r.name, n, reason)
		r.metas = r.metas[:0]
		return nil
	}
	r.run.Key = string(r.text)
	r.deletes, err = r.deleted.Get(ref)
	return err
}

// fill puts the next rows of the present series into the run, as many as there are in the
// present chunk and a run can have. An error is that of the chunk.
func (r *Reader) fill() (err error) {
	defer guard(&err)()
	r.reset()
	if r.it == nil {
		chunk, _, err := r.chunks.ChunkOrIterable(r.metas[0])
		if err != nil {
			return err
		}
		r.it = chunk.Iterator(nil)
		r.kind = r.it.Next()
	}
	for ; r.run.Len() < rows.MaxRows; r.kind = r.it.Next() {
		if r.kind == chunkenc.ValNone {
			if err := r.it.Err(); err != nil {
				return err
			}
			r.metas, r.it = r.metas[1:], nil
			return nil
		}
		t := r.it.AtT()
		at := prom.Nanoseconds(t)
		switch {
		case !r.opt.Range.Contains(at) || r.hidden(t):
		case prom.Milliseconds(at) != t:
			r.opt.Refused(r.name, 1, fmt.Sprintf("time of %d ms is out of range", t))
		case r.kind == chunkenc.ValFloat:
			_, v := r.it.At()
			r.append(at, v, "")
		default:
			text, err := r.histogram()
			if err != nil {
				r.opt.Refused(r.name, 1, err.Error())
				continue
			}
			r.append(at, 0, text)
		}
	}
	return nil
}

// guard makes errors of the panics of the library, which trusts lengths in files, and of
// faults of mapped files that were cut.
func guard(err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			*err = fmt.Errorf("damaged: %v", p)
		}
	}
}

// hidden reports whether a sample was deleted.
func (r *Reader) hidden(ms int64) bool {
	for _, d := range r.deletes {
		if d.Mint <= ms && ms <= d.Maxt {
			return true
		}
	}
	return false
}

func (r *Reader) histogram() (string, error) {
	var h prom.Histogram
	if r.kind == chunkenc.ValHistogram {
		_, h.Int = r.it.AtHistogram(nil)
	} else {
		_, h.Float = r.it.AtFloatHistogram(nil)
	}
	text, err := prom.StoredHistogram(r.text[:0], &h)
	r.text = text
	return string(text), err
}

// reset empties the run.
func (r *Reader) reset() {
	r.run.Times = r.run.Times[:0]
	for i := range r.run.Cols {
		v := &r.run.Cols[i]
		v.Strings, v.Ints, v.Floats = v.Strings[:0], v.Ints[:0], v.Floats[:0]
		clear(v.Valid)
	}
}

// append adds a row with a histogram or, if its text is empty, a value.
func (r *Reader) append(at int64, value float64, histogram string) {
	i := len(r.run.Times)
	start := r.it.AtST()
	r.run.Times = append(r.run.Times, at)
	c := r.run.Cols
	c[histogramColumn].Strings = append(c[histogramColumn].Strings, histogram)
	c[startColumn].Ints = append(c[startColumn].Ints, start)
	c[valueColumn].Floats = append(c[valueColumn].Floats, value)
	if histogram != "" {
		c[histogramColumn].Valid.Set(i)
	} else {
		c[valueColumn].Valid.Set(i)
	}
	if start != 0 {
		c[startColumn].Valid.Set(i)
	}
}

// place names the file and the offset of a chunk.
func (r *Reader) place(ref chunks.ChunkRef) string {
	segment, offset := chunks.BlockChunkRef(ref).Unpack()
	if segment < len(r.segments) {
		return fmt.Sprintf("%s: offset %d", r.segments[segment], offset)
	}
	return fmt.Sprintf("%s: file %d, which is not there", filepath.Join(r.block.Dir, "chunks"), segment+1)
}
