package move

import (
	"math"
	"slices"
	"strings"

	"tsdbd/internal/hll"
	"tsdbd/internal/quantiles"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
)

// Step is a change that a move makes: the one that was asked for, or one that follows from it.
type Step struct {
	Change model.Change
	Shards map[uint64]bool // that it may concern; nil: all
	Except map[uint64]bool // that it does not concern
}

// Concerns reports whether the step may change series of a shard.
func (s *Step) Concerns(shard uint64) bool {
	return (s.Shards == nil || s.Shards[shard]) && !s.Except[shard]
}

// Steps returns a change, and what follows from it if it renames a field: the targets of
// downsamples have the aggregates of the field under names that begin with a function. They keep
// aggregates of rows that have expired, which nothing can compute again under other names. A tag
// is not set where the rows of a target keep no such tag.
func Steps(c *model.Change, db *meta.Database) []Step {
	out := []Step{{Change: *c}}
	switch {
	case db == nil:
	case c.Fields():
		out = columns(out, c, db)
	case len(c.Set) > 0:
		out = kept(out, c, db)
	}
	return out
}

// Total returns what the steps of a move have moved. The renames of aggregates are of series
// that the first step counts.
func Total(steps []*Request) scan.Moved {
	moved := steps[0].Moved
	if !steps[0].Change.Fields() {
		for _, r := range steps[1:] {
			moved.Series += r.Moved.Series
			moved.Merged += r.Moved.Merged
		}
	}
	return moved
}

// kept leaves the shards of targets out that do not keep all tags that a change sets, and
// appends the steps that set those that they keep.
func kept(out []Step, c *model.Change, db *meta.Database) []Step {
	out[0].Except = map[uint64]bool{}
	at := map[string]int{} // in out, by the tags
	for t := range db.Makers() {
		for _, g := range db.RetentionPolicy(t.Into).ShardGroups {
			change := *c
			change.Set = slices.DeleteFunc(slices.Clone(c.Set), func(tag model.Tag) bool { return !t.Keeps(db, tag.Key, g.TimeRange()) })
			if len(change.Set) == len(c.Set) {
				continue
			}
			key := change.String()
			n, ok := at[key]
			if !ok && len(change.Set) > 0 {
				n, at[key] = len(out), len(out)
				out = append(out, Step{Change: change, Shards: map[uint64]bool{}})
			}
			for _, sh := range g.Shards {
				out[0].Except[sh.ID] = true
				if len(change.Set) > 0 {
					out[n].Shards[sh.ID] = true
				}
			}
		}
	}
	return out
}

// columns appends the renames of the aggregates of a field.
func columns(out []Step, c *model.Change, db *meta.Database) []Step {
	at := map[string]int{} // in out, by function
	for t := range db.Makers() {
		for _, f := range t.Columns() {
			n, ok := at[f]
			if !ok {
				n, at[f] = len(out), len(out)
				change := model.Change{Measurement: c.Measurement, To: c.To}
				change.RenameField = model.Rename{From: f + "_" + c.RenameField.From, To: f + "_" + c.RenameField.To}
				out = append(out, Step{Change: change, Shards: map[uint64]bool{}})
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

// functionOf returns the function of a field that is an aggregate of a downsample, else "".
func functionOf(t *meta.Downsample, field string) string {
	for _, function := range t.Columns() {
		if strings.HasPrefix(field, function+"_") {
			return function
		}
	}
	return ""
}

// foldOf returns how two aggregates of series in a window become one, nil if they cannot: of
// two first values, nothing says which one was first. Sums of integers wrap around, as those of a SELECT do.
func foldOf(function string, t model.FieldType) func(t model.FieldType, a, b uint64) uint64 {
	number := t == model.Float || t == model.Integer || t == model.Unsigned
	switch fold := meta.Fold(function); {
	case fold == "sum" && number:
		return plus
	case fold == "min" && (number || t == model.Boolean):
		return func(t model.FieldType, a, b uint64) uint64 {
			if t.Less(b, a) {
				return b
			}
			return a
		}
	case fold == "max" && (number || t == model.Boolean):
		return func(t model.FieldType, a, b uint64) uint64 {
			if t.Less(a, b) {
				return b
			}
			return a
		}
	}
	return nil
}

// uniteOf returns how two sketches of series in a window become one, nil if a column has none.
func uniteOf(function string, t model.FieldType) func(a, b string) (string, error) {
	switch fold := meta.Fold(function); {
	case t != model.String:
	case fold == "merge_hll":
		return unite(hll.Parse)
	case fold == "merge_ddsketch":
		return unite(quantiles.Parse)
	}
	return nil
}

// unite returns how two texts of sketches become one.
func unite[S interface {
	Merge(S)
	Text() string
}](parse func(text string) (S, error)) func(a, b string) (string, error) {
	return func(a, b string) (string, error) {
		s, err := parse(a)
		if err != nil {
			return "", err
		}
		o, err := parse(b)
		if err != nil {
			return "", err
		}
		s.Merge(o)
		return s.Text(), nil
	}
}

func plus(t model.FieldType, a, b uint64) uint64 {
	if t == model.Float {
		return math.Float64bits(math.Float64frombits(a) + math.Float64frombits(b))
	}
	return a + b
}
