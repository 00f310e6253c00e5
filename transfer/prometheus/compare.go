package prometheus

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/transfer"
	"tsdbd/transfer/compare"
)

// Compare has the server count the metrics that the result has, within times.
func (r *Result) Compare(ctx context.Context, server *transfer.Client, times model.TimeRange) (compare.Totals, error) {
	found := compare.Totals{}
	asked := map[compare.Name]bool{} // policies
	for name := range r.Totals {
		policy := compare.Name{Database: name.Database, Policy: name.Policy}
		if asked[policy] {
			continue
		}
		asked[policy] = true
		all, err := compare.Ask(ctx, server, name.Database, name.Policy, times, nil)
		if err != nil {
			return nil, err
		}
		for name, m := range all {
			if r.Totals[name] != nil {
				m.Series = -1 // nobody has counted those of the source
				found[name] = m
			}
		}
	}
	return found, nil
}

// Fewer returns an error if the server has fewer values of a metric than were read: what an
// earlier run has lost shows here only.
func (r *Result) Fewer(there compare.Totals) error {
	n := 0
	for name, m := range r.Totals {
		if now := there[name]; m.Values() > 0 && (now == nil || now.Values() < m.Values()) {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("the server has fewer values of %d metrics than were read", n)
	}
	return nil
}

// defaultPolicy returns the default retention policy of a database.
func defaultPolicy(ctx context.Context, server *transfer.Client, database string) (string, error) {
	var answer struct {
		Results []struct {
			Error  string
			Series []struct {
				Columns []string
				Values  [][]any
			}
		}
	}
	q := url.Values{"q": {"SHOW RETENTION POLICIES ON " + influxql.QuoteIdent(database)}}
	if err := server.Ask(ctx, http.MethodPost, "/query", q, nil, nil, &answer); err != nil {
		return "", fmt.Errorf("ask for the default retention policy: %w", err)
	}
	for _, r := range answer.Results {
		if r.Error != "" {
			return "", fmt.Errorf("ask for the default retention policy: %s", r.Error)
		}
		for _, s := range r.Series {
			for _, row := range s.Values {
				name, is := "", false
				for i, c := range s.Columns[:min(len(s.Columns), len(row))] {
					switch c {
					case "name":
						name, _ = row[i].(string)
					case "default":
						is, _ = row[i].(bool)
					}
				}
				if is {
					return name, nil
				}
			}
		}
	}
	return "", fmt.Errorf("database %s has no default retention policy, give -rp", database)
}
