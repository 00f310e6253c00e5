package route

import (
	"context"
	"fmt"

	"tsdbd/model/point"
	"tsdbd/shard"
	"tsdbd/store/cardinality"
	"tsdbd/tsi"
)

// newcomers are the fields and, in a database with limits, the series that a
// write brings. The write holds them from its checks until its entry is applied
// or refused. What is applied the shards know by then; the rest leaves no trace.
type newcomers struct {
	fields []*tsi.FieldClaim      // by target; nil: the target got no new field
	room   *cardinality.Admission // nil: the database has no limits, or the batch no new series
}

// giveBack ends the write's hold on its newcomers.
func (r *Router) giveBack() {
	for _, c := range r.newcomers.fields {
		if c != nil {
			c.TakeBack(0)
		}
	}
	if a := r.newcomers.room; a != nil {
		shards := make([]*shard.Shard, len(r.Targets))
		for i := range r.Targets {
			shards[i] = r.Targets[i].Shard
		}
		a.Release(shards)
	}
	r.newcomers = newcomers{}
}

// known reports whether a series has an id, and gives it to one that does not know it yet.
func (r *Router) known(sr *point.Series) bool {
	if sr.ID() != 0 {
		return true
	}
	id, ok := r.Series.Lookup(sr.Key())
	if ok && !r.Series.Claimed(id) {
		sr.SetID(id)
	}
	return ok
}

// register drops the rows whose fields or series have no place, holds the new
// fields and series of the others, and gives ids to their series. It waits for
// other writes that are giving one of the fields another type: only their entry
// decides which type the field gets.
func (r *Router) register(ctx context.Context) error {
	for r.fresh || r.bringsSeries() {
		tally := r.Tally
		undecided, err := r.place()
		if err != nil {
			return err
		}
		if undecided == nil {
			break
		}
		r.giveBack()
		r.Tally = tally
		select {
		case <-undecided:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return r.identify()
}

// bringsSeries reports whether the database has limits and the batch series
// that their shard does not list.
func (r *Router) bringsSeries() bool {
	if !r.Counter.Limited() {
		return false
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		for k := range t.Rows {
			if !t.Shard.Contains(t.Rows[k].Series.ID()) {
				return true
			}
		}
	}
	return false
}

// place goes through the rows in their order and keeps those whose fields and
// series agree with the rows kept before. If that depends on another write, place
// returns a channel to wait for, and the targets are unchanged.
func (r *Router) place() (undecided <-chan struct{}, err error) {
	r.newcomers.fields = make([]*tsi.FieldClaim, len(r.Targets))
	if r.Counter.Limited() {
		r.newcomers.room = r.Counter.Admission(r.Store.Shards(), r.known)
		defer r.newcomers.room.Begin()()
	}
	placed := make([][]point.Row, len(r.Targets))
	for i := range r.Targets {
		p := placer{r: r, target: i, refused: map[*Layout]string{}, claimed: map[*Layout]bool{}}
		if placed[i], undecided, err = p.rows(r.Targets[i].Rows); undecided != nil || err != nil {
			return undecided, err
		}
	}
	for i := range placed {
		r.Targets[i].Rows = placed[i]
	}
	return nil, nil
}

// placer places the rows of one target.
type placer struct {
	r       *Router
	target  int
	refused map[*Layout]string // new layouts whose fields have no place
	claimed map[*Layout]bool   // new layouts whose fields are claimed
}

// rows returns the rows that are kept.
func (p *placer) rows(rows []point.Row) (kept []point.Row, undecided <-chan struct{}, err error) {
	sh := p.r.Targets[p.target].Shard
	var last *Layout
	kept = make([]point.Row, 0, len(rows))
	for i := range rows {
		row := &rows[i]
		if last == nil || last.Layout != row.Layout {
			last = p.r.Check(row.Layout, p.target)
		}
		ok := true
		if last.Use == nil || last.Fresh && !p.claimed[last] || p.r.newcomers.room != nil && !sh.Contains(row.Series.ID()) {
			if ok, undecided, err = p.row(row, last, sh); undecided != nil || err != nil {
				return nil, undecided, err
			}
		}
		if ok {
			kept = append(kept, *row)
		}
	}
	return kept, nil, nil
}

// row finds a place for a row with new fields or a new series, or drops it.
func (p *placer) row(row *point.Row, c *Layout, sh *shard.Shard) (ok bool, undecided <-chan struct{}, err error) {
	if c.Use == nil { // a field got its type since the first look
		p.r.Drop(c.Reason)
		return false, nil, nil
	}
	if reason := p.refused[c]; reason != "" {
		p.r.Drop(reason)
		return false, nil, nil
	}
	n := &p.r.newcomers
	claim, before := n.fields[p.target], 0
	fresh := c.Fresh && !p.claimed[c]
	if fresh {
		if claim == nil {
			claim = sh.ClaimFields()
			n.fields[p.target] = claim
		}
		before = claim.Len()
		reason, undecided := claim.Add(c.Layout, p.r.Counter.MaxFields)
		if undecided != nil {
			return false, undecided, nil
		}
		if reason != "" {
			p.refused[c] = reason
			p.r.Drop(reason)
			return false, nil, nil
		}
	}
	if n.room != nil && !sh.Contains(row.Series.ID()) {
		reason, err := n.room.Admit(row.Series)
		if err != nil {
			return false, nil, err
		}
		if reason != "" {
			if fresh {
				claim.TakeBack(before)
			}
			p.r.Over++
			p.r.Drop(reason)
			return false, nil, nil
		}
	}
	if fresh {
		p.claimed[c] = true
	}
	return true, nil, nil
}

// identify gives ids to the series of the rows that are to be stored and have
// none. It reserves memory for their keys, which the log and the index of the
// shard copy; known series cost nothing.
func (r *Router) identify() error {
	var fresh []*point.Series
	for i := range r.Targets {
		rows := r.Targets[i].Rows
		for k := range rows {
			if sr := rows[k].Series; sr.ID() == 0 && (len(fresh) == 0 || fresh[len(fresh)-1] != sr) {
				fresh = append(fresh, sr)
			}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	keys := int64(0)
	for _, sr := range fresh {
		keys += int64(sr.KeyLength())
	}
	if err := r.Store.ReserveKeys(keys); err != nil {
		return err
	}
	r.Claims = fresh
	if err := r.Series.ClaimSeries(fresh); err != nil {
		return fmt.Errorf("create series in database %s: %w", r.Database, err)
	}
	return nil
}
