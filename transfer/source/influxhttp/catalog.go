package influxhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"tsdbd/exchange"
	"tsdbd/meta"
	"tsdbd/model"
)

// Catalog is what a server says about its databases.
type Catalog struct {
	Data        *meta.Data
	Queries     []exchange.Continuous
	Downsamples []exchange.Downsample
	// Statements are what an administrator has to run by hand at the target: users,
	// because no server shows passwords, and subscriptions, because one of them may lead
	// to the target itself.
	Statements []string
	// Notes say what the server does not show.
	Notes []string

	groups map[place][]model.TimeRange // nil: the server does not tell shard groups
	// hidden is the end of a group whose start has wrapped around. Its server looks into it
	// only if a query names no times.
	hidden map[place]int64
}

// own are databases that servers keep for themselves.
var own = []string{"_internal", "_monitoring", "_tasks"}

// Catalog asks for the databases that f chooses.
func (s *Server) Catalog(ctx context.Context, f *exchange.Filter) (*Catalog, error) {
	c := &Catalog{Data: &meta.Data{}}
	names, err := s.databases(ctx)
	if err != nil && f.Database == "" {
		return nil, fmt.Errorf("list the databases: %w", explain(err))
	}
	if err != nil {
		names = []string{f.Database} // InfluxDB 3.x lets few users list them
	}
	for _, name := range names {
		db, policy, _ := strings.Cut(name, "/")
		if s.kind != influx3 {
			db, policy = name, ""
		}
		if f.Database != "" && db != f.Database || f.Database == "" && slices.Contains(own, db) {
			continue
		}
		d := c.database(db)
		if d == nil {
			d = &meta.Database{Name: db}
			c.Data.Databases = append(c.Data.Databases, d)
		}
		if err := s.policies(ctx, d, policy); err != nil {
			return nil, explain(err)
		}
	}
	if s.kind == influx2 {
		if err := s.buckets(ctx, c, f); refusal(err) {
			c.Notes = append(c.Notes, fmt.Sprintf("the server does not tell its buckets, so their durations are not known, and buckets without a mapping are missing: %v", err))
		} else if err != nil {
			return nil, fmt.Errorf("list the buckets: %w", err)
		}
	}
	if err := c.check(f); err != nil {
		if s.kind == influx2 && f.Database != "" && c.database(f.Database) == nil {
			err = fmt.Errorf("%w; InfluxDB 2.x shows a bucket by a mapping only, which makes: %s", err, mapCommand("ID", f.Database))
		}
		return nil, err
	}
	for _, part := range []struct {
		name string
		ask  func(context.Context, *Catalog) error
		of   []serverKind
	}{
		{"shards", s.shards, []serverKind{unknownServer, influx1, tsdbd}},
		{"continuous queries", s.continuous, []serverKind{unknownServer, influx1, tsdbd}},
		{"downsamples", s.downsamples, []serverKind{tsdbd}},
		{"subscriptions", s.subscriptions, []serverKind{unknownServer, influx1, tsdbd}},
		{"users", s.users, []serverKind{unknownServer, influx1, tsdbd}},
	} {
		if !slices.Contains(part.of, s.kind) {
			continue
		}
		if err := part.ask(ctx, c); refusal(err) {
			c.Notes = append(c.Notes, fmt.Sprintf("the server does not tell its %s: %v", part.name, err))
		} else if err != nil {
			return nil, fmt.Errorf("list the %s: %w", part.name, err)
		}
	}
	if s.kind == influx2 || s.kind == influx3 {
		c.Notes = append(c.Notes, s.Product+" does not tell its tasks, users, and tokens")
	}
	return c, nil
}

// database returns a database, or nil.
func (c *Catalog) database(name string) *meta.Database {
	for _, d := range c.Data.Databases {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// check refuses a filter that names what the server lacks.
func (c *Catalog) check(f *exchange.Filter) error {
	if f.Database != "" {
		d := c.database(f.Database)
		if d == nil {
			return fmt.Errorf("the old server has no database %q, or the login may not read it", f.Database)
		}
		if f.RetentionPolicy != "" && d.RetentionPolicy(f.RetentionPolicy) == nil {
			return fmt.Errorf("the old server has no retention policy %q in the database %q", f.RetentionPolicy, f.Database)
		}
	}
	rest := *f
	if rest.Database = ""; f.Database != "" {
		rest.RetentionPolicy = ""
	}
	return rest.Check(c.Data)
}

// refusal reports that a server works and does not answer a statement.
func refusal(err error) bool {
	var q *exchange.QueryError
	var w *exchange.WriteError
	return errors.As(err, &q) || errors.As(err, &w) && w.Status/100 == 4 && w.Status != http.StatusTooManyRequests
}

// databases returns the names of the databases.
func (s *Server) databases(ctx context.Context) ([]string, error) {
	tables, err := s.ask(ctx, place{}, "SHOW DATABASES")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range tables {
		for _, row := range t.Values {
			deleted, _ := t.At(row, "deleted").(bool) // 3.x keeps them for a while
			if name := t.Text(row, "name", "iox::database"); name != "" && !deleted {
				out = append(out, name)
			}
		}
	}
	return out, nil
}

// policies adds the policies of a database. only names the one policy of a database of
// InfluxDB 3.x.
func (s *Server) policies(ctx context.Context, d *meta.Database, only string) error {
	p := place{database: d.Name, policy: only}
	q := "SHOW RETENTION POLICIES"
	if s.kind != influx3 {
		q += " ON " + exchange.QuoteIdent(d.Name)
	}
	tables, err := s.ask(ctx, p, q)
	if err != nil && !(s.kind == influx3 && refusal(err)) {
		return fmt.Errorf("list the retention policies of %s: %w", d.Name, err)
	}
	if s.kind == influx3 {
		rp := &meta.RetentionPolicy{Name: cmp.Or(only, autogen), ReplicaN: 1}
		for _, t := range tables {
			for _, row := range t.Values {
				rp.Duration = duration(t.At(row, "duration"))
			}
		}
		rp.ShardGroupDuration = meta.ShardDurations{}.For(rp.Duration)
		d.RetentionPolicies = append(d.RetentionPolicies, rp)
		if only == "" || d.DefaultRetentionPolicy == "" {
			d.DefaultRetentionPolicy = rp.Name
		}
		return nil
	}
	for _, t := range tables {
		for _, row := range t.Values {
			rp := &meta.RetentionPolicy{
				Name: t.Text(row, "name"), ReplicaN: 1,
				Duration:           duration(t.At(row, "duration")),
				ShardGroupDuration: duration(t.At(row, "shardGroupDuration")),
				FutureWriteLimit:   duration(t.At(row, "futureWriteLimit")),
				PastWriteLimit:     duration(t.At(row, "pastWriteLimit")),
				ColdAfter:          duration(t.At(row, "coldAfter")),
			}
			if t.Text(row, "coldAfter") == "INF" {
				rp.ColdAfter = meta.NeverCold
			}
			if rp.ShardGroupDuration <= 0 {
				rp.ShardGroupDuration = meta.ShardDurations{}.For(rp.Duration)
			}
			// InfluxDB 2.x tells a mapping twice that has the name of its bucket.
			if d.RetentionPolicy(rp.Name) == nil {
				d.RetentionPolicies = append(d.RetentionPolicies, rp)
			}
			if is, _ := t.At(row, "default").(bool); is {
				d.DefaultRetentionPolicy = rp.Name
			}
		}
	}
	return nil
}

// duration reads a duration, as text or as nanoseconds; 0 is without end.
func duration(v any) time.Duration {
	switch v := v.(type) {
	case string:
		if d, err := time.ParseDuration(v); err == nil {
			return d
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return time.Duration(n)
		}
	}
	return 0
}

// shards notes the times of all shard groups.
func (s *Server) shards(ctx context.Context, c *Catalog) error {
	tables, err := s.ask(ctx, place{}, "SHOW SHARDS")
	if err != nil {
		return err
	}
	groups, hidden := map[place][]model.TimeRange{}, map[place]int64{}
	for _, t := range tables {
		for _, row := range t.Values {
			start, err1 := time.Parse(time.RFC3339Nano, t.Text(row, "start_time"))
			end, err2 := time.Parse(time.RFC3339Nano, t.Text(row, "end_time"))
			if err := errors.Join(err1, err2); err != nil {
				return &exchange.QueryError{Text: err.Error()}
			}
			p := place{t.Text(row, "database"), t.Text(row, "retention_policy")}
			r := groupTimes(start, end)
			if start.After(end) {
				hidden[p] = r.Max + 1
			}
			if !slices.Contains(groups[p], r) { // a group of a cluster has several shards
				groups[p] = append(groups[p], r)
			}
		}
	}
	for _, of := range groups {
		slices.SortFunc(of, func(a, b model.TimeRange) int { return cmp.Compare(a.Min, b.Min) })
	}
	c.groups, c.hidden = groups, hidden
	return nil
}

// groupTimes returns the times of a shard group by the seconds that InfluxDB shows. At the
// bounds of all time they are not what they should be: the start of the first group has
// wrapped around, and the end of the last one lacks a part of a second.
func groupTimes(start, end time.Time) model.TimeRange {
	r := model.TimeRange{Min: model.Nanoseconds(start), Max: model.Nanoseconds(end) - 1}.Intersect(model.AllTime)
	if end.Unix() >= model.AllTime.Max/int64(time.Second) {
		r.Max = model.AllTime.Max
	}
	if r.Empty() {
		r.Min = model.AllTime.Min
	}
	return r
}

func (s *Server) continuous(ctx context.Context, c *Catalog) error {
	return s.each(ctx, c, "SHOW CONTINUOUS QUERIES", func(t *exchange.Table, row []any) error {
		c.Queries = append(c.Queries, exchange.Continuous{Database: t.Name, Name: t.Text(row, "name"), Query: t.Text(row, "query")})
		return nil
	})
}

func (s *Server) downsamples(ctx context.Context, c *Catalog) error {
	err := s.each(ctx, c, "SHOW DOWNSAMPLES", func(t *exchange.Table, row []any) error {
		text := t.Text(row, "statement")
		if text == "" { // of a version that does not say it
			text = fmt.Sprintf("CREATE DOWNSAMPLE ON %s FROM %s INTO %s EVERY %s AS %s", exchange.QuoteIdent(t.Name), exchange.QuoteIdent(t.Text(row, "from")),
				exchange.QuoteIdent(t.Text(row, "into")), t.Text(row, "every"), t.Text(row, "functions"))
			if where := t.Text(row, "where"); where != "" {
				text += " WHERE " + where
			}
		}
		d, err := exchange.ParseDownsample(text)
		if err != nil {
			return fmt.Errorf("a downsample of %s: %w", t.Name, err)
		}
		c.Downsamples = append(c.Downsamples, d)
		return nil
	})
	if refusal(err) && strings.Contains(err.Error(), "error parsing query") {
		return nil // it is of a version without downsamples
	}
	return err
}

func (s *Server) subscriptions(ctx context.Context, c *Catalog) error {
	return s.each(ctx, c, "SHOW SUBSCRIPTIONS", func(t *exchange.Table, row []any) error {
		var to []string
		list, _ := t.At(row, "destinations").([]any)
		for _, d := range list {
			if d, ok := d.(string); ok {
				to = append(to, "'"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(d)+"'")
			}
		}
		c.Statements = append(c.Statements, fmt.Sprintf("CREATE SUBSCRIPTION %s ON %s.%s DESTINATIONS %s %s", exchange.QuoteIdent(t.Text(row, "name")),
			exchange.QuoteIdent(t.Name), exchange.QuoteIdent(t.Text(row, "retention_policy")), t.Text(row, "mode"), strings.Join(to, ", ")))
		return nil
	})
}

// each calls do for the rows of a SHOW statement whose tables are databases that come along.
func (s *Server) each(ctx context.Context, c *Catalog, statement string, do func(t *exchange.Table, row []any) error) error {
	tables, err := s.ask(ctx, place{}, statement)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if c.database(t.Name) == nil {
			continue
		}
		for _, row := range t.Values {
			if err := do(&t, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// users adds the statements that create users with the rights that they have. No server
// shows passwords.
func (s *Server) users(ctx context.Context, c *Catalog) error {
	tables, err := s.ask(ctx, place{}, "SHOW USERS")
	if err != nil {
		return err
	}
	for _, t := range tables {
		for _, row := range t.Values {
			name := exchange.QuoteIdent(t.Text(row, "user"))
			q := fmt.Sprintf("CREATE USER %s WITH PASSWORD '...'", name)
			if admin, _ := t.At(row, "admin").(bool); admin {
				q += " WITH ALL PRIVILEGES"
			}
			c.Statements = append(c.Statements, q)
			grants, err := s.ask(ctx, place{}, "SHOW GRANTS FOR "+name)
			if err != nil {
				return err
			}
			for _, g := range grants {
				for _, row := range g.Values {
					right := strings.TrimSuffix(g.Text(row, "privilege"), " PRIVILEGES")
					if db := g.Text(row, "database"); right != "NO" && right != "" && c.database(db) != nil {
						c.Statements = append(c.Statements, fmt.Sprintf("GRANT %s ON %s TO %s", right, exchange.QuoteIdent(db), name))
					}
				}
			}
		}
	}
	return nil
}
