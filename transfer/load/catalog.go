package load

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tsdbd/meta"
	"tsdbd/transfer"
)

// target returns the name that a database of the source gets.
func (s *state) target(database string) string {
	if database == s.opt.Filter.Database {
		return cmp.Or(s.opt.NewDatabase, database)
	}
	return database
}

// makeCatalog gives a store the databases and policies of the source, and what else its
// catalog has.
func (s *state) makeCatalog(ctx context.Context, src *Source, to transfer.Catalog) error {
	for _, d := range src.Databases {
		if err := s.makeDatabase(ctx, d, to); err != nil {
			return fmt.Errorf("database %s: %w", d.Name, err)
		}
	}
	defined, err := transfer.MakeDefinitions(ctx, to, s.definitions(src))
	s.change(func(r *Result) { r.Defined = defined })
	return err
}

// makeDatabase makes a database and its policies as far as they are not there.
func (s *state) makeDatabase(ctx context.Context, d *meta.Database, to transfer.Catalog) error {
	name := s.target(d.Name)
	if to.Catalog().Database(name) == nil {
		if err := to.Apply(ctx, meta.CreateDatabase{Name: name, WithoutPolicy: true}); err != nil {
			return err
		}
		s.change(func(r *Result) { r.Databases++ })
	}
	for _, rp := range d.RetentionPolicies {
		have := to.Catalog().Database(name)
		if old := have.RetentionPolicy(rp.Name); old != nil {
			if old.Duration != rp.Duration || old.ShardGroupDuration != rp.ShardGroupDuration {
				s.note(fmt.Sprintf("retention policy %s.%s is there already and stays as it is: it keeps points %s in shards of %s, that of InfluxDB %s in shards of %s",
					name, rp.Name, forever(old.Duration), old.ShardGroupDuration, forever(rp.Duration), rp.ShardGroupDuration))
			}
			continue
		}
		replicas := max(rp.ReplicaN, 1)
		err := to.Apply(ctx, meta.CreateRetentionPolicy{
			Database: name,
			Policy:   meta.RetentionPolicySpec{Name: rp.Name, Duration: &rp.Duration, ShardGroupDuration: &rp.ShardGroupDuration, ReplicaN: &replicas},
			Default:  rp.Name == d.DefaultRetentionPolicy && have.RetentionPolicy(have.DefaultRetentionPolicy) == nil,
		})
		if err != nil {
			return fmt.Errorf("retention policy %s: %w", rp.Name, err)
		}
		s.change(func(r *Result) { r.Policies++ })
	}
	return nil
}

func forever(d time.Duration) string {
	if d == 0 {
		return "forever"
	}
	return d.String()
}

// definitions returns what the source has besides databases and policies. Queries and
// users name databases, which a new name would make wrong.
func (s *state) definitions(src *Source) *transfer.Definitions {
	out := &transfer.Definitions{Users: src.Users}
	renamed := s.opt.NewDatabase != "" && s.opt.NewDatabase != s.opt.Filter.Database
	if s.opt.Filter.Database != "" {
		s.note("users are left out: only the database " + s.opt.Filter.Database + " is imported")
	}
	for _, d := range src.Databases {
		if renamed && len(d.ContinuousQueries) > 0 {
			s.note(fmt.Sprintf("%d continuous queries are left out, because they name database %s", len(d.ContinuousQueries), d.Name))
		} else {
			for _, q := range d.ContinuousQueries {
				out.Queries = append(out.Queries, transfer.Continuous{Database: d.Name, Name: q.Name, Query: q.Query})
			}
		}
		for _, rp := range d.RetentionPolicies {
			for _, sub := range rp.Subscriptions {
				out.Subscriptions = append(out.Subscriptions, transfer.Subscription{Database: s.target(d.Name), RetentionPolicy: rp.Name, Subscription: sub})
			}
		}
	}
	return out
}

// limits returns the limits of write times of the source, and notes them.
func (s *state) limits(src *Source) *transfer.Definitions {
	out := &transfer.Definitions{}
	for _, d := range src.Databases {
		out.Limits = append(out.Limits, transfer.Limits(d, s.target(d.Name))...)
	}
	for _, l := range out.Limits {
		s.note(fmt.Sprintf("%s.%s refuses writes beyond its limits from now on, as in InfluxDB, unless it had other limits: %s", l.Database, l.RetentionPolicy, l.Statement()))
	}
	return out
}

// checkUsers notes the users that exist and stay as they are.
func (s *state) checkUsers(src *Source, made transfer.Defined) {
	if n := len(src.Users) - made.Users; n > 0 && s.opt.Filter.Database == "" {
		s.note(fmt.Sprintf("%d of %d users are there already and stay as they are", n, len(src.Users)))
	}
}
