package query

import "context"

// workRows is how many rows an operator works on between two looks at the
// context. A row takes up to a microsecond.
const workRows = 1 << 16

// stopper tells the loops of the statement's goroutine to end when the context
// has. What they leave unfinished is not handed out: seriesOut looks again.
type stopper struct {
	ctx   context.Context
	turn  *Turn
	every int // rows between two looks; 0: workRows
	rows  int // since the last look
	ended bool
}

// block returns how many rows to work on between two looks at the context.
func (s *stopper) block() int {
	if s == nil || s.every == 0 {
		return workRows
	}
	return s.every
}

// after reports whether to stop, rows having been worked on since it was asked
// last. A nil stopper never stops.
func (s *stopper) after(rows int) bool {
	if s == nil {
		return false
	}
	if s.rows += rows; s.rows >= s.block() && !s.ended {
		s.rows = 0
		s.ended = s.ctx.Err() != nil || s.turn.yield(s.ctx) != nil
	}
	return s.ended
}
