package prometheus

import (
	"context"
	"fmt"

	"tsdbd/prom/block"
	"tsdbd/transfer"
)

// partSeries is how many series of a block are sent between two notes in the journal.
const partSeries = 10_000

// Blocks sends the samples of all blocks of a directory. An import that has a journal
// continues after the parts that it has finished. Blocks removes the journal at the end.
func Blocks(ctx context.Context, to *transfer.Client, d *block.Directory, opt Options) (Result, error) {
	return move(ctx, to, "blocks of "+d.Path, opt, func(m *mover) error {
		m.add(func(r *Result) { r.Lost += int64(d.Half) })
		for i := range d.Blocks {
			if b := &d.Blocks[i]; b.Range.Overlaps(opt.Range) {
				if err := m.block(ctx, b); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// block sends one block.
func (m *mover) block(ctx context.Context, b *block.Block) error {
	r, err := block.Open(*b, block.Options{
		Range: m.opt.Range, Match: m.opt.Match,
		Refused: m.refused,
		Damaged: func(err error) {
			m.add(func(r *Result) { r.Damaged++ })
			m.report(err.Error(), "damaged: "+err.Error())
		},
	})
	if err != nil { // of the block: what can be read of the others comes over
		m.add(func(r *Result) { r.Lost++ })
		m.report(err.Error(), "left out: "+err.Error())
		return ctx.Err()
	}
	defer r.Close()
	for first := int64(0); first < b.Series; first += int64(m.opt.part) {
		if err := r.Part(m.opt.part); err != nil {
			return err
		}
		if err := m.part(ctx, r, fmt.Sprintf("%s %d", b.ID, first)); err != nil {
			return err
		}
	}
	return nil
}
