package load

import (
	"context"
	"fmt"
	"slices"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/transfer"
	"tsdbd/transfer/rows"
	"tsdbd/transfer/tsm1"
)

// Source is what is loaded.
type Source struct {
	// Databases have names, policies, continuous queries and subscriptions. Their ids and
	// shard groups do not count.
	Databases []*meta.Database
	Users     []*meta.User
	// Parts are in order: of two rows of a series with the same time that of the later
	// part wins, field by field.
	Parts []*Part
}

// Refuse takes rows that cannot be stored, which are valid during the call, and why.
type Refuse func(reason string, run *rows.Run)

// Part is rows that are read together, such as a shard.
type Part struct {
	Database, Policy string
	ID               uint64
	Times            model.TimeRange // of its rows, at most
	Bytes            int64           // of its files
	Values           int64           // about; 0: not known
	// Open reads the rows within times. Series come in ascending order of their keys. Rows
	// that cannot be stored go to refuse.
	Open func(ctx context.Context, times model.TimeRange, refuse Refuse) (rows.Reader, error)
}

func (p *Part) name() string { return fmt.Sprintf("shard %d of %s.%s", p.ID, p.Database, p.Policy) }

// InfluxDB returns the data of InfluxDB as a source.
func InfluxDB(src *tsm1.Source) *Source {
	s := &Source{Databases: src.Catalog().Databases, Users: src.Catalog().Users}
	for _, sh := range src.Shards() {
		s.Parts = append(s.Parts, &Part{
			Database: sh.Database, Policy: sh.Policy, ID: sh.ID, Times: sh.Times, Bytes: sh.TSMBytes + sh.WALBytes, Values: sh.Values,
			Open: func(ctx context.Context, times model.TimeRange, refuse Refuse) (rows.Reader, error) {
				return src.Rows(ctx, sh, times, func(_ tsm1.Refusal, reason string, run *rows.Run) { refuse(reason, run) })
			},
		})
	}
	return s
}

// isSystem reports whether servers keep a database about themselves: statistics of 1.x, and
// runs of checks and of tasks of 2.x. It moves only by its name.
func isSystem(database string) bool {
	return database == "_internal" || database == "_monitoring" || database == "_tasks"
}

// LeftOut returns the databases with points that a filter leaves out unless it names them.
func (s *Source) LeftOut(f *transfer.Filter) (names []string) {
	for _, p := range s.Parts {
		if f.Database == "" && isSystem(p.Database) && !slices.Contains(names, p.Database) {
			names = append(names, p.Database)
		}
	}
	return names
}

// choose returns the parts and the databases with the policies that a filter chooses.
func (s *Source) choose(f *transfer.Filter) (*Source, error) {
	if f.Database == "" && f.RetentionPolicy != "" {
		return nil, fmt.Errorf("a retention policy can be chosen only together with its database")
	}
	out := &Source{}
	for _, d := range s.Databases {
		if f.Database == "" && isSystem(d.Name) {
			continue
		}
		c := *d
		c.RetentionPolicies = nil
		for _, rp := range d.RetentionPolicies {
			if f.WantsPolicy(d, rp) {
				c.RetentionPolicies = append(c.RetentionPolicies, rp)
			}
		}
		if f.Database == "" || f.Database == d.Name && len(c.RetentionPolicies) > 0 {
			out.Databases = append(out.Databases, &c)
		}
	}
	if f.Database == "" {
		out.Users = s.Users
	} else if len(out.Databases) == 0 {
		return nil, fmt.Errorf("the source has no database %q with such a retention policy", f.Database)
	}
	shards := map[uint64]bool{}
	for _, id := range f.Shards {
		shards[id] = true
	}
	for _, id := range f.Shards {
		if !slices.ContainsFunc(s.Parts, func(p *Part) bool { return p.ID == id && (f.Database == "" || f.Database == p.Database) }) {
			return nil, fmt.Errorf("the source has no shard %d", id)
		}
	}
	for _, p := range s.Parts {
		if (f.Database == "" && !isSystem(p.Database) || f.Database == p.Database) && (f.RetentionPolicy == "" || f.RetentionPolicy == p.Policy) && (len(shards) == 0 || shards[p.ID]) && p.Times.Overlaps(f.Times()) {
			out.Parts = append(out.Parts, p)
		}
	}
	return out, nil
}

// Amount is how much there is of a database.
type Amount struct {
	Database, Policy string
	Shards           int
	Times            model.TimeRange
	Bytes, Values    int64 // values are an estimate
}

// Survey returns what a load would read, by policy in the order of the source.
func (s *Source) Survey(f *transfer.Filter) ([]Amount, error) {
	chosen, err := s.choose(f)
	if err != nil {
		return nil, err
	}
	var out []Amount
	place := map[[2]string]int{}
	for _, d := range chosen.Databases {
		for _, rp := range d.RetentionPolicies {
			place[[2]string{d.Name, rp.Name}] = len(out)
			out = append(out, Amount{Database: d.Name, Policy: rp.Name, Times: model.TimeRange{Min: 1, Max: 0}})
		}
	}
	for _, p := range chosen.Parts {
		name := [2]string{p.Database, p.Policy}
		i, ok := place[name]
		if !ok {
			i = len(out)
			place[name] = i
			out = append(out, Amount{Database: p.Database, Policy: p.Policy, Times: model.TimeRange{Min: 1, Max: 0}})
		}
		a := &out[i]
		if a.Shards++; a.Shards == 1 {
			a.Times = p.Times
		} else {
			a.Times = a.Times.Union(p.Times)
		}
		a.Bytes += p.Bytes
		a.Values += p.Values
	}
	return out, nil
}
