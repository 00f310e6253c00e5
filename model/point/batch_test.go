package point

import "testing"

// TestGiveTime: rows without a time get that of the node which stores them, once.
func TestGiveTime(t *testing.T) {
	for _, c := range []struct{ unit, time, want int64 }{
		{0, NoTime, NoTime},
		{1, NoTime, 1_234_567},
		{1000, NoTime, 1_234_000},
		{1000, 5, 5},
		{FromNow, 0, 1_234_567},
		{FromNow, 5, 1_234_572},
	} {
		b := Batch{Untimed: c.unit, Rows: []Row{{Time: c.time}}}
		b.GiveTime(1_234_567)
		b.GiveTime(9_999_999)
		if got := b.Rows[0].Time; got != c.want {
			t.Errorf("unit %d, time %d: got %d, want %d", c.unit, c.time, got, c.want)
		}
	}
	batch := &Batch{}
	b := NewBuilder(NewTable(1), batch)
	row := func() error {
		if err := b.Series("m", nil); err != nil {
			t.Fatal(err)
		}
		b.Float("f", 1)
		return b.Row(NoTime)
	}
	if err := row(); err == nil {
		t.Error("a batch whose rows have a time takes one without")
	}
	batch.Untimed = 1
	if err := row(); err != nil || len(batch.Rows) != 1 {
		t.Errorf("%v, %d rows", err, len(batch.Rows))
	}
}
