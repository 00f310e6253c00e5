// Package view is the shards of a retention policy as a query sees them: they stay as they
// are and readable until the view is released.
package view

import (
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard"
)

// View implements scan.View.
type View struct {
	held   []*shard.View
	shards []scan.Shard

	Key  func(id model.SeriesID) (string, error) // the key of a series
	Lost func() []scan.Loss                      // what the log has lost
	Done func()                                  // called by Release
	// Accepted reports whether the loss of a shard that a file stands for is accepted.
	Accepted func(shard uint64, file string) bool
}

// Add adds the view of a shard, which it takes over. Shards come by time.
func (v *View) Add(s *shard.View) {
	v.held, v.shards = append(v.held, s), append(v.shards, s)
}

// LeaveDamagedOut leaves damaged files out of a view that nobody has read from.
func (v *View) LeaveDamagedOut() *View {
	for _, s := range v.held {
		s.LeaveDamagedOut()
	}
	return v
}

// Shards returns the shards by time.
func (v *View) Shards() []scan.Shard { return v.shards }

// SeriesKey returns the canonical key of a series.
func (v *View) SeriesKey(id model.SeriesID) (string, error) { return v.Key(id) }

// Release gives the references back.
func (v *View) Release() {
	for _, s := range v.held {
		s.Release()
	}
	v.Done()
}

// Losses returns what damage has taken from the view's shards and from the log.
func (v *View) Losses() []scan.Loss {
	out := v.Lost()
	for _, s := range v.held {
		out = append(out, s.Losses()...)
	}
	for i := range out {
		out[i].Accepted = v.Accepted(out[i].Shard, out[i].ID)
	}
	return out
}
