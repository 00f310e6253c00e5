package downsample

import (
	"fmt"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/retention"
)

// held are the shard groups of a source that have expired and are kept, because windows of
// a downsample that begin before their end are to be computed.
type held struct {
	groups int64
	age    time.Duration // since the first of them expired
}

// held returns what a downsample holds.
func (s *Service) held(db *meta.Database, d *meta.Downsample) (h held) {
	end := s.expired(db, d)
	if end == model.MinTime {
		return h
	}
	first := s.opt.Marks.State(d.ID, end).Earliest
	policy := db.RetentionPolicy(d.From)
	for _, g := range policy.ShardGroups {
		if first < g.End && g.End <= end {
			h.groups++
			h.age = max(h.age, retention.Overdue(policy, g, s.opt.Now()))
		}
	}
	return h
}

// expired returns the end of the latest shard group of the source that has expired,
// model.MinTime if none has.
func (s *Service) expired(db *meta.Database, d *meta.Downsample) int64 {
	policy, end := db.RetentionPolicy(d.From), int64(model.MinTime)
	for _, g := range policy.ShardGroups {
		if !retention.Expired(policy, g, s.opt.Now()) {
			break
		}
		end = g.End
	}
	return end
}

// Health says of what has expired and is kept, what has been kept longest. It is "" if
// there is nothing.
func (s *Service) Health() (text string) {
	var longest time.Duration
	for db, d := range s.opt.Catalog().Downsamples() {
		if h := s.held(db, d); h.groups > 0 && h.age > longest {
			longest = h.age
			text = fmt.Sprintf("%d shard groups of %s.%s expired up to %s ago and are kept until the downsample into %s has their windows, see SHOW DOWNSAMPLES",
				h.groups, db.Name, d.From, h.age.Round(time.Second), d.Into)
		}
	}
	return text
}
