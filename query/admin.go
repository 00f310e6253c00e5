package query

import (
	"context"

	"tsdbd/meta"
	"tsdbd/model/scan"
)

// Admin is what statements change and ask of a store beside its data.
type Admin interface {
	// Catalog returns the present catalog.
	Catalog() *meta.Data
	// Apply changes the catalog. The data of shards that leave it, by the drop
	// of a database, policy or shard, is gone for readers when Apply returns.
	Apply(ctx context.Context, cmd meta.Command) error
	// Delete removes rows, durably, before it returns.
	Delete(ctx context.Context, req scan.DeleteRequest) error
}
