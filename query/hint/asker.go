package hint

import (
	"context"
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
	maxLooks = 1024 // look-ups in indexes
	maxNames = 4096 // compared with a name that does not exist
	maxNear  = 8    // names that others are compared with
	maxTexts = 4
)

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
	// ended: there were maxLooks look-ups, one failed, or the context ended. What has not
	// been found by then is not known to be missing.
	ended bool
}

// Empty returns texts that say why the answer to stmt has no rows. The names of stmt
// are resolved. An error, such as the end of the context, leaves out reasons: the answer
// of the statement is complete without them.
func (a *Asker) Empty(ctx context.Context, stmt *influxql.SelectStatement) []string {
	a.ctx, a.looks, a.near, a.texts, a.ended = ctx, 0, 0, nil, false
	a.level(stmt, model.AllTime)
	return a.texts
}

// look counts a look-up, and reports whether to make it.
func (a *Asker) look() bool {
	a.looks++
	a.ended = a.ended || a.looks > maxLooks || a.ctx.Err() != nil
	return !a.ended
}

// failed ends the search after an error.
func (a *Asker) failed(err error) bool {
	a.ended = a.ended || err != nil
	return a.ended
}

func (a *Asker) say(text string) {
	if text != "" && len(a.texts) < maxTexts && !slices.Contains(a.texts, text) {
		a.texts = append(a.texts, text)
	}
}

// level finds reasons in one SELECT, inside the times of the outer one.
func (a *Asker) level(stmt *influxql.SelectStatement, outer model.TimeRange) {
	cond, err := expr.SplitTime(stmt.Condition, a.Now, stmt.Location)
	if a.failed(err) {
		return
	}
	if !cond.HasMax && slices.ContainsFunc(stmt.Dimensions, isCall) {
		cond.Range.Max = a.Now.UnixNano()
	}
	if cond.Range = cond.Range.Intersect(outer); cond.Range.Empty() {
		a.say("the time range of the query is empty: it ends before it begins")
		return
	}
	for _, src := range stmt.Sources {
		switch s := src.(type) {
		case *influxql.SubQuery:
			a.level(s.Statement, cond.Range)
		case *influxql.Measurement:
			a.source(stmt, cond, s)
		}
		if a.ended || len(a.texts) == maxTexts {
			return
		}
	}
}

func isCall(d *influxql.Dimension) bool {
	_, ok := d.Expr.(*influxql.Call)
	return ok
}

// source finds the reason in one source of a statement.
func (a *Asker) source(stmt *influxql.SelectStatement, cond expr.Condition, m *influxql.Measurement) {
	view, err := a.Storage.View(m.Database, m.RetentionPolicy, model.AllTime)
	if a.failed(err) {
		return
	}
	defer view.Release()
	shards := slices.Clone(view.Shards())
	slices.Reverse(shards) // newest first
	where := influxql.QuoteIdent(clip(m.Database)) + "." + influxql.QuoteIdent(clip(m.RetentionPolicy))
	name := m.Name
	if m.Regex != nil {
		names, whole := a.names(shards)
		at := slices.IndexFunc(names, m.Regex.Val.MatchString)
		if at < 0 {
			if whole {
				a.say(fmt.Sprintf("no measurement in %s matches %s", where, clip(m.Regex.String())))
			}
			return
		}
		name = names[at]
	}
	k := &known{Asker: a, name: name, types: map[string][]model.FieldType{}}
	for _, s := range shards {
		if !a.look() {
			return
		}
		if len(s.Fields(name)) > 0 {
			k.shards = append(k.shards, s.Charged(a.Keep))
		}
	}
	if len(k.shards) == 0 {
		text := fmt.Sprintf("measurement %s does not exist in %s", quoted(name), where)
		names, whole := a.names(shards)
		if whole && len(names) == 0 {
			text += ", which has no measurements"
		}
		a.say(text + a.meant(name, names))
		return
	}
	if !k.readTagKeys() {
		return
	}
	text := k.selected(stmt.Fields)
	if text == "" {
		text = k.condition(cond.Expr)
	}
	if text == "" && !a.ended {
		text = k.times(cond)
	}
	a.say(text)
}

// names returns sorted names of measurements, and whether they are all. It stops at the
// shard with which they are too many.
func (a *Asker) names(shards []scan.Shard) (names []string, whole bool) {
	for i, s := range shards {
		if !a.look() {
			return names, false
		}
		list := s.Measurements()
		if a.failed(a.Keep(int64(len(list)) * 16)) {
			return names, false
		}
		if names = union(names, list); len(names) > maxNames {
			return names, i == len(shards)-1
		}
	}
	return names, true
}
