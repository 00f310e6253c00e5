package query

import (
	"context"

	"tsdbd/column"
	"tsdbd/meta"
	"tsdbd/model"
)

// Admin is what statements change and ask of a store beside its data.
type Admin interface {
	// Catalog returns the present catalog.
	Catalog() *meta.Data
	// Apply changes the catalog. The data of shards that leave it, by the drop
	// of a database, policy or shard, is gone for readers when Apply returns.
	Apply(ctx context.Context, cmd meta.Command) error
	// Delete removes rows, durably, before it returns.
	Delete(ctx context.Context, req DeleteRequest) error
}

// DeleteRequest says which rows go: those of the selected series with times in
// Range, all fields of them. A series that is left without rows disappears from
// the index, and a measurement that is left without series forgets its fields.
type DeleteRequest struct {
	Database        string
	RetentionPolicy string // "" is all policies of the database
	// Measurement selects measurements by name; nil is all.
	Measurement func(name string) bool
	// Where gives the predicate over the series of a measurement with these
	// fields (it depends on them whether a name is a tag); nil is all series.
	// It is called for each shard and may refuse; the error is the statement's,
	// with "shard N: " before it.
	Where func(measurement string, fields []column.Field) (*model.TagExpr, error)
	Range model.TimeRange
}
