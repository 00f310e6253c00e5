package influxhttp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tsdbd/exchange"
	"tsdbd/meta"
)

// bucket is a bucket of InfluxDB 2.x.
type bucket struct {
	ID, OrgID, Name, Type string
	RetentionRules        []struct{ EverySeconds, ShardGroupDurationSeconds int64 }
}

// mapping is the name that the API of 1.x has for a bucket. A virtual one is made of the
// name of the bucket.
type mapping struct {
	Database string
	Policy   string `json:"retention_policy"`
	BucketID string
	Virtual  bool
}

// bucketPage is how many buckets InfluxDB 2.x tells at once.
const bucketPage = 100

// buckets takes in what InfluxQL does not tell about InfluxDB 2.x: how long buckets keep
// rows, which of them have two names, and which have none.
func (s *Server) buckets(ctx context.Context, c *Catalog, f *exchange.Filter) error {
	var all []bucket
	for more := true; more; {
		var page struct{ Buckets []bucket }
		params := url.Values{"limit": {strconv.Itoa(bucketPage)}, "offset": {strconv.Itoa(len(all))}}
		if err := s.client.Ask(ctx, http.MethodGet, "/api/v2/buckets", params, nil, nil, &page); err != nil {
			return err
		}
		all = append(all, page.Buckets...)
		more = len(page.Buckets) == bucketPage
	}
	mappings := map[string][]mapping{} // by bucket
	asked := map[string]bool{}
	for _, b := range all {
		if asked[b.OrgID] {
			continue
		}
		asked[b.OrgID] = true
		var answer struct{ Content []mapping }
		if err := s.client.Ask(ctx, http.MethodGet, "/api/v2/dbrps", url.Values{"orgID": {b.OrgID}}, nil, nil, &answer); err != nil {
			return err
		}
		for _, m := range answer.Content {
			mappings[m.BucketID] = append(mappings[m.BucketID], m)
		}
	}
	for _, b := range all {
		of := mappings[b.ID]
		if len(of) == 0 && b.Type != "system" && f.Database == "" {
			c.Notes = append(c.Notes, fmt.Sprintf("the bucket %q has no mapping for InfluxQL, so it does not come along; make one and repeat the import: %s", b.Name, mapCommand(b.ID, b.Name)))
		}
		made := slices.ContainsFunc(of, func(m mapping) bool { return !m.Virtual })
		for _, m := range of {
			switch named := slices.ContainsFunc(of, func(o mapping) bool { return !o.Virtual && o.Database == m.Database && o.Policy == m.Policy }); {
			case m.Virtual && made && !named:
				c.drop(m.Database, m.Policy)
			default:
				b.keep(c, m)
			}
		}
	}
	return nil
}

// keep gives the policy of a mapping the durations of the bucket.
func (b *bucket) keep(c *Catalog, m mapping) {
	d := c.database(m.Database)
	if d == nil || d.RetentionPolicy(m.Policy) == nil || len(b.RetentionRules) == 0 {
		return
	}
	rp := d.RetentionPolicy(m.Policy)
	rp.Duration = time.Duration(b.RetentionRules[0].EverySeconds) * time.Second
	rp.ShardGroupDuration = time.Duration(b.RetentionRules[0].ShardGroupDurationSeconds) * time.Second
	if rp.ShardGroupDuration <= 0 {
		rp.ShardGroupDuration = meta.ShardDurations{}.For(rp.Duration)
	}
}

// drop leaves out a policy whose bucket has another name as well, and a database without
// policies.
func (c *Catalog) drop(database, policy string) {
	d := c.database(database)
	if d == nil {
		return
	}
	d.RetentionPolicies = slices.DeleteFunc(d.RetentionPolicies, func(rp *meta.RetentionPolicy) bool { return rp.Name == policy })
	if d.DefaultRetentionPolicy == policy {
		d.DefaultRetentionPolicy = ""
	}
	if len(d.RetentionPolicies) == 0 {
		c.Data.Databases = slices.DeleteFunc(c.Data.Databases, func(o *meta.Database) bool { return o == d })
	}
}

// mapCommand returns the command that makes a mapping for a bucket.
func mapCommand(bucket, database string) string {
	return fmt.Sprintf("influx v1 dbrp create --bucket-id %s --db %q --rp autogen --default", bucket, database)
}
