package block

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/chunk"
)

// Options say what a Reader yields and what it calls for samples that it leaves out.
type Options struct {
	Range model.TimeRange // of the rows, in nanoseconds
	Match []Selector      // of the series; none: all series
	// Refused is called with a series and how many of its samples cannot be stored.
	Refused func(series string, samples int, reason string)
	// Damaged is called with each chunk that cannot be read.
	Damaged func(err error)
}

// Reader yields the rows of a block. Series come in the order of the block, not in that
// of their keys. All series have the same three fields; most rows have one of them.
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
	metas   []chunks.Meta // the chunks of the present series
	deletes tombstones.Intervals
	rows    *chunk.Rows
}

var _ rows.Reader = (*Reader)(nil)

// Open opens a block. No series is chosen before Part.
func Open(b Block, opt Options) (_ *Reader, err error) {
	r := &Reader{block: b, opt: opt}
	r.rows = chunk.New(chunk.Options{Range: opt.Range, Refused: opt.Refused, Hidden: r.hidden})
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("block %s: %w", b.Dir, err), r.Close())
		}
	}()
	defer chunk.Guard(&err)()
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
	defer chunk.Guard(&err)()
	for ; r.left > 0 && r.postings.Next(); r.left-- {
	}
	r.rows.End()
	r.left = n
	return r.postings.Err()
}

// Next implements rows.Reader.
func (r *Reader) Next(ctx context.Context) (_ *rows.Run, err error) {
	defer chunk.Guard(&err)()
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		run, err := r.rows.Next()
		if err != nil {
			r.opt.Damaged(fmt.Errorf("%s: series %s: %w", r.place(r.metas[r.rows.At()].Ref), r.rows.Name(), err))
		}
		if run != nil {
			return run, nil
		}
		if err == nil {
			if err := r.series(); err != nil {
				return nil, err
			}
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
		r.opt.Damaged(fmt.Errorf("%s: series %d: %w", filepath.Join(r.block.Dir, "index"), ref, err))
		return nil
	}
	r.labels.Sort()
	set := r.labels.Labels()
	first, end := prom.Milliseconds(r.opt.Range.Min), prom.Milliseconds(r.opt.Range.Max)
	r.metas = slices.DeleteFunc(r.metas, func(m chunks.Meta) bool { return m.MaxTime < first || m.MinTime > end })
	chosen := len(r.opt.Match) == 0 || slices.ContainsFunc(r.opt.Match, func(s Selector) bool { return s.matches(set) })
	if !chosen || len(r.metas) == 0 {
		return nil
	}
	if r.deletes, err = r.deleted.Get(ref); err != nil {
		return err
	}
	r.rows.Series(set, len(r.metas), func(i int) (chunkenc.Chunk, error) {
		c, _, err := r.chunks.ChunkOrIterable(r.metas[i])
		return c, err
	})
	return nil
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

// place names the file and the offset of a chunk.
func (r *Reader) place(ref chunks.ChunkRef) string {
	segment, offset := chunks.BlockChunkRef(ref).Unpack()
	if segment < len(r.segments) {
		return fmt.Sprintf("%s: offset %d", r.segments[segment], offset)
	}
	return fmt.Sprintf("%s: file %d, which is not there", filepath.Join(r.block.Dir, "chunks"), segment+1)
}
