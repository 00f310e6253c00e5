package mover

import (
	"fmt"

	"tsdbd/exchange"
)

// definitions returns what a catalog has besides databases and policies. Queries and
// users name databases, which a new name would make wrong.
func (m *Move) definitions(c *Catalog) *exchange.Definitions {
	out := &exchange.Definitions{Users: c.Users}
	only := m.opt.Filter.Database
	renamed := m.Target(only) != only
	if only != "" {
		m.Note("users are left out: only the database " + only + " is imported")
	}
	for _, d := range c.Databases {
		if renamed && len(d.ContinuousQueries) > 0 {
			m.Note(fmt.Sprintf("%d continuous queries are left out, because they name database %s", len(d.ContinuousQueries), d.Name))
		} else {
			for _, q := range d.ContinuousQueries {
				out.Queries = append(out.Queries, exchange.Continuous{Database: d.Name, Name: q.Name, Query: q.Query})
			}
		}
		for _, rp := range d.RetentionPolicies {
			for _, sub := range rp.Subscriptions {
				out.Subscriptions = append(out.Subscriptions, exchange.Subscription{Database: m.Target(d.Name), RetentionPolicy: rp.Name, Subscription: sub})
			}
		}
	}
	return out
}

// limits returns the limits of write times of a catalog, and notes them.
func (m *Move) limits(c *Catalog) *exchange.Definitions {
	out := &exchange.Definitions{}
	for _, d := range c.Databases {
		out.Limits = append(out.Limits, exchange.Limits(d, m.Target(d.Name))...)
	}
	for _, l := range out.Limits {
		m.Note(fmt.Sprintf("%s.%s refuses writes beyond its limits from now on, as in InfluxDB, unless it had other limits: %s", l.Database, l.RetentionPolicy, l.Statement()))
	}
	return out
}
