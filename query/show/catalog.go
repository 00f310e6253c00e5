package show

import (
	"maps"
	"slices"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query/result"
)

// ShowDatabases lists the databases that the user may see.
func (s *Statement) ShowDatabases(*influxql.ShowDatabasesStatement) ([]*result.Series, error) {
	t := result.NewTable("databases", "name")
	for _, db := range s.Catalog().Databases {
		if s.MaySee == nil || s.MaySee(db.Name) {
			t.AddRow(db.Name)
		}
	}
	return []*result.Series{t}, nil
}

// ShowRetentionPolicies has InfluxDB's two columns of write limits, and the age after which shards
// go to the cold store, only where some policy of the database has one: clients know five columns.
// The age comes last, because some of them know the columns by their places.
func (s *Statement) ShowRetentionPolicies(st *influxql.ShowRetentionPoliciesStatement) ([]*result.Series, error) {
	db, err := s.Database(st.Database)
	if err != nil {
		return nil, err
	}
	columns := []string{"name", "duration", "shardGroupDuration", "replicaN"}
	limits := slices.ContainsFunc(db.RetentionPolicies, func(rp *meta.RetentionPolicy) bool {
		return rp.FutureWriteLimit != 0 || rp.PastWriteLimit != 0
	})
	if limits {
		columns = append(columns, "futureWriteLimit", "pastWriteLimit")
	}
	columns = append(columns, "default")
	cold := slices.ContainsFunc(db.RetentionPolicies, func(rp *meta.RetentionPolicy) bool { return rp.ColdAfter != 0 })
	if cold {
		columns = append(columns, "coldAfter")
	}
	t := result.NewTable("", columns...)
	for _, rp := range db.RetentionPolicies {
		row := []any{rp.Name, rp.Duration.String(), rp.ShardGroupDuration.String(), rp.ReplicaN}
		if limits {
			row = append(row, rp.FutureWriteLimit.String(), rp.PastWriteLimit.String())
		}
		row = append(row, rp.Name == db.DefaultRetentionPolicy)
		if cold {
			row = append(row, coldAfter(rp))
		}
		t.AddRow(row...)
	}
	return []*result.Series{t}, nil
}

// coldAfter is how long after its end a shard of a policy goes to the cold store: "INF" is never, and
// "0s" as the server has it.
func coldAfter(rp *meta.RetentionPolicy) string {
	if rp.ColdAfter < 0 {
		return "INF"
	}
	return rp.ColdAfter.String()
}

// expiryTime is when all data of the group is older than its policy keeps, or
// "" for a policy that keeps it forever.
func expiryTime(rp *meta.RetentionPolicy, g *meta.ShardGroup) string {
	if rp.Duration == 0 {
		return ""
	}
	return time.Unix(0, g.End).UTC().Add(rp.Duration).Format(time.RFC3339)
}

// ShowShards has a table of shards for each database.
func (s *Statement) ShowShards(*influxql.ShowShardsStatement) ([]*result.Series, error) {
	var tables []*result.Series
	for _, db := range s.Catalog().Databases {
		t := result.NewTable(db.Name, "id", "database", "retention_policy", "shard_group", "start_time", "end_time", "expiry_time", "owners")
		for _, rp := range db.RetentionPolicies {
			for _, g := range rp.ShardGroups {
				for _, shard := range g.Shards {
					t.AddRow(int64(shard.ID), db.Name, rp.Name, int64(g.ID), result.FormatTime(g.Start), result.FormatTime(g.End), expiryTime(rp, g), "")
				}
			}
		}
		tables = append(tables, t)
	}
	if t := acceptedLosses(s.Catalog()); t.Rows > 0 {
		tables = append(tables, t)
	}
	return tables, nil
}

// acceptedLosses returns a table of what administrators have given up.
func acceptedLosses(data *meta.Data) *result.Series {
	t := result.NewTable("accepted losses", "id", "database", "retention_policy", "start_time", "end_time", "file")
	for _, l := range data.AcceptedLosses {
		db, rp := "", "" // of the log
		if at, ok := data.Shard(l.Shard); ok {
			db, rp = at.Database.Name, at.Policy.Name
		}
		t.AddRow(int64(l.Shard), db, rp, result.FormatTime(l.Range.Min), result.FormatTime(l.Range.Max), l.File)
	}
	return t
}

// ShowShardGroups lists the shard groups of all databases.
func (s *Statement) ShowShardGroups(*influxql.ShowShardGroupsStatement) ([]*result.Series, error) {
	t := result.NewTable("shard groups", "id", "database", "retention_policy", "start_time", "end_time", "expiry_time")
	for _, db := range s.Catalog().Databases {
		for _, rp := range db.RetentionPolicies {
			for _, g := range rp.ShardGroups {
				t.AddRow(int64(g.ID), db.Name, rp.Name, result.FormatTime(g.Start), result.FormatTime(g.End), expiryTime(rp, g))
			}
		}
	}
	return []*result.Series{t}, nil
}

// ShowUsers lists the users.
func (s *Statement) ShowUsers(*influxql.ShowUsersStatement) ([]*result.Series, error) {
	t := result.NewTable("", "user", "admin")
	for _, u := range s.Catalog().Users {
		t.AddRow(u.Name, u.Admin)
	}
	return []*result.Series{t}, nil
}

// ShowGrants lists the databases that a user may use, and how.
func (s *Statement) ShowGrants(st *influxql.ShowGrantsForUserStatement) ([]*result.Series, error) {
	u := s.Catalog().User(st.Name)
	if u == nil {
		return nil, meta.ErrUserNotFound
	}
	t := result.NewTable("", "database", "privilege")
	for _, db := range slices.Sorted(maps.Keys(u.Privileges)) {
		t.AddRow(db, u.Privileges[db].String())
	}
	return []*result.Series{t}, nil
}

// ShowContinuousQueries has a table for each database that the user may read.
func (s *Statement) ShowContinuousQueries(*influxql.ShowContinuousQueriesStatement) ([]*result.Series, error) {
	var tables []*result.Series
	for _, db := range s.readable() {
		t := result.NewTable(db.Name, "name", "query")
		for _, cq := range db.ContinuousQueries {
			t.AddRow(cq.Name, cq.Query)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// ShowSubscriptions shows the destinations as arrays.
func (s *Statement) ShowSubscriptions(*influxql.ShowSubscriptionsStatement) ([]*result.Series, error) {
	var tables []*result.Series
	for _, db := range s.Catalog().Databases {
		t := result.NewTable(db.Name, "retention_policy", "name", "mode", "destinations")
		t.Lists = map[int][][]string{3: nil}
		for _, rp := range db.RetentionPolicies {
			for _, sub := range rp.Subscriptions {
				t.AddRow(rp.Name, sub.Name, sub.Mode, "")
				t.Lists[3] = append(t.Lists[3], sub.Destinations)
			}
		}
		if t.Rows > 0 {
			tables = append(tables, t)
		}
	}
	return tables, nil
}
