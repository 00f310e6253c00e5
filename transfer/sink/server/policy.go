package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/exchange"
)

// DefaultPolicy makes a database, and returns its default retention policy.
func DefaultPolicy(ctx context.Context, client *exchange.Client, database string) (string, error) {
	name := influxql.QuoteIdent(database)
	if err := client.Query(ctx, "CREATE DATABASE "+name); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	var answer struct {
		Results []struct {
			Error  string
			Series []struct {
				Columns []string
				Values  [][]any
			}
		}
	}
	if err := client.Ask(ctx, http.MethodPost, "/query", url.Values{"q": {"SHOW RETENTION POLICIES ON " + name}}, nil, nil, &answer); err != nil {
		return "", fmt.Errorf("ask for the default retention policy: %w", err)
	}
	for _, r := range answer.Results {
		if r.Error != "" {
			return "", fmt.Errorf("ask for the default retention policy: %s", r.Error)
		}
		for _, s := range r.Series {
			at, is := slices.Index(s.Columns, "name"), slices.Index(s.Columns, "default")
			for _, row := range s.Values {
				if len(row) == len(s.Columns) && at >= 0 && is >= 0 && row[is] == true {
					policy, _ := row[at].(string)
					return policy, nil
				}
			}
		}
	}
	return "", fmt.Errorf("database %s has no default retention policy, give -rp", database)
}
