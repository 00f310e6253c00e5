package admission

import "context"

// workRows is how many rows an operator works on between two looks at the
// context. A row takes up to a microsecond.
const workRows = 1 << 16

// Stopper ends the loops of a statement's goroutine when the context has ended. Rows that
// they leave unfinished are never emitted, because seriesOut checks the context again.
type Stopper struct {
	Ctx   context.Context
	Turn  *Turn
	Every int // rows between two looks; 0: workRows
	rows  int // since the last look
	Ended bool
}

// Block returns how many rows to work on between two looks at the context.
func (s *Stopper) Block() int {
	if s == nil || s.Every == 0 {
		return workRows
	}
	return s.Every
}

// After reports whether to stop, rows having been worked on since it was asked
// last. A nil stopper never stops.
func (s *Stopper) After(rows int) bool {
	if s == nil {
		return false
	}
	if s.rows += rows; s.rows >= s.Block() && !s.Ended {
		s.rows = 0
		s.Ended = s.Ctx.Err() != nil || s.Turn.Yield(s.Ctx) != nil
	}
	return s.Ended
}
