package query

import (
	"errors"
	"fmt"
	"path"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/syntax"
)

// acceptLoss accepts for good what damage has taken from a shard so far. The statement
// names the times, so that nobody accepts more than they know of.
func acceptLoss(catalog *meta.Data, storage scan.Storage, st *syntax.AcceptLoss) (meta.Command, error) {
	losses, err := lossesOf(catalog, storage, st.Shard)
	if err != nil {
		return nil, err
	}
	var cmd meta.AcceptLoss
	for _, l := range losses {
		if l.Range.Min < st.Range.Min || l.Range.Max > st.Range.Max {
			all := syntax.AcceptLoss{Shard: l.Shard, Range: l.Range}
			return nil, fmt.Errorf("the loss is of more times than the statement names, which would be: %s", all.String())
		}
		cmd.Losses = append(cmd.Losses, meta.AcceptedLoss{Shard: l.Shard, Range: l.Range, File: path.Base(l.Path), ID: l.ID})
	}
	if len(losses) == 0 {
		return nil, fmt.Errorf("shard %d has lost nothing on this node", st.Shard)
	}
	return cmd, nil
}

// lossesOf returns what damage has taken from a shard, or with 0 from the log, and nobody
// has accepted.
func lossesOf(catalog *meta.Data, storage scan.Storage, id uint64) (out []scan.Loss, err error) {
	at, ok := catalog.Shard(id)
	times := model.AllTime
	switch {
	case ok:
		times = at.Group.TimeRange()
	case id != 0:
		return nil, meta.ErrShardNotFound
	default: // the log is behind all shards
		for _, at = range catalog.Shards() {
			break
		}
		if at.Database == nil {
			return nil, nil
		}
	}
	view, err := storage.View(at.Database.Name, at.Policy.Name, times)
	if err == nil {
		view.Release()
		return nil, nil
	}
	damage, ok := errors.AsType[*scan.DamageError](err)
	if !ok {
		return nil, err
	}
	for _, l := range damage.Losses {
		if l.Shard == id {
			out = append(out, l)
		}
	}
	return out, nil
}
