package hint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
)

// The limits of one statement.
const (
	maxLooks  = 1024 // look-ups in indexes
	maxShards = 256  // of one retention policy
	maxNames  = 4096 // compared with a name that does not exist
	maxNear   = 8    // names that others are compared with
	maxTexts  = 4
)

// errEnough ends the search for reasons when maxLooks look-ups were made.
var errEnough = errors.New("too many look-ups")

// Asker finds reasons for one statement.
type Asker struct {
	Storage scan.Storage
	Now     time.Time
	// Keep accounts for bytes that are held.
	Keep func(bytes int64) error

	ctx   context.Context
	looks int
	near  int // calls of nearest
	texts []string
}

// Empty returns texts that say why the answer to stmt has no rows. The names of stmt
// are resolved. Errors, such as the end of the context, leave out reasons: the answer
// of the statement is complete without them.
func (a *Asker) Empty(ctx context.Context, stmt *influxql.SelectStatement) []string {
	a.ctx, a.looks, a.near, a.texts = ctx, 0, 0, nil
	_ = a.level(stmt, model.AllTime) // it was not to be found out
	return a.texts
}

// look counts a look-up.
func (a *Asker) look() error {
	if a.looks++; a.looks > maxLooks {
		return errEnough
	}
	return a.ctx.Err()
}

func (a *Asker) say(text string) {
	if text != "" && len(a.texts) < maxTexts && !slices.Contains(a.texts, text) {
		a.texts = append(a.texts, text)
	}
}

// level finds reasons in one SELECT, inside the times of the outer one.
func (a *Asker) level(stmt *influxql.SelectStatement, outer model.TimeRange) error {
	cond, err := expr.SplitTime(stmt.Condition, a.Now, stmt.Location)
	if err != nil {
		return err
	}
	if !cond.HasMax && slices.ContainsFunc(stmt.Dimensions, isCall) {
		cond.Range.Max = a.Now.UnixNano()
	}
	if cond.Range = cond.Range.Intersect(outer); cond.Range.Empty() {
		a.say("the time range of the query is empty: it ends before it begins")
		return nil
	}
	for _, src := range stmt.Sources {
		switch s := src.(type) {
		case *influxql.SubQuery:
			err = a.level(s.Statement, cond.Range)
		case *influxql.Measurement:
			err = a.source(stmt, cond, s)
		}
		if err != nil || len(a.texts) == maxTexts {
			return err
		}
	}
	return nil
}

func isCall(d *influxql.Dimension) bool {
	_, ok := d.Expr.(*influxql.Call)
	return ok
}

// source finds the reason in one source of a statement.
func (a *Asker) source(stmt *influxql.SelectStatement, cond expr.Condition, m *influxql.Measurement) error {
	view, err := a.Storage.View(m.Database, m.RetentionPolicy, model.AllTime)
	if err != nil {
		return err
	}
	defer view.Release()
	shards, where := nearShards(view.Shards(), cond.Range, policyText(m.Database, m.RetentionPolicy))
	name := m.Name
	if m.Regex != nil {
		names, whole, err := a.names(shards)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(names, m.Regex.Val.MatchString)
		if at < 0 {
			if whole {
				a.say(fmt.Sprintf("no measurement in %s matches %s", where, clip(m.Regex.String())))
			}
			return nil
		}
		name = names[at]
	}
	k := &known{Asker: a, name: name, where: quoted(name), types: map[string][]model.FieldType{}, values: map[string][]string{}}
	for _, s := range shards {
		if err := a.look(); err != nil {
			return err
		}
		if len(s.Fields(name)) > 0 {
			k.shards = append(k.shards, s.Charged(a.Keep))
		}
	}
	if len(k.shards) == 0 {
		return a.missing(m, shards, where)
	}
	if len(shards) < len(view.Shards()) {
		k.where += " in " + where
	}
	if err := k.readTagKeys(); err != nil {
		return err
	}
	text := k.selected(stmt.Fields)
	if text == "" {
		text, err = k.condition(cond.Expr)
	}
	if text == "" && err == nil {
		text, err = k.times(cond)
	}
	a.say(text)
	return err
}

// nearShards returns maxShards shards at most, those in r first, newest first, and the
// words for where they are.
func nearShards(all []scan.Shard, r model.TimeRange, policy string) ([]scan.Shard, string) {
	shards := slices.Clone(all)
	outside := func(s scan.Shard) int {
		if s.TimeRange().Overlaps(r) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(shards, func(a, b scan.Shard) int {
		return cmp.Or(outside(a)-outside(b), cmp.Compare(b.TimeRange().Min, a.TimeRange().Min))
	})
	if len(shards) > maxShards {
		return shards[:maxShards], fmt.Sprintf("%d of the %d shards of %s", maxShards, len(shards), policy)
	}
	return shards, policy
}

// names returns sorted names of measurements, and whether they are all. It stops at the
// shard with which they are too many.
func (a *Asker) names(shards []scan.Shard) (names []string, whole bool, err error) {
	for i, s := range shards {
		if err := a.look(); err != nil {
			return nil, false, err
		}
		list := s.Measurements()
		if err := a.Keep(int64(len(list)) * 16); err != nil {
			return nil, false, err
		}
		if names = union(names, list); len(names) > maxNames {
			return names, i == len(shards)-1, nil
		}
	}
	return names, true, nil
}

// missing says that a measurement does not exist, and what may be meant.
func (a *Asker) missing(m *influxql.Measurement, shards []scan.Shard, where string) error {
	text := fmt.Sprintf("measurement %s does not exist in %s", quoted(m.Name), where)
	names, _, err := a.names(shards)
	if err == nil && len(names) == 0 {
		text += ", which has no measurements"
	}
	a.say(text + meant(a.nearest(m.Name, names)))
	return err
}
