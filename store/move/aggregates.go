package move

import (
	"tsdbd/meta"
	"tsdbd/model"
)

// Aggregate is a rename that follows from the rename of a field.
type Aggregate struct {
	Change model.Change
	Shards map[uint64]bool // all that it concerns
}

// Aggregates returns what follows from the rename of a field. The targets of downsamples
// have the aggregates of the field under names made of its name. They keep aggregates of
// rows that have expired, which nothing can compute again under other names.
func Aggregates(c *model.Change, db *meta.Database) (out []Aggregate) {
	if !c.Fields() || db == nil {
		return nil
	}
	at := map[string]int{} // in out, by function
	for i := range db.Downsamples {
		t := &db.Downsamples[i]
		for _, f := range t.Functions {
			n, ok := at[f]
			if !ok {
				n, at[f] = len(out), len(out)
				change := model.Change{Measurement: c.Measurement, To: c.To}
				change.RenameField = model.Rename{From: f + "_" + c.RenameField.From, To: f + "_" + c.RenameField.To}
				out = append(out, Aggregate{Change: change, Shards: map[uint64]bool{}})
			}
			for _, g := range db.RetentionPolicy(t.Into).ShardGroups {
				for _, sh := range g.Shards {
					out[n].Shards[sh.ID] = true
				}
			}
		}
	}
	return out
}
