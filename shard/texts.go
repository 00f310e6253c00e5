package shard

import "tsdbd/tsm"

// texts charges a reader for the texts of chunks before they are decoded (W9). A nil texts
// charges nobody.
type texts struct {
	charge func(bytes int64) error // nil: nobody is charged
	taken  int64                   // and not given back
}

// take charges for the texts of a field of a chunk.
func (t *texts) take(chunk *tsm.Chunk, field int) error {
	if t == nil || t.charge == nil {
		return nil
	}
	n, err := chunk.TextBytes(field)
	if err != nil || n == 0 {
		return err
	}
	t.taken += int64(n)
	return t.charge(int64(n))
}

// giveBack gives back what take has charged.
func (t *texts) giveBack() {
	if t.taken != 0 {
		_ = t.charge(-t.taken) // giving back does not fail
		t.taken = 0
	}
}
