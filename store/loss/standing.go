package loss

import (
	"path"
	"slices"

	"tsdbd/meta"
	"tsdbd/shard/repair"
	"tsdbd/wal"
)

// Standing returns what is in quarantines, by the ids of their shards, and nobody has accepted.
func Standing(data *meta.Data, all map[*repair.Quarantine]uint64) (out []repair.Quarantined) {
	for q, id := range all {
		for _, f := range q.List() {
			if !data.Accepted(id, f.ID) {
				out = append(out, f)
			}
		}
	}
	return out
}

// StandingInLog returns the damage of a log that nobody has accepted. The caller owns it.
func StandingInLog(data *meta.Data, all []wal.Damage) []wal.Damage {
	return slices.DeleteFunc(slices.Clone(all), func(d wal.Damage) bool { return data.Accepted(0, path.Base(d.Quarantine)) })
}
