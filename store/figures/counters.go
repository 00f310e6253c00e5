package figures

import (
	"sync/atomic"
	"time"

	"tsdbd/shard/counters"
)

// Counters count what a store does. The fields have the names that they have in Figures.
type Counters struct {
	Points, Values, Dropped, Refused, Failed         atomic.Int64
	Over                                             atomic.Int64
	Flushes, FlushFailures, FlushNanos               atomic.Int64
	Compactions, CompactionFailures, CompactionNanos atomic.Int64
	Deletes, Moves                                   atomic.Int64
	Exemplars, OlderExemplars                        atomic.Int64

	Files counters.Counters
}

// Figures returns the figures that are counted.
func (c *Counters) Figures() Figures {
	f := Figures{
		Points: c.Points.Load(), Values: c.Values.Load(), Dropped: c.Dropped.Load(), Over: c.Over.Load(),
		Refused: c.Refused.Load(), Failed: c.Failed.Load(), Deletes: c.Deletes.Load(), Moves: c.Moves.Load(),
		Exemplars: c.Exemplars.Load(), OlderExemplars: c.OlderExemplars.Load(),
		Flushes: c.Flushes.Load(), FlushFailures: c.FlushFailures.Load(), FlushBytes: c.Files.FlushBytes.Load(),
		FlushTime:   time.Duration(c.FlushNanos.Load()),
		Compactions: c.Compactions.Load(), CompactionFailures: c.CompactionFailures.Load(),
		CompactionTime: time.Duration(c.CompactionNanos.Load()),
		MergeReadBytes: c.Files.Read(), MergeWrittenBytes: c.Files.Written(),
	}
	for n := range f.Merges {
		f.Merges[n], f.MergeBytes[n] = c.Files.Merges[n].Load(), c.Files.WriteBytes[n].Load()
	}
	return f
}

// Changes counts the deletes and moves: they change what was flushed before them.
func (c *Counters) Changes() int64 { return c.Deletes.Load() + c.Moves.Load() }
