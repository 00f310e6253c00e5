package meta

import (
	"fmt"
	"slices"

	"tsdbd/model"
)

// AcceptedLoss is a loss to damage that an administrator has accepted for good.
type AcceptedLoss struct {
	Shard uint64 // 0: of the log, any shard
	Range model.TimeRange
	File  string // the name of what is in quarantine
	ID    string // of the loss: another node has other losses, with files of the same names
}

// AcceptLoss accepts losses. Those that are accepted already are no error.
type AcceptLoss struct{ Losses []AcceptedLoss }

func (c AcceptLoss) apply(d *Data) (bool, error) {
	changed := false
	for _, l := range c.Losses {
		if _, known := d.Shard(l.Shard); !known && l.Shard != 0 {
			return false, fmt.Errorf("%w: %d", ErrShardNotFound, l.Shard)
		}
		if !slices.Contains(d.AcceptedLosses, l) {
			d.AcceptedLosses = append(slices.Clip(d.AcceptedLosses), l)
			changed = true
		}
	}
	return changed, nil
}

// Accepted reports whether a loss of a shard, or of the log, is accepted.
func (d *Data) Accepted(shard uint64, id string) bool {
	return slices.ContainsFunc(d.AcceptedLosses, func(l AcceptedLoss) bool { return l.Shard == shard && l.ID == id })
}

// forgetLosses drops the accepted losses of shards that are gone.
func (d *Data) forgetLosses() {
	if len(d.AcceptedLosses) == 0 {
		return
	}
	d.AcceptedLosses = slices.DeleteFunc(slices.Clone(d.AcceptedLosses), func(l AcceptedLoss) bool {
		_, known := d.Shard(l.Shard)
		return !known && l.Shard != 0
	})
}
