package downsample

import (
	"fmt"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/retention"
)

// held returns how many shard groups have expired and are kept, because windows of a
// downsample that need their rows are to be computed.
func (s *Service) held(db *meta.Database, d *meta.Downsample) (groups int64) {
	end := s.expired(db, d)
	if end == model.MinTime {
		return 0
	}
	first := s.opt.Marks.First(d.ID, d.Free(end))
	for _, g := range db.RetentionPolicy(d.From).ShardGroups {
		if first < d.Free(g.End) && g.End <= end {
			groups++
		}
	}
	return groups
}

// heldFor returns for how long this node has computed a downsample that holds groups.
func (s *Service) heldFor(id uint64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tasks[id]; t != nil && !t.heldSince.IsZero() {
		return s.opt.Now().Sub(t.heldSince)
	}
	return 0
}

// noteHeld notes whether a downsample holds groups.
func (s *Service) noteHeld(t *task, holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !holds:
		t.heldSince = time.Time{}
	case t.heldSince.IsZero():
		t.heldSince = s.opt.Now()
	}
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

// Health says what has expired and is kept for the downsample that has held it longest, "" if
// there is nothing.
func (s *Service) Health() (text string) {
	longest := time.Duration(-1)
	for db, d := range s.opt.Catalog().Downsamples() {
		groups, age := s.held(db, d), s.heldFor(d.ID)
		if groups == 0 || age <= longest {
			continue
		}
		longest = age
		text = fmt.Sprintf("%d shard groups of %s.%s have expired and are kept until the downsample into %s has their windows, see SHOW DOWNSAMPLES",
			groups, db.Name, d.From, d.Into)
		if age > 0 {
			text += ", for " + age.Round(time.Second).String()
		}
	}
	return text
}
