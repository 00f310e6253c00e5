package point

import "sync"

// RowPool keeps the rows of batches for the next ones. The zero value is empty.
type RowPool struct{ pool sync.Pool }

// Take returns an empty slice with room for n rows.
func (p *RowPool) Take(n int) []Row {
	if b, _ := p.pool.Get().(*[]Row); b != nil && cap(*b) >= n {
		return (*b)[:0]
	}
	return make([]Row, 0, n)
}

// Give takes a slice back. The caller must not use it any more.
func (p *RowPool) Give(rows []Row) {
	if n := cap(rows); n > 0 && n <= 1<<16 {
		rows = rows[:n]
		clear(rows)
		p.pool.Put(&rows)
	}
}
