package touched

import (
	"testing"
	"time"

	"tsdbd/meta"
)

// TestChain: rows of a policy that is target and source mark windows of both downsamples, each
// in its role, and windows of aggregates are complete only if those are of which they are.
func TestChain(t *testing.T) {
	d := apply(t, catalog(t), create("hours", time.Hour), meta.CreateShardGroup{Database: "d", RetentionPolicy: "hours", Time: 24 * hour})
	chain := create("days", 24*time.Hour)
	chain.From = "hours"
	d = apply(t, d, chain)
	m := open(disk(t), d)
	hours, days := d.Database("d").Downsamples[0].ID, d.Database("d").Downsamples[1].ID
	sequence := uint64(1)
	complete := func(id uint64) {
		sequence++
		cmd := meta.CompleteWindows{ID: id, Sequence: sequence, Windows: []meta.ComputedWindows{{To: 72 * hour, Target: sequence}}}
		m.Before(sequence, cmd, d)
		d = apply(t, d, cmd)
		m.After(sequence, d)
	}
	complete(hours)
	complete(days)
	expect := func(what, ofHours, ofDays string, until int64) {
		t.Helper()
		if got := waiting(m, hours, 72*hour); got != ofHours {
			t.Errorf("%s: hours %q, want %q", what, got, ofHours)
		}
		if got := waiting(m, days, 72*hour); got != ofDays {
			t.Errorf("%s: days %q, want %q", what, got, ofDays)
		}
		if got := m.Until(days, "cpu", 72*hour) / hour; got != until {
			t.Errorf("%s: complete until %d, want %d", what, got, until)
		}
		if got := m.State(days, 72*hour).Earliest / hour; got != until {
			t.Errorf("%s: state says until %d, want %d", what, got, until)
		}
	}
	expect("complete", "", "", 72)
	sequence++
	m.Write(sequence, 2, rows("cpu", 50))
	expect("a row of raw", "cpu 50-51", "", 48)
	sequence++
	place := d.Database("d").RetentionPolicy("hours").ShardGroups[0].Shards[0].ID
	m.Write(sequence, place, rows("cpu", 30))
	expect("a row of hours", "cpu 30-31, cpu 50-51", "cpu 24-48", 24)
	complete(hours)
	expect("hours are complete", "", "cpu 24-48", 24)
	complete(days)
	expect("both are", "", "", 72)
}
