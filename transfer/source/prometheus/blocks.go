package prometheus

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/prom/block"
	"tsdbd/transfer/mover"
)

// partSeries is how many series of a block are a part.
const partSeries = 10_000

// Blocks is a mover.Source of all blocks of a directory. One worker moves its parts: those of
// a block come from one reader.
type Blocks struct {
	past
	dir *block.Directory
}

// NewBlocks returns the source of a directory.
func NewBlocks(d *block.Directory, opt Options) *Blocks {
	return &Blocks{past: past{opt: opt, lost: Lost{Blocks: int64(d.Half)}}, dir: d}
}

// Parts implements mover.Source.
func (b *Blocks) Parts(ctx context.Context, _ *exchange.Filter) iter.Seq2[*mover.Part, error] {
	return func(yield func(*mover.Part, error) bool) {
		for i := range b.dir.Blocks {
			if of := &b.dir.Blocks[i]; of.Range.Overlaps(b.opt.Range) && !b.block(ctx, of, yield) {
				return
			}
		}
	}
}

// block yields the parts of one block.
func (b *Blocks) block(ctx context.Context, of *block.Block, yield func(*mover.Part, error) bool) bool {
	r, err := block.Open(*of, block.Options{
		Range: b.opt.Range, Match: b.opt.Match, Refused: b.refused,
		Damaged: func(err error) {
			b.report(err.Error(), "damaged: "+err.Error(), func(l *Lost) { l.Damaged++ })
		},
	})
	if ctx.Err() != nil {
		return yield(nil, context.Cause(ctx))
	}
	if err != nil { // of the block: what can be read of the others comes over
		b.report(err.Error(), "left out: "+err.Error(), func(l *Lost) { l.Blocks++ })
		return true
	}
	defer r.Close()
	n := cmp.Or(b.opt.part, partSeries)
	for first := int64(0); first < of.Series; first += int64(n) {
		if err := r.Part(n); err != nil {
			return yield(nil, err)
		}
		open := func(context.Context) (rows.Reader, error) { return unclosed{r}, nil }
		if !yield(b.part(fmt.Sprintf("%s %d", of.ID, first), open), nil) {
			return false
		}
	}
	return true
}

// unclosed is a reader whose block has further parts.
type unclosed struct{ rows.Reader }

// Close implements rows.Reader.
func (unclosed) Close() error { return nil }
