package rows

// Texts charges a reader for the texts of chunks before they are decoded (W9). A nil Texts
// charges nobody.
type Texts struct {
	Charge func(bytes int64) error // nil: nobody is charged
	taken  int64                   // and not given back
}

// Take charges for the texts of a field of a chunk.
func (t *Texts) Take(chunk interface {
	TextBytes(field int) (int, error)
}, field int,
) error {
	if t == nil || t.Charge == nil {
		return nil
	}
	n, err := chunk.TextBytes(field)
	if err != nil || n == 0 {
		return err
	}
	t.taken += int64(n)
	return t.Charge(int64(n))
}

// GiveBack gives back what Take has charged.
func (t *Texts) GiveBack() {
	if t.taken != 0 {
		_ = t.Charge(-t.taken) // giving back does not fail
		t.taken = 0
	}
}
