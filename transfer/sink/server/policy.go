package server

import (
	"context"
	"fmt"

	"github.com/influxdata/influxql"

	"tsdbd/exchange"
)

// DefaultPolicy makes a database, and returns its default retention policy.
func DefaultPolicy(ctx context.Context, client *exchange.Client, database string) (string, error) {
	name := influxql.QuoteIdent(database)
	if err := client.Query(ctx, "CREATE DATABASE "+name); err != nil {
		return "", fmt.Errorf("create database: %w", err)
	}
	tables, err := client.Tables(ctx, "", "SHOW RETENTION POLICIES ON "+name)
	if err != nil {
		return "", fmt.Errorf("ask for the default retention policy: %w", err)
	}
	for _, t := range tables {
		for _, row := range t.Values {
			if t.At(row, "default") == true {
				return t.Text(row, "name"), nil
			}
		}
	}
	return "", fmt.Errorf("database %s has no default retention policy, give -rp", database)
}
